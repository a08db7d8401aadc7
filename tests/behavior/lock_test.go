package behavior

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

func TestLockExcludesUntilUnlocked(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		wantState(t, b.Lock("job"), hold.Owner(), 1)

		_, _, err := b.Lock("job").TryLock(t.Context())
		var held *mortise.HeldError
		if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &held) {
			t.Fatalf("TryLock of a held lock: %v, want ErrLocked and a HeldError", err)
		}
		if held.Owner != hold.Owner() || held.Count != 1 || held.TTL != 30*time.Second {
			t.Errorf("HeldError = %+v, want the owner %s, count 1, TTL 30s", held, hold.Owner())
		}
		mustUnlock(t, hold)
		wantState(t, b.Lock("job"), "", 0)
		again, _, err := b.Lock("job").TryLock(t.Context())
		if err != nil {
			t.Fatalf("TryLock of a free lock: %v", err)
		}
		mustUnlock(t, again)
	})
}

func TestWaiterIsWokenByTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		start := time.Now()
		got := make(chan time.Duration)
		go func() {
			h, _, err := b.Lock("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- time.Since(start)
			mustUnlock(t, h)
		}()
		time.Sleep(5*time.Second + 50*time.Millisecond)
		mustUnlock(t, hold)
		// Virtual time stands still while messages travel, so a wake-up by
		// the message takes none, and one by the poll would take some.
		if d := <-got; d != 5050*time.Millisecond {
			t.Errorf("the waiter got the lock after %v, want 5.05s", d)
		}
		synctest.Wait()
	})
}

func TestWatchdogRenewsForHours(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		time.Sleep(3 * time.Hour)
		if err := ctx.Err(); err != nil {
			t.Fatalf("after three hours: %v", context.Cause(ctx))
		}
		wantState(t, c.Lock("job"), hold.Owner(), 1)
		if n := f.Count("lock_renew"); n < 1079 || n > 1081 {
			t.Errorf("%d renewals in three hours, want one every 10s", n)
		}
		mustUnlock(t, hold)
	})
}
