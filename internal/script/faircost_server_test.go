//go:build server

package script_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// What the scripts of a contended fair lock call inside Redis, whatever the length of the queue, while
// all who wait are mortise's.
func TestFairCallsOfAnAcquisition(t *testing.T) {
	const queueing, granting = 8, 13
	server := redistest.Single(t)
	for _, n := range []int{2, 10, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := fair{realWorld(t, server), t, script.Fair{FairKeys: script.NewFairKeys(job), Turns: "publish"}}
			f.listen(t, keyspace.FairTurnChannel(job, ann), false)
			f.gets(me, script.FairOnce)
			f.release(other, false) // so that the server knows the scripts
			waiter := func(i int) string { return fmt.Sprint(ann, ":", i) }
			for i := range n {
				f.waits(waiter(i), false)
			}
			calls := func(do func()) int {
				server.Must(t, "CONFIG", "RESETSTAT")
				do()
				return commandsRun(t, server) - 2 // CONFIG and EVALSHA
			}
			if got := calls(func() { f.waits(waiter(n), false) }); got != queueing {
				t.Errorf("to queue takes %d calls, want %d", got, queueing)
			}
			if got := calls(func() { f.release(me, true) }); got != granting {
				t.Errorf("to release takes %d calls, want %d", got, granting)
			}
			f.wantGiven(waiter(0))
		})
	}
}

var called = regexp.MustCompile(`cmdstat_[^:]+:calls=(\d+)`)

// commandsRun returns how many commands the server has run since CONFIG RESETSTAT.
func commandsRun(t *testing.T, server *redistest.Server) int {
	calls := 0
	for _, found := range called.FindAllStringSubmatch(server.Must(t, "INFO", "commandstats").(string), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		calls += n
	}
	return calls
}
