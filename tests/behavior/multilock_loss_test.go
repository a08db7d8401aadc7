package behavior

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// The loss of one lock is the loss of all, and says which it was.
func TestMultiLockEndsWithTheFirstLoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		for what, m := range map[string]*mortise.MultiLock{
			"at once": multi(c, "a", "b", "c"),
			"of two":  mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.FairLock("c")),
		} {
			for reason, spoil := range map[mortise.LostReason]func(){
				mortise.LostForced: func() { do(t, s, "DEL", "b") },
				mortise.LostTaken:  func() { do(t, s, "DEL", "b"); do(t, s, "HSET", "b", "x:1", "1"); do(t, s, "PEXPIRE", "b", "20000") },
			} {
				owner := mortise.WithOwner(t.Context())
				hold, ctx := mustMulti(t, m, owner)
				spoil()
				<-ctx.Done()
				cause := context.Cause(ctx)
				var e *mortise.Error
				var lost *mortise.LostError
				if !errors.As(cause, &e) || e.Name != "b" || !errors.As(cause, &lost) || lost.Reason != reason || !errors.Is(cause, mortise.ErrLost) {
					t.Errorf("%s, %s: the cause is %v, want one that names b and the reason", what, reason, cause)
				}
				if hold.Valid() || !hold.Until().IsZero() {
					t.Errorf("%s, %s: the hold is still valid, until %v", what, reason, hold.Until())
				}
				wantHeld(t, s, "a", "c") // the work under it may not have stopped
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) || !strings.Contains(err.Error(), `"b": `) {
					t.Errorf("%s, %s: Unlock: %v, want ErrLost of b", what, reason, err)
				}
				wantFree(t, s, "a", "c")
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrReleased) {
					t.Errorf("%s, %s: a second Unlock: %v, want ErrReleased", what, reason, err)
				}
				time.Sleep(time.Minute)
				again, _ := mustMulti(t, m, owner) // the loss is forgotten
				mustUnlock(t, again)
			}
		}
		wantEmpty(t, s)
	})
}

// A lock that is lost while another is asked for ends the wait.
func TestMultiLockIsLostWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		d, g := open(t, s, &mortise.Options{RetryFor: -1})
		// The order is that of slots: see which of the two comes last.
		m := mortise.NewMultiLock(c.Lock("a"), d.FairLock("b"))
		first, last, _ := strings.Cut(m.Name(), ", ")
		silent := map[string]*faults{"a": f, "b": g}[last]
		silent.Set(hang, nil)
		time.AfterFunc(5*time.Second, func() { do(t, s, "DEL", first) })
		start := time.Now()
		_, after, err := m.Lock(t.Context())
		if !errors.Is(err, mortise.ErrLost) || !strings.Contains(err.Error(), `"`+first+`"`) || after != t.Context() {
			t.Errorf("got %v, want ErrLost of %s", err, first)
		}
		if d := time.Since(start); d < 5*time.Second || d > 11*time.Second {
			t.Errorf("it noticed after %v, want at the next renewal", d)
		}
		silent.Set(nil, nil)
		wantFree(t, s, first, last)
		wantEmpty(t, s)
	})
}

// A reply can be lost after the script ran, or its only copy may never arrive.
func TestMultiLockSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, lost := range losses {
			m := multi(c, "a", "b", "c")
			for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){m.Lock, m.TryLock} {
				lost.Set(f, "multi_acquire")
				hold, _, err := take(t.Context())
				if err != nil {
					t.Fatalf("with %v: %v", lost, err)
				}
				for _, name := range []string{"a", "b", "c"} {
					wantState(t, c.Lock(name), hold.Owner(), 1)
				}
				lost.Set(f, "multi_release")
				if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("Unlock with %v: %v, want nil or ErrUnknownOutcome", lost, err)
				}
				f.Set(nil, nil)
				wantFree(t, s, "a", "b", "c")
			}
		}
		wantEmpty(t, s)
	})
}

