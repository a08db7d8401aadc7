package cost

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestPairCost: what a Lock and an Unlock cost that nobody else has a part in,
// through all of the library and the client below it: two scripts, and a bounded
// number of allocations.
func TestPairCost(t *testing.T) {
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, test := range []struct {
		library string
		ctx     context.Context
		most    float64 // what was measured; six of go-redis are its own
		// The same under the race detector, where pools forget a part of what
		// they hold, at random: two more than the most of six measurements.
		race float64
	}{
		{"rueidis", context.Background(), 5, 6 + 2},
		{"rueidis", cancellable, 5, 7 + 2},
		{"go-redis", context.Background(), 11, 16 + 2},
		{"go-redis", cancellable, 12, 18 + 2},
	} {
		kind := "a context without an end"
		if test.ctx == cancellable {
			kind = "one that can end"
		}
		t.Run(test.library+" with "+kind, func(t *testing.T) {
			server := redistest.Single(t)
			d, _ := libraries[test.library](t, server.Addr())
			client := mortise.New(d, nil)
			defer client.Close()
			lock := client.Lock("pair")
			pair := func() {
				hold, _, err := lock.Lock(test.ctx)
				if err == nil {
					err = hold.Unlock()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			pair() // so that the server knows the scripts
			// The whole process is counted, and a client opens further connections
			// when it sees fit: rueidis picks one at random for each command. What
			// a pair costs is there in every run.
			const runs, each = 10, 50
			const pairs = runs * (each + 1) // one more, before it counts
			server.Must(t, "CONFIG", "RESETSTAT")
			got := math.Inf(1)
			for range runs {
				got = min(got, testing.AllocsPerRun(each, pair))
			}
			most := test.most
			if raceDetector {
				most = test.race
			}
			if got > most {
				t.Errorf("%v allocations, want %v at most", got, most)
			}
			for name, want := range map[string]int64{"evalsha": 2 * pairs, "eval": 0, "script|load": 0} {
				if calls := callsOf(t, server, name); calls != want {
					t.Errorf("%d calls of %s for %d pairs, want %d", calls, name, pairs, want)
				}
			}
		})
	}
}

// callsOf returns how often a command was called since CONFIG RESETSTAT.
func callsOf(t *testing.T, server *redistest.Server, command string) (calls int64) {
	t.Helper()
	line, err := server.Info("commandstats", "cmdstat_"+command)
	if err != nil {
		t.Fatal(err)
	}
	if line == "" {
		return 0
	}
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "calls=%d,", &calls); err != nil {
		t.Fatalf("%s: %q: %v", command, line, err)
	}
	return calls
}
