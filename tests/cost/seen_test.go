package cost

// What it costs that a client can be seen: its record, an observer, a logger and a history.

import (
	"io"
	"log/slog"
	"math"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// watched are clients of which one thing can be seen that cannot be seen of the first.
var watched = []struct {
	name    string
	options *mortise.Options
	most    float64 // allocations of a pair more than those of the first: what was measured, and one more for logs and histories
	scripts int64   // commands that may come in addition, for all pairs
}{
	{"hidden", &mortise.Options{Identity: mortise.Identity{Hide: true}}, 0, 0},
	{"with a record", nil, 0, 0}, // a short hold is not written to it
	{"with an observer", &mortise.Options{Observer: mortise.ObserverFunc(func(mortise.Event) {})}, 1, 0},
	{"with a logger of losses", &mortise.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}))}, 1, 0},
	{"with a logger of everything", &mortise.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))}, 7, 0},
	{"with a history", &mortise.Options{History: 100}, 5, 10},
}

// An observer costs one allocation for each acquisition, and no command; neither does a record, for holds
// that are short. A history is written once a second.
func TestObservingCost(t *testing.T) {
	server := redistest.Single(t)
	var plain float64
	for i, w := range watched {
		t.Run(w.name, func(t *testing.T) {
			d, _ := libraries["rueidis"](t, server.Addr())
			client := mortise.New(d, w.options)
			defer client.Close()
			lock := client.Lock("pair")
			pair := func() {
				hold, _, err := lock.Lock(t.Context())
				if err == nil {
					err = hold.Unlock()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			pair() // so that the server knows the scripts
			const runs, each = 10, 50
			const pairs = runs * (each + 1) // one more, before it counts
			server.Must(t, "CONFIG", "RESETSTAT")
			got := math.Inf(1)
			for range runs {
				got = min(got, testing.AllocsPerRun(each, pair))
			}
			if i == 0 {
				plain = got
			}
			calls := callsOf(t, server, "evalsha")
			t.Logf("%v allocations for a pair, %v more than hidden; %d commands for %d pairs", got, got-plain, calls, pairs)
			most := w.most
			if raceDetector {
				most += 4 // pools forget a part of what they hold, at random
			}
			if got-plain > most {
				t.Errorf("%v allocations, %v more than hidden; want %v more at most", got, got-plain, most)
			}
			if calls < 2*pairs || calls > 2*pairs+w.scripts {
				t.Errorf("%d commands for %d pairs, want %d, and %d more at most", calls, pairs, 2*pairs, w.scripts)
			}
		})
	}
}
