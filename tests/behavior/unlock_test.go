package behavior

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// releasable is what Unlock releases: a hold of any kind, or the term of a leader.
type releasable struct {
	acquire func(c *mortise.Client, ctx context.Context) (unlock func() error, err error)
	free    func(c *mortise.Client, ctx context.Context) bool // whether another client can have it
	wait    func(c *mortise.Client, ctx context.Context) (unlock func() error, err error)
}

// locked is a lock, and what another client asks for that must not have it meanwhile.
func locked(k func(c *mortise.Client) taker, competitor ...func(c *mortise.Client) taker) releasable {
	acquire := func(k func(c *mortise.Client) taker) func(c *mortise.Client, ctx context.Context) (func() error, error) {
		return func(c *mortise.Client, ctx context.Context) (func() error, error) {
			hold, _, err := k(c).Lock(ctx)
			return hold.Unlock, err
		}
	}
	acquired := acquire(k)
	if len(competitor) > 0 {
		k = competitor[0]
	}
	return releasable{
		acquire: acquired, wait: acquire(k),
		free: func(c *mortise.Client, ctx context.Context) bool {
			hold, _, err := k(c).TryLock(ctx)
			if err == nil {
				_ = hold.Unlock()
			}
			return err == nil
		},
	}
}

func lead(c *mortise.Client, ctx context.Context) (resign func() error, err error) {
	term, _, err := c.Election("job").Campaign(ctx, "v")
	return term.Resign, err
}

var releasables = map[string]releasable{
	"Lock":       locked(func(c *mortise.Client) taker { return c.Lock("job") }),
	"FencedLock": locked(func(c *mortise.Client) taker { return c.FencedLock("job") }),
	"SpinLock":   locked(func(c *mortise.Client) taker { return c.SpinLock("job") }),
	"FairLock":   locked(func(c *mortise.Client) taker { return c.FairLock("job") }),
	"GroupLock":  locked(func(c *mortise.Client) taker { return c.GroupLock("job", "a", "b") }),
	"ReadLock": locked(func(c *mortise.Client) taker { return c.RWLock("job").Read() },
		func(c *mortise.Client) taker { return c.RWLock("job").Write() }),
	"WriteLock": locked(func(c *mortise.Client) taker { return c.RWLock("job").Write() }),
	"MultiLock of one slot": locked(func(c *mortise.Client) taker {
		return mortise.NewMultiLock(c.Lock("job"), c.Lock("{job}:2"))
	}),
	"MultiLock of several kinds": locked(func(c *mortise.Client) taker {
		return mortise.NewMultiLock(c.Lock("job"), c.FairLock("fair"), c.RWLock("rw").Write())
	}),
	"Redlock": locked(func(c *mortise.Client) taker { return mortise.NewRedlock("job", c) }),
	"PermitSemaphore": {
		acquire: func(c *mortise.Client, ctx context.Context) (func() error, error) {
			if err := c.PermitSemaphore("job").SetPermits(ctx, 1); err != nil {
				return nil, err
			}
			hold, _, err := c.PermitSemaphore("job").Acquire(ctx)
			return hold.Unlock, err
		},
		free: func(c *mortise.Client, ctx context.Context) bool {
			n, err := c.PermitSemaphore("job").Available(ctx)
			return n == 1 && err == nil
		},
		wait: func(c *mortise.Client, ctx context.Context) (func() error, error) {
			hold, _, err := c.PermitSemaphore("job").Acquire(ctx)
			return hold.Unlock, err
		},
	},
	"Term": {
		acquire: lead, wait: lead,
		free: func(c *mortise.Client, ctx context.Context) bool {
			_, err := c.Election("job").Leader(ctx)
			return errors.Is(err, mortise.ErrNoLeader)
		},
	},
}

