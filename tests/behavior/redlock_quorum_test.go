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

// refuse is a fault: the connection cannot be made.
func refuse(context.Context, string) error {
	return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
}

// With one server of three away, in each way, nobody notices it.
func TestRedlockWithoutOneServer(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]func(context.Context, string) error{"stalled": hang, "refusing": refuse} {
		t.Run(what, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
				p.faults[1].Set(fault, nil)
				start := time.Now()
				hold, ctx := mustRedlock(t, p.redlock(), t.Context())
				if d := time.Since(start); d != 0 {
					t.Errorf("%s: it took %v, want no time: the others decide", what, d)
				}
				if _, _, err := other.redlock().TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("%s: TryLock of another: %v, want ErrLocked", what, err)
				}
				time.Sleep(time.Minute)
				if ctx.Err() != nil || !hold.Valid() {
					t.Errorf("%s: lost: %v", what, context.Cause(ctx))
				}
				start = time.Now()
				mustUnlock(t, hold)
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("%s: Unlock took %v, want %v at most", what, d, 10*time.Millisecond)
				}
				again, _ := mustRedlock(t, other.redlock(), t.Context())
				mustUnlock(t, again)
			})
		})
	}
}

// Where the outcome depends on a server that does not answer, it costs its time
// once, and then others are waited for as ever.
func TestRedlockAStalledServerCostsItsTimeOnce(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		p.faults[2].Set(hang, nil)
		block, _ := mustLock(t, other.clients[0].Lock("job"), t.Context())
		start := time.Now()
		_, _, err := p.redlock().TryLock(t.Context())
		if d := time.Since(start); !errors.Is(err, mortise.ErrLocked) || d > 1600*time.Millisecond {
			t.Errorf("TryLock: %v after %v, want ErrLocked within 1.5s", err, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // by then it is known
		defer cancel()
		if _, _, err := p.redlock().Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("Lock: %v, want the context's error and ErrLocked", err)
		}
		for range 5 {
			time.AfterFunc(5*time.Second, func() { mustUnlock(t, block) })
			start = time.Now()
			hold, _ := mustRedlock(t, p.redlock(), t.Context())
			if d := time.Since(start); d < 5*time.Second || d > 5400*time.Millisecond {
				t.Errorf("it had the lock after %v, want soon after 5s", d)
			}
			mustUnlock(t, hold)
			block, _ = mustLock(t, other.clients[0].Lock("job"), t.Context())
		}
		mustUnlock(t, block)
	})
}

// Which error it is does not depend on which server is the fastest to answer, or
// to fail.
func TestRedlockTellsLockedFromNoQuorum(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		block, _ := mustRedlock(t, other.redlock(), t.Context())
		synctest.Wait()
		slow := func(context.Context, string) error { time.Sleep(300 * time.Millisecond); return nil }
		gone := func(context.Context, string) error {
			return &driver.Error{Class: driver.Denied, Err: errors.New("NOAUTH")} // fails at once
		}
		for _, test := range []struct {
			faults [3]func(context.Context, string) error
			want   error
		}{
			{[3]func(context.Context, string) error{nil, slow, gone}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{slow, gone, slow}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{nil, hang, gone}, mortise.ErrNoQuorum},
			{[3]func(context.Context, string) error{slow, gone, gone}, mortise.ErrNoQuorum},
			{[3]func(context.Context, string) error{hang, nil, nil}, mortise.ErrLocked},
			{[3]func(context.Context, string) error{hang, hang, nil}, mortise.ErrNoQuorum},
		} {
			for i, fault := range test.faults {
				p.faults[i].Set(fault, nil)
			}
			if _, _, err := p.redlock().TryLock(t.Context()); !errors.Is(err, test.want) ||
				errors.Is(err, mortise.ErrLocked) == errors.Is(err, mortise.ErrNoQuorum) {
				t.Errorf("TryLock: %v, want %v", err, test.want)
			}
		}
		for _, f := range p.faults {
			f.Set(nil, nil)
		}
		mustUnlock(t, block)
		time.Sleep(time.Minute)
		if n := on(t, servers); n != 0 {
			t.Errorf("it is still on %d servers, want 0", n)
		}
	})
}

