package script_test

import (
	"strconv"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// fill runs a script with n = 1 to many.
func (f fair) fill(many int, body string) {
	f.t.Helper()
	keys := []string{
		job, keyspace.FairQueue(job), keyspace.FairDeadlines(job), keyspace.FairOurs(job), keyspace.FairSigns(job),
	}
	source := "local java, ours = '8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:', '8d4f8a6e-2d1c-8f39-8f0b-3c1f5f2a7e90:'\n" +
		"for n = ARGV[1] + 1, ARGV[2] do " + body + " end return 1"
	s := driver.NewScript("fill", source)
	const slice = 10_000
	for done := 0; done < many; done += slice {
		if _, err := f.Eval(f.t.Context(), driver.Call{Script: s, Keys: keys, Args: []string{strconv.Itoa(done), strconv.Itoa(min(many, done+slice))}}); err != nil {
			f.t.Fatal(err)
		}
	}
}