// While Redis does not answer, Unlock returns when UnlockFor is over, and the release goes on
// in the background.
func TestUnlockIsBounded(t *testing.T) {
	t.Parallel()
	faults := map[string]func(ctx context.Context, name string) error{
		"silent": hang,
		"down": func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		},
	}
	for name, k := range releasables {
		for how, fault := range faults {
			t.Run(name+", "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, f := open(t, s, nil)
					other, _ := open(t, s, nil)
					unlock, err := k.acquire(c, t.Context())
					if err != nil {
						t.Fatal(err)
					}
					f.Set(fault, nil)
					start := time.Now()
					err = unlock()
					if took := time.Since(start); took < 5*time.Second || took > 5*time.Second+200*time.Millisecond {
						t.Errorf("Unlock took %v, want 5s", took)
					}
					if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Unlock: %v, want ErrUnreachable, and not the error of a context", err)
					}
					if k.free(other, t.Context()) {
						t.Error("it is free although Redis was asked for nothing")
					}
					f.Set(nil, nil)
					time.Sleep(time.Second) // in which a hanging call is still waited for
					if how == "down" && !k.free(other, t.Context()) {
						t.Error("it is not free a second after Redis is back")
					}
					if err := unlock(); !errors.Is(err, mortise.ErrReleased) && !errors.Is(err, mortise.ErrLost) {
						t.Errorf("the second Unlock: %v, want ErrReleased", err)
					}
					time.Sleep(30 * time.Second)
					if !k.free(other, t.Context()) {
						t.Error("it is not free when the lease is over")
					}
				})
			})
		}
	}
}

// The release that goes on in the background ends with the lease, and with the client.
func TestUnlockInTheBackgroundEnds(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(t *testing.T, c *mortise.Client){
		"with the lease": func(_ *testing.T, _ *mortise.Client) { time.Sleep(time.Minute) },
		"with the client": func(t *testing.T, c *mortise.Client) {
			start := time.Now()
			if err := c.Close(); err != nil || time.Since(start) > 3*time.Second {
				t.Errorf("Close: %v after %v, want none within 3s", err, time.Since(start))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, &mortise.Options{UnlockFor: time.Second})
				hold, _ := mustLock(t, c.Lock("job"), t.Context())
				f.Set(func(context.Context, string) error {
					return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
				}, nil)
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("Unlock: %v, want ErrUnreachable", err)
				}
				before := f.Count("lock_release")
				after(t, c)
				synctest.Wait()
				if n := f.Count("lock_release"); n == before {
					t.Error("the release did not go on in the background")
				}
				before = f.Count("lock_release")
				time.Sleep(time.Hour)
				if n := f.Count("lock_release"); n > before {
					t.Errorf("%d releases afterwards, want none", n-before)
				}
			})
		})
	}
}

// The count of holds in Redis is corrected in the background, too, and Unlock does not wait
// longer for another call that is changing it.
func TestUnlockOfAnInnerHoldIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		outer, ctx := mustLock(t, k, t.Context())
		inner, _ := mustLock(t, k, ctx)
		third, _ := mustLock(t, k, ctx)
		f.Set(func(ctx context.Context, name string) error {
			if name == "lock_leave" {
				return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
			}
			return nil
		}, nil)
		for i, hold := range []*mortise.Hold{third, inner} {
			start := time.Now()
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("Unlock %d: %v, want ErrUnreachable", i, err)
			}
			if took := time.Since(start); took < 5*time.Second || took > 5*time.Second+200*time.Millisecond {
				t.Errorf("Unlock %d took %v, want 5s", i, took)
			}
		}
		if !outer.Valid() {
			t.Error("the outer hold is not valid")
		}
		f.Set(nil, nil)
		time.Sleep(time.Second)
		if state, err := other.Lock("job").Inspect(t.Context()); err != nil || len(state.Holders) != 1 || state.Holders[0].Count != 1 {
			t.Errorf("in Redis: %+v, %v, want a count of 1", state, err)
		}
		mustUnlock(t, outer)
		wantState(t, other.Lock("job"), "", 0)
	})
}

