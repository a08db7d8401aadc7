package watchdog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// After a sign that the server may have lost the leases all are looked at within a tenth of a second, also those that are
// not renewed, whose keys keep their TTL. Then each goes on as before.
func TestHurry(t *testing.T) {
	for _, leases := range []int{1, 100, 3000, 10_000} {
		t.Run(fmt.Sprint(leases), func(t *testing.T) {
			virtual(t, func(b *bench) {
				kinds := []string{"renewed", "fixed", "lost"}
				for i := range leases {
					for _, kind := range kinds {
						b.add(fmt.Sprint("a:", kind, i), kind != "fixed")
					}
				}
				b.at(3 * time.Second)
				b.serve(func(_ context.Context, l *watchdog.Lease) watchdog.Answer {
					if l.Extends() == strings.Contains(key(l), "fixed") {
						t.Errorf("%s: extended %v", key(l), l.Extends())
					}
					if strings.Contains(key(l), "lost") {
						return watchdog.Answer{State: watchdog.Gone}
					}
					return watchdog.Answer{State: watchdog.Renewed}
				})
				b.Hurry()
				b.at(3*time.Second + 100*time.Millisecond)
				looked := make(map[string]int)
				b.mu.Lock()
				for _, a := range b.attempts["a"] {
					for _, k := range a.keys {
						looked[k]++
					}
				}
				b.mu.Unlock()
				if len(looked) != 3*leases {
					t.Errorf("%d of %d leases were looked at", len(looked), 3*leases)
				}
				b.at(3*time.Second + trust - time.Millisecond)
				b.mu.Lock()
				defer b.mu.Unlock()
				for i := range leases {
					if lost := b.losses[fmt.Sprint("a:lost", i)]; len(lost) != 1 || lost[0].at > 3*time.Second+100*time.Millisecond {
						t.Fatalf("lost %v, want at once", lost)
					}
					if lost := b.losses[fmt.Sprint("a:renewed", i)]; len(lost) != 0 {
						t.Fatalf("a renewed lease was lost: %v", lost)
					}
					if lost := b.losses[fmt.Sprint("a:fixed", i)]; len(lost) != 1 || lost[0].at != trust {
						t.Fatalf("a lease that is not renewed was lost %v, want at its end", lost)
					}
				}
			})
		})
	}
}
