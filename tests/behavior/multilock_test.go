package behavior

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// wantFree checks that each of the locks can be had by a stranger.
func wantFree(t *testing.T, s *memredis.Server, names ...string) {
	t.Helper()
	c := mortise.New(s.Driver(), nil)
	defer c.Close()
	for _, name := range names {
		hold, _, err := c.Lock(name).TryLock(t.Context())
		if err != nil {
			t.Errorf("TryLock %s: %v, want it free", name, err)
			continue
		}
		mustUnlock(t, hold)
	}
}

// wantHeld checks that a stranger is refused each of the locks.
func wantHeld(t *testing.T, s *memredis.Server, names ...string) {
	t.Helper()
	c := mortise.New(s.Driver(), nil)
	defer c.Close()
	for _, name := range names {
		if _, _, err := c.Lock(name).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock %s: %v, want ErrLocked", name, err)
		}
	}
}

// Plain locks of one server are taken with one round trip, and given back with
// one.
func TestMultiLockTakesOneRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){
			multi(c, "a", "b", "c").Lock, multi(c, "c", "b", "a", "b").TryLock,
		} {
			before := f.Total()
			hold, ctx, err := take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantHeld(t, s, "a", "b", "c")
			if !hold.Valid() || ctx.Err() != nil || hold.Owner() == "" || hold.Token() != 0 {
				t.Errorf("Valid %v, context %v, owner %q", hold.Valid(), ctx.Err(), hold.Owner())
			}
			for _, name := range []string{"a", "b", "c"} {
				wantState(t, c.Lock(name), hold.Owner(), 1)
			}
			inspected := f.Count("inspect")
			mustUnlock(t, hold)
			if n := f.Total() - before - 3; n != 2 {
				t.Errorf("%d round trips, want one to take and one to give back; %d inspections", n, inspected)
			}
			if ctx.Err() == nil || hold.Valid() {
				t.Error("the hold outlived its release")
			}
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrReleased) {
				t.Errorf("a second Unlock: %v, want ErrReleased", err)
			}
			wantFree(t, s, "a", "b", "c")
		}
		wantEmpty(t, s)
	})
}

func TestMultiLockIsAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for what, m := range map[string]*mortise.MultiLock{
			"at once":   multi(c, "a", "b", "c"),
			"of kinds":  mortise.NewMultiLock(c.FairLock("a"), c.RWLock("b").Write(), c.Lock("c"), c.FencedLock("d")),
			"of two":    mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")),
			"a lease":   multi(c, "a", "b", "c").With(mortise.LockOptions{Lease: time.Minute}),
			"two, with": mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")).With(mortise.LockOptions{Lease: time.Minute}),
		} {
			block, _ := mustLock(t, other.Lock("c"), t.Context())
			_, after, err := m.TryLock(t.Context())
			var e *mortise.Error
			if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &e) || e.Name != "c" || e.Op != "try lock" {
				t.Errorf("%s: TryLock: %v, want ErrLocked of c", what, err)
			}
			var held *mortise.HeldError
			if !errors.As(err, &held) || held.Owner != block.Owner() {
				t.Errorf("%s: TryLock does not say who holds it: %v", what, err)
			}
			if after != t.Context() {
				t.Errorf("%s: a failed TryLock did not return the caller's context", what)
			}
			synctest.Wait()
			for _, name := range []string{"a", "b", "d"} {
				if n := do(t, s, "EXISTS", name).Int(); n != 0 {
					t.Errorf("%s: %s was left behind", what, name)
				}
			}
			mustUnlock(t, block)
			hold, ctx := mustMulti(t, m, t.Context())
			wantHeld(t, s, "c")
			time.Sleep(30 * time.Second)
			if ctx.Err() != nil || !hold.Valid() || time.Until(hold.Until()) < 10*time.Second {
				t.Errorf("%s: after 30s: %v, until %v", what, context.Cause(ctx), time.Until(hold.Until()))
			}
			mustUnlock(t, hold)
			for _, name := range []string{"a", "b", "c", "d"} {
				if n := do(t, s, "EXISTS", name).Int(); n != 0 {
					t.Errorf("%s: %s was left behind", what, name)
				}
			}
		}
		wantEmpty(t, s)
	})
}