// A caller gives up while Redis has not answered, and its copy arrives late, or
// only the reply is missing: nothing must stay behind.
func TestMultiLockGivesUpWithoutLeavingLocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for _, script := range []string{"multi_acquire", "lock_acquire", "fair_acquire"} {
			c, f := open(t, s, nil)
			m := multi(c, "a", "b", "c")
			if d, _ := open(t, s, nil); script != "multi_acquire" {
				m = mortise.NewMultiLock(c.Lock("a"), c.FairLock("b"), d.Lock("c"))
			}
			f.Set(nil, func(ctx context.Context, name string) error {
				if name == script {
					return hang(ctx, name)
				}
				return nil
			})
			for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){m.Lock, m.TryLock} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				start := time.Now()
				if _, _, err := take(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want the context's error", script, err)
				}
				cancel()
				if d := time.Since(start); d != time.Second {
					t.Errorf("%s: it returned after %v, want 1s", script, d)
				}
				time.Sleep(time.Second)
				wantFree(t, s, "a", "b", "c")
			}
			f.Set(nil, nil)
		}
		wantEmpty(t, s)
	})
}

// lateDriver delivers the calls of a script only after a time, when nobody
// waits for the answer any more.
type lateDriver struct {
	driver.Driver
	script string
	after  time.Duration
	late   sync.WaitGroup
}

func (d *lateDriver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() != d.script {
		return d.Driver.Eval(ctx, call)
	}
	d.late.Go(func() {
		time.Sleep(d.after)
		_, _ = d.Driver.Eval(context.Background(), call)
	})
	return driver.Value{}, hang(ctx, call.Script.Name())
}

func TestMultiLockCopyArrivesLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		d := &lateDriver{Driver: s.Driver(), script: "multi_acquire", after: 3 * time.Second}
		c := mortise.New(d, nil)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := multi(c, "a", "b").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		d.late.Wait()
		wantHeld(t, s, "a", "b")
		time.Sleep(10 * time.Second) // the client looks for it at growing intervals
		wantFree(t, s, "a", "b")
		wantEmpty(t, s)
	})
}

func TestMultiLockFreesTheLocksOfADeadHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		hold, ctx := mustMulti(t, multi(dead, "a", "b"), t.Context())
		_ = dead.Close() // abandons the hold, as a crash does
		if !errors.Is(context.Cause(ctx), mortise.ErrClosed) || hold.Valid() {
			t.Errorf("the cause is %v, want ErrClosed", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Unlock: %v, want ErrClosed", err)
		}
		c, _ := open(t, s, nil)
		start := time.Now()
		next, _ := mustMulti(t, multi(c, "b", "a"), t.Context())
		if d := time.Since(start); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("a dead holder's locks were free after %v, want 7s", d)
		}
		mustUnlock(t, next)
	})
}

// Redis is not reached any more: the context ends before the keys do.
func TestMultiLockEndsBeforeAnotherHasIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{TTL: 10 * time.Second})
		other, _ := open(t, s, nil)
		hold, ctx := mustMulti(t, multi(c, "a", "b"), t.Context())
		time.Sleep(time.Minute)
		f.Set(hang, nil)
		next, _ := mustLock(t, other.Lock("b"), t.Context())
		if ctx.Err() == nil || hold.Valid() || !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("another has one of the locks, and the context says %v", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		f.Set(nil, nil)
		mustUnlock(t, next)
	})
}

// The answer comes when the lease is over already: that is no lock, and nothing
// of it stays.
func TestMultiLockAnswerComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		m := multi(c, "a", "b").With(mortise.LockOptions{MaxHold: 2 * time.Second})
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "multi_acquire" {
				time.Sleep(1990 * time.Millisecond)
			}
			return nil
		})
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){m.Lock, m.TryLock} {
			if _, _, err := take(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLost) {
				t.Errorf("got %v, want ErrUnreachable, for nothing was held", err)
			}
			synctest.Wait()
			wantFree(t, s, "a", "b")
		}
		wantEmpty(t, s)
	})
}
