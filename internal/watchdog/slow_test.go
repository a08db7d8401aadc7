package watchdog_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// Very many leases are renewed behind a link that is slow, or by replicas that are: what an attempt costs hardly depends
// on their number.
func TestManyLeasesBehindASlowLink(t *testing.T) {
	for _, c := range []struct {
		leases   int
		ttl, rtt time.Duration
	}{{20_000, 700 * time.Millisecond, 100 * time.Millisecond}, {40_000, time.Second, 100 * time.Millisecond}} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			virtual(t, func(b *bench) {
				b.serve(slowOnce(c.rtt))
				short := &watchdog.Terms{TTL: c.ttl, Trust: c.ttl - c.ttl/50}
				for i := range c.leases {
					if i == 1 {
						time.Sleep(short.Trust / 20) // the first one is due alone, and takes as long as all others
					}
					b.Add(&watchdog.Lease{Of: "one:" + strconv.Itoa(i), Terms: short}, time.Now(), short.Trust, true)
				}
				time.Sleep(4 * c.ttl)
				b.mu.Lock()
				defer b.mu.Unlock()
				if n := len(b.losses); n != 0 {
					t.Errorf("%d of %d leases were lost, want none", n, c.leases)
				}
			})
		})
	}
}

// The renewals of a few leases hang, as those of a server that is not told from the others: these are lost, and no other.
func TestLeasesThatHangAmongOthers(t *testing.T) {
	const leases, hang = 5000, 5
	virtual(t, func(b *bench) {
		for i := range leases {
			kind := "well"
			if i%(leases/hang) == 0 {
				kind = "sick"
			}
			b.add("one:"+kind+strconv.Itoa(i), true)
		}
		time.Sleep(period / 2)
		b.serve(func(ctx context.Context, l *watchdog.Lease) watchdog.Answer {
			if strings.Contains(key(l), "sick") {
				return hanging(ctx, l)
			}
			return watchdog.Answer{State: watchdog.Renewed}
		})
		time.Sleep(4 * trust)
		b.mu.Lock()
		defer b.mu.Unlock()
		for key := range b.losses {
			if strings.Contains(key, "well") {
				t.Fatalf("%d leases were lost, %s among them, want the %d that hang", len(b.losses), key, hang)
			}
		}
		if len(b.losses) != hang {
			t.Errorf("%d leases were lost, want the %d that hang", len(b.losses), hang)
		}
	})
}