// The sets overlap in rings, each names its locks in another order, and some ask
// through two clients: nobody waits for ever, and each lock has one holder.
func TestMultiLocksNeverDeadlock(t *testing.T) {
	t.Parallel()
	for what, options := range map[string]mortise.LockOptions{"renewed": {}, "fixed lease": {Lease: time.Hour}} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				names := []string{"a", "b", "c", "d", "e"}
				inside := map[string]*int{} // each protected by its own lock alone
				for _, name := range names {
					inside[name] = new(int)
				}
				var all sync.WaitGroup
				start := time.Now()
				for i := range 12 {
					c, _ := open(t, s, nil)
					d, _ := open(t, s, nil)
					all.Go(func() {
						for range 5 {
							mine := make([]string, 0, 3)
							for _, n := range rand.Perm(len(names))[:2+i%2] {
								mine = append(mine, names[n])
							}
							m := multi(c, mine...)
							if i%3 == 0 { // not with one script
								m = mortise.NewMultiLock(c.Lock(mine[0]), d.Lock(mine[1]))
								mine = mine[:2]
							}
							err := m.With(options).Do(t.Context(), func(ctx context.Context) error {
								for _, name := range mine {
									if *inside[name]++; *inside[name] != 1 {
										t.Errorf("%d are inside %s", *inside[name], name)
									}
								}
								time.Sleep(10 * time.Millisecond)
								for _, name := range mine {
									*inside[name]--
								}
								return ctx.Err()
							})
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				if d := time.Since(start); d > 10*time.Second {
					t.Errorf("60 turns of 10ms took %v", d)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// A MultiLock that waits for one of its locks does not keep the others from
// those who want them.
func TestMultiLockWaitsWithoutHolding(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for what, m := range map[string]*mortise.MultiLock{
			"of one client":  multi(c, "a", "b", "c"),
			"of two clients": mortise.NewMultiLock(d.Lock("a"), c.Lock("b"), d.Lock("c")),
			"of kinds":       mortise.NewMultiLock(c.FairLock("a"), c.Lock("b"), c.FencedLock("c")),
			"with a lease":   multi(c, "a", "b", "c").With(mortise.LockOptions{Lease: time.Minute}),
		} {
			block, _ := mustLock(t, other.Lock("b"), t.Context())
			got := make(chan *mortise.Hold)
			go func() {
				hold, _, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- hold
			}()
			time.Sleep(10 * time.Second)
			wantFree(t, s, "a", "c")
			start := time.Now()
			mustUnlock(t, block)
			hold := <-got
			if d := time.Since(start); d != 0 {
				t.Errorf("%s: it was woken %v after the release", what, d)
			}
			wantHeld(t, s, "a", "b", "c")
			mustUnlock(t, hold)
		}
		wantEmpty(t, s)
	})
}

// In the end it holds what it has, so that it is not kept out by those who come
// and go.
func TestMultiLockIsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			for range 2 {
				other, _ := open(t, s, nil)
				others.Go(func() {
					for ctx.Err() == nil {
						_ = other.Lock(name).Do(ctx, func(context.Context) error {
							time.Sleep(rand.N(20 * time.Millisecond))
							return nil
						})
					}
				})
			}
		}
		for range 4 {
			start := time.Now()
			hold, _ := mustMulti(t, multi(c, "a", "b", "c", "d"), t.Context())
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("it waited for %v", d)
			}
			mustUnlock(t, hold)
		}
		stop()
		others.Wait()
	})
}

// With a fixed lease nothing is held while it waits, so the lease is fresh.
func TestMultiLockWithALeaseWaitsWithoutUsingItUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		m := mortise.NewMultiLock(c.FairLock("a"), d.Lock("b")).With(mortise.LockOptions{Lease: 5 * time.Second, Margin: time.Second})
		block, _ := mustLock(t, other.Lock("b"), t.Context())
		time.AfterFunc(time.Minute, func() { mustUnlock(t, block) })
		hold, ctx := mustMulti(t, m, t.Context())
		if left := time.Until(hold.Until()); left < 3900*time.Millisecond || left > 4*time.Second {
			t.Errorf("the lease lasts for another %v, want 4s", left)
		}
		<-ctx.Done()
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		wantEmpty(t, s)
	})
}

func TestMultiLockReenters(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		alone, ctx := mustLock(t, c.Lock("b"), mortise.WithOwner(t.Context()))
		all, ctx := mustMulti(t, multi(c, "a", "b", "c"), ctx)
		again, _ := mustMulti(t, multi(c, "c", "b"), ctx)
		inner, _ := mustLock(t, c.Lock("a"), ctx)
		wantState(t, c.Lock("b"), alone.Owner(), 3)
		if !strings.Contains(all.Owner(), alone.Owner()) {
			t.Errorf("the owner is %q, without the member's %q", all.Owner(), alone.Owner())
		}
		if _, _, err := multi(c, "a", "b").With(mortise.LockOptions{NonReentrant: true}).Lock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("without re-entry: %v, want ErrReentry", err)
		}
		if _, _, err := multi(c, "a", "b").TryLock(mortise.Detach(ctx)); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("detached: %v, want ErrLocked", err)
		}
		mustUnlock(t, all)
		wantHeld(t, s, "a", "b", "c")
		mustUnlock(t, again)
		wantFree(t, s, "c")
		mustUnlock(t, inner)
		wantFree(t, s, "a")
		wantHeld(t, s, "b")
		if !alone.Valid() {
			t.Error("what was held before is not held any more")
		}
		mustUnlock(t, alone)
		wantEmpty(t, s)
	})
}

