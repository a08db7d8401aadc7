package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// One server loses the lock: the hold goes on, and gets it back. A majority
// loses it: the hold is over.
func TestRedlockLosesItsMajority(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		owner := mortise.WithOwner(t.Context())
		hold, ctx := mustRedlock(t, p.redlock(), owner)
		for round := range 6 { // more than a majority, one after the other
			do(t, servers[round%3], "FLUSHALL")
			time.Sleep(15 * time.Second)
			if n := on(t, servers); ctx.Err() != nil || !hold.Valid() || n != 3 {
				t.Fatalf("round %d: %v, and %d servers have it, want 3", round, context.Cause(ctx), n)
			}
		}
		do(t, servers[0], "FLUSHALL")
		do(t, servers[2], "FLUSHALL")
		start := time.Now()
		<-ctx.Done()
		cause := context.Cause(ctx)
		var e *mortise.Error
		if !errors.As(cause, &e) || e.Name != "job" || !errors.Is(cause, mortise.ErrLost) || !strings.Contains(cause.Error(), "of 3: ") {
			t.Errorf("the cause is %v, want ErrLost and the server", cause)
		}
		if d := time.Since(start); d > 10*time.Second || hold.Valid() || !hold.Until().IsZero() {
			t.Errorf("noticed after %v, valid %v until %v", d, hold.Valid(), hold.Until())
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		again, _ := mustRedlock(t, p.redlock(), owner)
		mustUnlock(t, again)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

// A server that was away when the lock was taken becomes part of it when it is
// back; so another may go then.
func TestRedlockMendsItself(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		p.faults[2].Set(refuse, nil)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(time.Minute)
		p.faults[2].Set(nil, nil)
		time.Sleep(15 * time.Second)
		if n := on(t, servers); n != 3 {
			t.Errorf("it is on %d servers, want 3", n)
		}
		p.faults[0].Set(hang, nil)
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil || !hold.Valid() {
			t.Errorf("lost, although two servers are well: %v", context.Cause(ctx))
		}
		mustUnlock(t, hold)
		p.faults[0].Set(nil, nil)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

// A server that has just failed is not asked in the round that acquires the lock. It joins
// the hold all the same.
func TestRedlockServerThatWasSkippedJoins(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		var blocks []*mortise.Hold
		for i := range 2 {
			blocks = append(blocks, mustTake(t, other.clients[i].Lock("job")))
			p.faults[i].Set(func(context.Context, string) error { time.Sleep(5 * time.Millisecond); return nil }, nil)
		}
		p.faults[2].Set(func(context.Context, string) error { // at once, before the others answer
			return &driver.Error{Class: driver.Denied, Err: errors.New("NOAUTH")}
		}, nil)
		got := later(t, t.Context(), p.redlock())
		time.Sleep(20 * time.Millisecond) // it listens
		p.faults[2].Set(nil, nil)
		for _, block := range blocks {
			mustUnlock(t, block)
		}
		hold := <-got
		if n := p.faults[2].Count("lock_acquire"); n != 1 {
			t.Fatalf("the third server was asked %d times before the lock was acquired, want once", n)
		}
		time.Sleep(15 * time.Second)
		if n := on(t, servers); n != 3 {
			t.Errorf("it is on %d servers, want 3", n)
		}
		mustUnlock(t, hold)
	})
}

// The majority cannot be reached any more: the context ends before another can
// have the lock.
func TestRedlockEndsBeforeAnotherHasIt(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, &mortise.Options{TTL: 10 * time.Second}), newProcess(t, servers, nil)
		hold, ctx := mustRedlock(t, p.redlock(), t.Context())
		time.Sleep(time.Minute)
		p.faults[0].Set(hang, nil)
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Fatalf("one of three was enough to lose it: %v", context.Cause(ctx))
		}
		p.faults[1].Set(hang, nil)
		time.Sleep(5 * time.Second)
		if left := time.Until(hold.Until()); left > 5*time.Second || left < 0 {
			t.Errorf("the majority is trusted for another %v, 5s after it was last renewed at most", left)
		}
		next, _ := mustRedlock(t, other.redlock(), t.Context())
		if ctx.Err() == nil || hold.Valid() || !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("another has the lock, and the context says %v", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		time.Sleep(time.Minute)
		if !next.Valid() {
			t.Error("what was left of the former hold harmed the next one")
		}
		mustUnlock(t, next)
	})
}

// A reply of one server, or of all, is lost; so is a request.
func TestRedlockSurvivesLostRepliesAndRequests(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		for _, which := range [][]int{{0}, {1, 2}, {0, 1, 2}} {
			for _, script := range []string{"lock_acquire", "lock_release", "lock_renew"} {
				for _, what := range []string{"replies", "requests"} {
					for _, i := range which {
						if what == "replies" {
							p.faults[i].Set(nil, loseReplies(script, 2))
						} else {
							p.faults[i].Set(loseReplies(script, 2), nil)
						}
					}
					hold, ctx := mustRedlock(t, p.redlock(), t.Context())
					time.Sleep(11 * time.Second)
					if ctx.Err() != nil {
						t.Errorf("%s of %s lost by %v: %v", what, script, which, context.Cause(ctx))
					}
					if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
						t.Errorf("%s of %s lost by %v: Unlock: %v", what, script, which, err)
					}
					for _, i := range which {
						p.faults[i].Set(nil, nil)
					}
					again, _ := mustRedlock(t, other.redlock(), t.Context())
					mustUnlock(t, again)
				}
			}
		}
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

// A caller gives up while the servers have not answered, but they have granted
// the lock: it must not stay behind.
func TestRedlockGivesUpWithoutLeavingLocks(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		for _, f := range p.faults {
			f.Set(nil, func(ctx context.Context, name string) error {
				if name == "lock_acquire" {
					return hang(ctx, name)
				}
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := p.redlock().Lock(ctx)
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d != time.Second {
			t.Errorf("%v after %v, want the context's error after 1s", err, d)
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		hold, _ := mustRedlock(t, other.redlock(), t.Context())
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("a lock nobody wants stayed for %v", d)
		}
		mustUnlock(t, hold)
	})
}

func TestRedlockFreesTheLockOfADeadHolder(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		dead := newProcess(t, servers, &mortise.Options{TTL: 7 * time.Second})
		hold, ctx := mustRedlock(t, dead.redlock(), t.Context())
		for _, c := range dead.clients {
			_ = c.Close() // abandons the hold, as a crash does
		}
		if !errors.Is(context.Cause(ctx), mortise.ErrClosed) || hold.Valid() {
			t.Errorf("the cause is %v, want ErrClosed", context.Cause(ctx))
		}
		p := newProcess(t, servers, nil)
		start := time.Now()
		next, _ := mustRedlock(t, p.redlock(), t.Context())
		if d := time.Since(start); d < 7*time.Second || d > 8500*time.Millisecond {
			t.Errorf("a dead holder's lock was free after %v, want 7s", d)
		}
		mustUnlock(t, next)
	})
}
