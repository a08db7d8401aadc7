package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// A reply that comes after the lease has ended leaves the lock with nobody. If its release does not
// arrive either, the caller is not told that another owner has it.
func TestLateReplyIsNoOtherOwner(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		// The process stands still while it waits for the reply. Then its trust is over, and Redis has it for 1.3s more.
		const slow, still, maxHold = 400 * time.Millisecond, 28700 * time.Millisecond, 30 * time.Second
		for name, cut := range map[string]time.Duration{"free soon": 20 * time.Millisecond, "not free in time": 3 * time.Second} {
			f := &faults{Driver: s.Driver()}
			c := mortise.New(f, &mortise.Options{RetryFor: 500 * time.Millisecond})
			first, until := true, time.Now().Add(slow+still+cut)
			f.Set(func(_ context.Context, script string) error {
				switch {
				case script == k.Acquire && first:
					time.Sleep(slow)
				case script == k.Release && time.Now().Before(until):
					return errCut
				}
				return nil
			}, func(_ context.Context, script string) error {
				if script == k.Acquire && first {
					first = false
					time.Sleep(still)
				}
				return nil
			})
			hold, _, err := k.Open(c, "job", mortise.LockOptions{MaxHold: maxHold, Margin: 2 * time.Second}).TryLock(t.Context())
			if errors.Is(err, mortise.ErrLocked) {
				t.Errorf("%s: %v, but nobody else has it", name, err)
			}
			if cut < time.Second {
				if err != nil {
					t.Errorf("%s: %v, want the lock", name, err)
				} else {
					mustUnlock(t, hold)
				}
			} else if !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("%s: %v, want ErrUnreachable", name, err)
			}
			time.Sleep(5 * time.Second)
			_ = c.Close()
		}
	})
}