// Siblings that act for one owner take overlapping sets at the same time, and
// never wait for each other.
func TestMultiLockOfSiblings(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		for round := range 20 {
			var all, inside sync.WaitGroup
			inside.Add(6)
			for i := range 6 {
				all.Go(func() {
					m := []*mortise.MultiLock{multi(c, "a", "b", "c"), multi(c, "b", "c"), mortise.NewMultiLock(c.Lock("c"), d.FairLock("z"))}[i%3]
					hold, _, err := m.Lock(owner)
					inside.Done()
					if err != nil {
						t.Error(err)
						return
					}
					inside.Wait() // all hold at the same time
					time.Sleep(rand.N(time.Duration(round+1) * time.Millisecond))
					mustUnlock(t, hold)
				})
			}
			all.Wait()
			wantFree(t, s, "a", "b", "c")
		}
		wantEmpty(t, s)
	})
}

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
		c, f := open(t, s, nil)
		d, g := open(t, s, nil)
		// The order is that of slots: see which of the two comes last.
		m := mortise.NewMultiLock(c.Lock("a"), d.FairLock("b"))
		first, last, _ := strings.Cut(m.Name(), ", ")
		silent := map[string]*faults{"a": f, "b": g}[last]
		silent.Set(hang, nil)
		time.AfterFunc(5*time.Second, func() { do(t, s, "DEL", first) })
		start := time.Now()
		_, after, err := m.Lock(t.Context())
		if !errors.Is(err, mortise.ErrLost) || !strings.Contains(err.Error(), `"`+first+`"`) || after != t.Context() {
			t.Errorf("%v, want ErrLost of %s", err, first)
		}
		if d := time.Since(start); d < 5*time.Second || d > 11*time.Second {
			t.Errorf("it noticed after %v, want at the next renewal", d)
		}
		silent.Set(nil, nil)
		wantFree(t, s, first, last)
		wantEmpty(t, s)
	})
}

func TestMultiLockEndsItsWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		bored := errors.New("bored")
		for _, kind := range []string{"at once", "of two", "with a lease"} {
			for _, end := range []string{"context", "client"} {
				c, _ := open(t, s, nil)
				d, _ := open(t, s, nil)
				m := map[string]*mortise.MultiLock{
					"at once": multi(c, "a", "b", "c"), "of two": mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")),
					"with a lease": mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")).With(mortise.LockOptions{Lease: time.Hour}),
				}[kind]
				block, _ := mustLock(t, other.Lock("b"), t.Context())
				ctx, cancel := context.WithCancelCause(t.Context())
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						_, after, err := m.Lock(ctx)
						var e *mortise.Error
						if after != ctx || !errors.As(err, &e) {
							t.Errorf("%v, %v", err, after)
						}
						if end == "context" && (!errors.Is(err, bored) || !errors.Is(err, context.Canceled) || errors.Is(err, mortise.ErrLost)) {
							t.Errorf("%s: %v, want the cause", kind, err)
						}
						if end == "client" && !errors.Is(err, mortise.ErrClosed) {
							t.Errorf("%s: %v, want ErrClosed", kind, err)
						}
					})
				}
				time.Sleep(3500 * time.Millisecond)
				start := time.Now()
				if end == "context" {
					cancel(bored)
				} else {
					_ = d.Close()
					_ = c.Close()
				}
				all.Wait()
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("%s: the waits ended %v after the %s", kind, d, end)
				}
				cancel(nil)
				mustUnlock(t, block)
				time.Sleep(31 * time.Second) // those of a closed client end by themselves
				if kind == "with a lease" {
					do(t, s, "FLUSHALL") // in an hour
				}
				wantFree(t, s, "a", "b", "c")
			}
		}
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
			t.Errorf("%v, want the context's error", err)
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
		dead := mortise.New(s.Driver(), &mortise.Options{Lease: 7 * time.Second})
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
		c, f := open(t, s, &mortise.Options{Lease: 10 * time.Second})
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

func TestMultiLockRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		bad, _ := open(t, s, &mortise.Options{Lease: 1})
		a := c.Lock("a")
		for what, m := range map[string]*mortise.MultiLock{
			"none":         mortise.NewMultiLock(),
			"nil":          mortise.NewMultiLock(a, nil),
			"a name":       mortise.NewMultiLock(a, c.Lock("")),
			"another name": mortise.NewMultiLock(a, c.FairLock("x{}y")),
			"a lease":      mortise.NewMultiLock(a, c.Lock("b").With(mortise.LockOptions{Lease: -1})),
			"a margin":     multi(c, "a", "b").With(mortise.LockOptions{Margin: time.Hour}),
			"a client":     mortise.NewMultiLock(a, bad.Lock("b")),
			"two kinds":    mortise.NewMultiLock(a, c.FairLock("a")),
			"twice":        mortise.NewMultiLock(a, c.Lock("b"), a.With(mortise.LockOptions{Lease: time.Minute})),
		} {
			_, _, err := m.Lock(t.Context())
			_, _, terr := m.TryLock(t.Context())
			derr := m.Do(t.Context(), func(context.Context) error { t.Error("it ran"); return nil })
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) || !errors.Is(derr, mortise.ErrInvalid) {
				t.Errorf("%s: %v, %v, %v, want ErrInvalid", what, err, terr, derr)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := multi(c, "a", "b").Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a dead context: %v", err)
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent", n)
		}
	})
}

// A name that holds something else is named, and nothing is taken.
func TestMultiLockRefusesAnotherKind(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		do(t, s, "RPUSH", "b", "x")
		for _, m := range []*mortise.MultiLock{multi(c, "a", "b", "c"), mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c"))} {
			if _, _, err := m.Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) || !strings.Contains(err.Error(), `"b"`) {
				t.Errorf("%v, want ErrWrongKind of b", err)
			}
			synctest.Wait()
			wantFree(t, s, "a", "c")
		}
		do(t, s, "DEL", "b")
		wantEmpty(t, s)
	})
}

// Both sides of a read/write lock can be members: the write side is taken first.
func TestMultiLockOfBothSides(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		rw := c.RWLock("doc")
		hold, _ := mustMulti(t, mortise.NewMultiLock(rw.Read(), c.Lock("a"), rw.Write()), t.Context())
		mustUnlock(t, hold)
		nested := mortise.NewMultiLock(multi(c, "a", "b"), multi(c, "b", "c"))
		hold, _ = mustMulti(t, nested, t.Context())
		wantHeld(t, s, "a", "b", "c")
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}

// Locks of one name on two servers have no order between them.
func TestMultiLockOfOneNameOnTwoServers(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		s2 := memredis.New()
		defer s2.Close()
		inside := 0
		var all sync.WaitGroup
		start := time.Now()
		for i := range 6 {
			a, _ := open(t, s, nil)
			b, _ := open(t, s2, nil)
			locks := []mortise.Locker{a.Lock("x"), b.Lock("x")}
			if i%2 == 1 {
				locks[0], locks[1] = locks[1], locks[0]
			}
			all.Go(func() {
				for range 5 {
					err := mortise.NewMultiLock(locks...).Do(t.Context(), func(context.Context) error {
						if inside++; inside != 1 {
							t.Errorf("%d are inside", inside)
						}
						time.Sleep(10 * time.Millisecond)
						inside--
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("30 turns of 10ms took %v", d)
		}
		wantEmpty(t, s)
		wantEmpty(t, s2)
	})
}

// Without a single message every wait ends by itself.
func TestMultiLockWaitsWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		for range 3 {
			block, _ := mustLock(t, other.Lock("b"), t.Context())
			wantNoticed(t, block, 1100*time.Millisecond, multi(c, "a", "b").Lock)
		}
	})
}

// The answer comes when the lease is over already: that is no lock, and nothing
// of it stays.
func TestMultiLockAnswerComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		m := multi(c, "a", "b").With(mortise.LockOptions{Lease: 2 * time.Second})
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "multi_acquire" {
				time.Sleep(1990 * time.Millisecond)
			}
			return nil
		})
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){m.Lock, m.TryLock} {
			if _, _, err := take(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLost) {
				t.Errorf("%v, want ErrUnreachable, for nothing was held", err)
			}
			synctest.Wait()
			wantFree(t, s, "a", "b")
		}
		wantEmpty(t, s)
	})
}

// A fenced lock among others: its token is to be had by a re-entry.
func TestMultiLockWithAFencedLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		fenced := c.FencedLock("f")
		last := int64(0)
		for range 3 {
			hold, ctx := mustMulti(t, mortise.NewMultiLock(c.Lock("a"), fenced), t.Context())
			inner, _, err := fenced.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if inner.Token() <= last || hold.Token() != 0 {
				t.Errorf("the token is %d after %d; the whole has %d, want none", inner.Token(), last, hold.Token())
			}
			last = inner.Token()
			mustUnlock(t, inner)
			mustUnlock(t, hold)
		}
	})
}
