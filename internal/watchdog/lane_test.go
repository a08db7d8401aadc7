package watchdog_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// Leases that are too short for the link to the server fail, and come again. A long lease of the same shard, for which
// the link is fast enough, is renewed all the same: its attempts last as long as it needs.
func TestShortLeasesDoNotShortenTheAttemptsOfALongOne(t *testing.T) {
	for _, c := range []struct {
		rtt, short time.Duration
		many       int
	}{
		{60 * time.Millisecond, 100 * time.Millisecond, 30}, {120 * time.Millisecond, 300 * time.Millisecond, 20}, {450 * time.Millisecond, time.Second, 60},
	} {
		t.Run(fmt.Sprintf("%d of %v, a round trip of %v", c.many, c.short, c.rtt), func(t *testing.T) {
			virtual(t, func(b *bench) {
				b.serve(slowOnce(c.rtt))
				b.add("one:long", true)
				brief := &watchdog.Terms{TTL: c.short, Trust: c.short - c.short/50}
				for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(c.short / time.Duration(c.many)) {
					b.Add(&watchdog.Lease{Of: "one:short", Terms: brief}, time.Now().Add(-c.rtt), brief.Trust, true)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				if lost := b.losses["one:long"]; len(lost) != 0 {
					t.Errorf("the long lease was lost: %+v", lost)
				}
				alone := 0
				for _, a := range b.attempts["one"] {
					if strings.Join(a.keys, " ") == "one:long" {
						alone++
					}
				}
				if alone < 10 || len(b.losses["one:short"]) == 0 {
					t.Errorf("the long lease had %d attempts, and %d short ones were lost; want 12 or so, and some", alone, len(b.losses["one:short"]))
				}
			})
		})
	}
}

// slowOnce answers the first lease of an attempt after d, and the others at once after that.
func slowOnce(d time.Duration) func(context.Context, *watchdog.Lease) watchdog.Answer {
	var answered sync.Map // by the context of the attempt, which asks for one lease after the other
	first := slow(d, watchdog.Renewed)
	return func(ctx context.Context, l *watchdog.Lease) watchdog.Answer {
		if a, ok := answered.Load(ctx); ok {
			return a.(watchdog.Answer)
		}
		a := first(ctx, l)
		answered.Store(ctx, a)
		return a
	}
}