// Too few servers answer: ErrNoQuorum, and nothing is left on those that did.
func TestRedlockWithoutAQuorum(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]func(context.Context, string) error{"stalled": hang, "refusing": refuse} {
		t.Run(what, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p := newProcess(t, servers, &mortise.Options{RetryFor: 5 * time.Second})
				p.faults[0].Set(fault, nil)
				p.faults[2].Set(fault, nil)
				start := time.Now()
				_, _, err := p.redlock().TryLock(t.Context())
				if d := time.Since(start); d > 1600*time.Millisecond {
					t.Errorf("%s: TryLock took %v, want 1.5s", what, d)
				}
				if !errors.Is(err, mortise.ErrNoQuorum) || errors.Is(err, mortise.ErrLocked) || !errors.Is(err, mortise.ErrUnreachable) ||
					errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 3 did, and 2 are needed; server 1 of 3") {
					t.Errorf("%s: TryLock: %v, want ErrNoQuorum", what, err)
				}
				if n := on(t, servers[1:2]); n != 0 {
					t.Errorf("%s: the lock is left on the server that answers", what)
				}
				start = time.Now()
				_, _, err = p.redlock().Lock(t.Context())
				if d := time.Since(start); !errors.Is(err, mortise.ErrNoQuorum) || d < 5*time.Second || d > 10*time.Second {
					t.Errorf("%s: Lock: %v after %v, want ErrNoQuorum after 5s", what, err, d)
				}
				// One comes back while it waits.
				time.AfterFunc(3*time.Second, func() { p.faults[0].Set(nil, nil) })
				start = time.Now()
				hold, _ := mustRedlock(t, p.redlock(), t.Context())
				if d := time.Since(start); d > 7*time.Second {
					t.Errorf("%s: it had the lock after %v, want soon after 3s", what, d)
				}
				mustUnlock(t, hold)
				p.faults[2].Set(nil, nil)
				time.Sleep(time.Minute)
				if n := on(t, servers); n != 0 {
					t.Errorf("%s: it is still on %d servers, want 0", what, n)
				}
			})
		})
	}
}

// What does not pass by itself is reported at once.
func TestRedlockThatIsHopeless(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		do(t, servers[0], "RPUSH", "job", "x")
		hold, _ := mustRedlock(t, p.redlock(), t.Context()) // two are enough
		mustUnlock(t, hold)
		synctest.Wait()
		do(t, servers[1], "RPUSH", "job", "x")
		start := time.Now()
		_, _, err := p.redlock().Lock(t.Context())
		if d := time.Since(start); !errors.Is(err, mortise.ErrNoQuorum) || !errors.Is(err, mortise.ErrWrongKind) || d > time.Second {
			t.Errorf("%v after %v, want ErrNoQuorum and ErrWrongKind at once", err, d)
		}
		synctest.Wait()
		if n := on(t, servers[2:]); n != 0 {
			t.Error("the lock is left on the third server")
		}
	})
}

// Several ask at the same time, so that nobody has a majority: that resolves.
func TestRedlockSplitVotes(t *testing.T) {
	several(t, 5, func(t *testing.T, servers []*memredis.Server) {
		// Each has another server that is faster for it than the others.
		var all sync.WaitGroup
		start := time.Now()
		for i := range 5 {
			p := newProcess(t, servers, nil)
			for j, f := range p.faults {
				delay := time.Duration((j-i+5)%5) * time.Millisecond
				f.Set(func(_ context.Context, name string) error { time.Sleep(delay); return nil }, nil)
			}
			all.Go(func() {
				hold, _, err := p.redlock().Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mustUnlock(t, hold)
			})
		}
		all.Wait()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("five turns took %v, want %v at most", d, 5*time.Second)
		}
	})
}

// The majority's answers come when their leases are over already.
func TestRedlockAnswersComeTooLate(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p := newProcess(t, servers, nil)
		for _, f := range p.faults[1:] {
			f.Set(nil, func(_ context.Context, name string) error {
				if name == "lock_acquire" {
					time.Sleep(45 * time.Millisecond)
				}
				return nil
			})
		}
		k := p.redlock().With(mortise.LockOptions{MaxHold: 40 * time.Millisecond})
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){k.Lock, k.TryLock} {
			if _, _, err := take(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLost) {
				t.Errorf("got %v, want ErrUnreachable, for nothing was held", err)
			}
			time.Sleep(time.Second)
			if n := on(t, servers); n != 0 {
				t.Errorf("it is still on %d servers, want 0", n)
			}
		}
	})
}

// slow is a driver that says what it talks to only when it is told to.
type slow struct {
	driver.Driver
	told chan struct{}
}

func (d *slow) Topology(ctx context.Context) (driver.Topology, error) {
	select {
	case <-d.told:
		return d.Driver.Topology(ctx)
	case <-ctx.Done():
		return driver.Topology{}, driver.ContextError(ctx, driver.NotSent)
	}
}