// A Redis client that the application has closed does not come back, and nothing waits for it.
func TestUnlockOnAClosedRedisClient(t *testing.T) {
	t.Parallel()
	for name, k := range releasables {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				waiter, wf := open(t, s, nil)
				other, _ := open(t, s, nil)
				unlock, err := k.acquire(c, t.Context())
				if err != nil {
					t.Fatal(err)
				}
				waiting := make(chan error, 1)
				go func() {
					_, err := k.wait(waiter, t.Context())
					waiting <- err
				}()
				synctest.Wait()
				for _, d := range []*faults{f, wf} {
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				if err := unlock(); !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("Unlock: %v, want ErrClosed", err)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("Unlock took %v, want it at once", took)
				}
				if err := <-waiting; !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a caller that waited: %v, want ErrClosed", err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("a caller that waited noticed it after %v, want 3s at most", took)
				}
				time.Sleep(31 * time.Second)
				if !k.free(other, t.Context()) {
					t.Error("it is not free when the lease is over")
				}
			})
		})
	}
}

// tries are the operations that wait for no other client.
var tries = map[string]func(c *mortise.Client, ctx context.Context) error{
	"Lock":       func(c *mortise.Client, ctx context.Context) error { return tried(c.Lock("job"), ctx) },
	"FencedLock": func(c *mortise.Client, ctx context.Context) error { return tried(c.FencedLock("job"), ctx) },
	"SpinLock":   func(c *mortise.Client, ctx context.Context) error { return tried(c.SpinLock("job"), ctx) },
	"FairLock":   func(c *mortise.Client, ctx context.Context) error { return tried(c.FairLock("job"), ctx) },
	"GroupLock":  func(c *mortise.Client, ctx context.Context) error { return tried(c.GroupLock("group", "v"), ctx) },
	"ReadLock":   func(c *mortise.Client, ctx context.Context) error { return tried(c.RWLock("rw").Read(), ctx) },
	"WriteLock":  func(c *mortise.Client, ctx context.Context) error { return tried(c.RWLock("rw").Write(), ctx) },
	"MultiLock": func(c *mortise.Client, ctx context.Context) error {
		return tried(mortise.NewMultiLock(c.Lock("job"), c.Lock("other")), ctx)
	},
	"Redlock":   func(c *mortise.Client, ctx context.Context) error { return tried(mortise.NewRedlock("job", c), ctx) },
	"Semaphore": func(c *mortise.Client, ctx context.Context) error { return c.Semaphore("semaphore").TryAcquire(ctx, 1) },
	"PermitSemaphore": func(c *mortise.Client, ctx context.Context) error {
		_, _, err := c.PermitSemaphore("permits").TryAcquire(ctx)
		return err
	},
}

func tried(k taker, ctx context.Context) error {
	_, _, err := k.TryLock(ctx)
	return err
}

// What does not wait for other clients returns at once if they hold the lock. It does wait for
// Redis, as long as any other operation does.
func TestTryLockWaitsForRedisAndForNobodyElse(t *testing.T) {
	t.Parallel()
	for name, try := range tries {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				other, _ := open(t, s, nil)
				for _, k := range []taker{other.Lock("job"), other.RWLock("rw").Write(), other.GroupLock("group", "v")} {
					must(t, k, t.Context())
				}
				c, f := open(t, s, nil)
				start := time.Now()
				err := try(c, t.Context())
				if took := time.Since(start); took != 0 || !errors.Is(err, mortise.ErrLocked) && !errors.Is(err, mortise.ErrNoPermits) {
					t.Errorf("while it is held: %v after %v, want ErrLocked or ErrNoPermits at once", err, took)
				}
				f.Set(func(context.Context, string) error {
					return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
				}, nil)
				start = time.Now()
				err = try(c, t.Context())
				want := 10 * time.Second // Options.RetryFor
				if name == "Redlock" {
					want = 1500 * time.Millisecond // it asks each server once
				}
				if took := time.Since(start); took < want || took > want+200*time.Millisecond {
					t.Errorf("while Redis cannot be reached, it took %v, want %v", took, want)
				}
				if !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("while Redis cannot be reached: %v, want ErrUnreachable", err)
				}
			})
		})
	}
}

// Unlock finds out that the lock was lost before the watchdog does.
func TestUnlockOfALockThatIsGoneSaysSo(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		hold, ctx := must(t, k.Open(c, "job", mortise.LockOptions{}), t.Context())
		do(t, s, "DEL", "job")
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of a lock that somebody deleted: %v, want ErrLost", err)
		}
		if ctx.Err() == nil {
			t.Error("the context of the hold goes on")
		}
	})
}
