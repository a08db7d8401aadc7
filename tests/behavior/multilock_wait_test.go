package behavior

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// The sets overlap in rings, each names its locks in another order, and some ask
// through two clients: nobody waits forever, and each lock has one holder.
func TestMultiLocksNeverDeadlock(t *testing.T) {
	t.Parallel()
	for what, options := range map[string]mortise.LockOptions{"renewed": {}, "fixed lease": {TTL: time.Hour, MaxHold: time.Hour}} {
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
					t.Errorf("60 turns of 10ms took %v, want %v at most", d, 10*time.Second)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// A MultiLock that waits for one of its locks does not keep the others from
// their waiters.
func TestMultiLockWaitsWithoutHolding(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for what, m := range map[string]*mortise.MultiLock{
			"of one client":  multi(c, "a", "b", "c"),
			"of two clients": mortise.NewMultiLock(d.Lock("a"), c.Lock("b"), d.Lock("c")),
			"of kinds":       mortise.NewMultiLock(c.FairLock("a"), c.Lock("b"), c.FencedLock("c")),
			"with a lease":   multi(c, "a", "b", "c").With(mortise.LockOptions{MaxHold: time.Minute}),
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
				t.Errorf("%s: it was woken %v after the release, want 0", what, d)
			}
			wantHeld(t, s, "a", "b", "c")
			mustUnlock(t, hold)
		}
		wantEmpty(t, s)
	})
}

// In the end it holds what it has, so that others that come and go do not keep
// it out.
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
				t.Errorf("it waited for %v, want %v at most", d, 5*time.Second)
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
		m := mortise.NewMultiLock(c.FairLock("a"), d.Lock("b")).With(mortise.LockOptions{MaxHold: 5 * time.Second, Margin: time.Second})
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
					"with a lease": mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")).With(mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}),
				}[kind]
				block, _ := mustLock(t, other.Lock("b"), t.Context())
				ctx, cancel := context.WithCancelCause(t.Context())
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						_, after, err := m.Lock(ctx)
						var e *mortise.Error
						if after != ctx || !errors.As(err, &e) {
							t.Errorf("got %v, %v, want a *mortise.Error and the context of the caller", err, after)
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
					t.Errorf("%s: the waits ended %v after the %s, want %v at most", kind, d, end, 10*time.Millisecond)
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

// The context ends at the moment at which the last lock is acquired, after another
// was refused: the locks are held, as they are without the refusal.
func TestMultiLockAcquiredAsItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for _, refused := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			raw := s.Driver()
			c := mortise.New(&hook{Driver: raw, eval: func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
				got, err := raw.Eval(ctx, call)
				if call.Script.Name() == "fenced_acquire" { // the last one, by their slots
					cancel()
				}
				return got, err, true
			}}, nil)
			other, _ := open(t, s, nil)
			if refused {
				block, _ := mustLock(t, other.Lock("b"), t.Context())
				time.AfterFunc(time.Second, func() { mustUnlock(t, block) })
			}
			hold, _, err := mortise.NewMultiLock(c.Lock("b"), c.FencedLock("a")).Lock(ctx)
			if err != nil {
				t.Errorf("refused before: %v: %v", refused, err)
			} else {
				mustUnlock(t, hold)
			}
			_ = c.Close()
		}
		wantEmpty(t, s)
	})
}

// A MultiLock that was refused a lock says which owner holds it,
// even if its context ends while it waits briefly.
func TestMultiLockThatGivesUpNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := mustLock(t, other.Lock("a"), t.Context())
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Millisecond)
			_, _, err := mortise.NewMultiLock(c.FencedLock("a"), c.FencedLock("b")).Lock(ctx)
			cancel()
			var held *mortise.HeldError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &held) || held.Owner != hold.Owner() {
				t.Fatalf("%v, want the end of the context, and %s as the holder", err, hold.Owner())
			}
		}
		mustUnlock(t, hold)
	})
}

// A MultiLock that contains one that cannot be used cannot be used itself: else it would
// hold fewer locks than were listed.
func TestMultiLockOfOneThatIsInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		x := c.Lock("x")
		for name, inner := range map[string]*mortise.MultiLock{
			"twice":   mortise.NewMultiLock(x, x.With(mortise.LockOptions{MaxHold: time.Second}), c.Lock("z")),
			"nil":     mortise.NewMultiLock(x, nil),
			"nothing": mortise.NewMultiLock(),
		} {
			_, _, err := mortise.NewMultiLock(inner, c.Lock("y")).TryLock(t.Context())
			if !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if got := mortise.NewMultiLock(x, x.With(mortise.LockOptions{MaxHold: time.Second}), c.Lock("z")).Name(); got != "z, x" && got != "x, z" {
			t.Errorf("the name is %q, want those of all locks", got)
		}
		wantEmpty(t, s)
	})
}
