package behavior

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// Replies and requests are lost, of every script: each operation has its effect
// once.
func TestSemaphoreSurvivesLostRepliesAndRequests(t *testing.T) {
	t.Parallel()
	for _, lost := range losses {
		t.Run(lost.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				sem, ctx := c.Semaphore("job"), t.Context()
				lost.Set(f, "number_set")
				if ok, err := sem.TrySetPermits(ctx, 5); !ok || err != nil {
					t.Errorf("TrySetPermits = %v, %v, want true", ok, err)
				}
				lost.Set(f, "semaphore_acquire")
				mustAcquire(t, sem, 2)
				lost.Set(f, "semaphore_acquire")
				if err := sem.TryAcquire(ctx, 1); err != nil {
					t.Error(err)
				}
				lost.Set(f, "number_read")
				wantAvailable(t, sem, 2)
				lost.Set(f, "semaphore_acquire")
				if err := sem.TryAcquire(ctx, 3); !errors.Is(err, mortise.ErrNoPermits) {
					t.Errorf("TryAcquire of too many: %v", err)
				}
				lost.Set(f, "semaphore_release")
				mustRelease(t, sem, 4)
				wantAvailable(t, sem, 6)
				lost.Set(f, "semaphore_add")
				if err := sem.AddPermits(ctx, -2); err != nil {
					t.Error(err)
				}
				wantAvailable(t, sem, 4)
				lost.Set(f, "semaphore_drain")
				if n, err := sem.Drain(ctx); n != 4 || err != nil {
					t.Errorf("Drain = %d, %v, want 4", n, err)
				}
				wantAvailable(t, sem, 0)

				lost.Set(f, "semaphore_undo")
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				if err := sem.Acquire(short, 2); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire of too many: %v", err)
				}
				time.Sleep(time.Second)
				if n := command(t, s, "EXISTS", "mortise:claim:{job}").Int(); n != 0 {
					t.Error("a claim is left")
				}
				lost.Set(f, "number_delete")
				if ok, err := sem.Delete(ctx); !ok || err != nil {
					t.Errorf("Delete = %v, %v, want true", ok, err)
				}
			})
		})
	}
}

// lateCopies is a driver whose calls of one script get no answer and arrive only
// after some time, if ever the caller is gone.
type lateCopies struct {
	driver.Driver
	script string
	late   time.Duration
	copies sync.WaitGroup
	server *memredis.Server
}

func (l *lateCopies) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() != l.script {
		return l.Driver.Eval(ctx, call)
	}
	l.copies.Go(func() {
		time.Sleep(l.late)
		d := l.server.Driver() // the client may be closed by then
		defer d.Close()
		_, _ = d.Eval(context.Background(), call)
	})
	<-ctx.Done()
	return driver.Value{}, driver.ContextError(ctx, driver.Unknown)
}

// A caller gives up while Redis has not answered. Its copy may have run, or may
// arrive any time later: the permits must not leak, and must not multiply.
func TestSemaphoreGivesUpWithoutLeakingPermits(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, time.Minute, 4 * time.Minute} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprint(late, " try ", try), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					other, _ := open(t, s, nil)
					sem := permitted(t, other, "job", 5)
					d := &lateCopies{Driver: s.Driver(), script: "semaphore_acquire", late: late, server: s}
					c := mortise.New(d, nil)
					defer c.Close()
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					start := time.Now()
					acquire := c.Semaphore("job").Acquire
					if try {
						acquire = c.Semaphore("job").TryAcquire
					}
					if err := acquire(ctx, 3); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
						t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
					}
					time.Sleep(time.Second)
					wantAvailable(t, sem, 5)
					d.copies.Wait()
					wantAvailable(t, sem, 5)
				})
			})
		}
	}
}

// A release that is answered by nobody is not done twice, and says that its
// outcome is unknown. The end of the caller's context does not stop it.
func TestSemaphoreReleaseAfterTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := permitted(t, c, "job", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sem.Release(ctx, 1); err != nil {
			t.Errorf("Release with a context that has ended: %v", err)
		}
		wantAvailable(t, sem, 2)

		f.Set(func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		}, nil)
		start := time.Now()
		if err := sem.Release(ctx, 1); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Release without Redis: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("it gave up after %v, want RetryFor", d)
		}
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "semaphore_release" {
				return errCut
			}
			return nil
		})
		if err := sem.Release(ctx, 1); !errors.Is(err, mortise.ErrUnreachable) || !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Release without any reply: %v, want ErrUnknownOutcome", err)
		}
		f.Set(nil, nil)
		wantAvailable(t, sem, 3) // it was added, once
	})
}

// Without a limit of time nobody asks for longer than Redis remembers.
func TestSemaphoreDoesNotAskForLongerThanRedisRemembers(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(ctx context.Context, s *mortise.Semaphore) error{
		"semaphore_release": func(ctx context.Context, s *mortise.Semaphore) error { return s.Release(ctx, 1) },
		"semaphore_add":     func(ctx context.Context, s *mortise.Semaphore) error { return s.AddPermits(ctx, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, &mortise.Options{RetryFor: -1})
				other, _ := open(t, s, nil)
				sem := permitted(t, other, "job", 1)
				ran := false
				f.Set(func(context.Context, string) error { // one copy runs, the others get lost
					if ran {
						return errCut
					}
					return nil
				}, func(context.Context, string) error {
					ran = true
					return errCut
				})
				time.AfterFunc(6*time.Minute, func() { f.Set(nil, nil) }) // Redis has forgotten it by then
				start := time.Now()
				if err := add(t.Context(), c.Semaphore("job")); !errors.Is(err, mortise.ErrUnknownOutcome) || !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("got %v, want ErrUnknownOutcome and ErrUnreachable", err)
				}
				if d := time.Since(start); d < 2*time.Minute || d > 3*time.Minute {
					t.Errorf("it gave up after %v, want half of what Redis remembers", d)
				}
				wantAvailable(t, sem, 2)
			})
		})
	}
}

// An acquisition that nobody answers for that long is given up, and undone when
// Redis answers again.
func TestSemaphoreAcquisitionInDoubtForLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		other, _ := open(t, s, nil)
		sem := permitted(t, other, "job", 3)
		f.Set(nil, func(context.Context, string) error { return errCut })
		start := time.Now()
		if err := c.Semaphore("job").Acquire(t.Context(), 2); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Acquire: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d > 3*time.Minute {
			t.Errorf("it gave up after %v, want %v at most", d, 3*time.Minute)
		}
		f.Set(nil, nil)
		time.Sleep(2 * time.Second)
		wantAvailable(t, sem, 3)
	})
}
