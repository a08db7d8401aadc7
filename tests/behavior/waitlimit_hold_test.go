package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// held is how a hold is acquired that a limited wait leads to.
type held func(ctx context.Context, p party, limit time.Duration) (unlock func() error, held context.Context, err error)

var limitedHolds = func() map[string]held {
	all := map[string]held{
		"PermitSemaphore": func(ctx context.Context, p party, limit time.Duration) (func() error, context.Context, error) {
			s := p[0].PermitSemaphore("job").With(mortise.PermitOptions{Wait: limit})
			if _, err := s.TrySetPermits(ctx, 1); err != nil {
				return nil, ctx, err
			}
			hold, ctx, err := s.Acquire(ctx)
			return unlockOf(hold, err), ctx, err
		},
		"Election": func(ctx context.Context, p party, limit time.Duration) (func() error, context.Context, error) {
			term, ctx, err := p[0].Election("job").With(mortise.LockOptions{Wait: limit}).Campaign(ctx, "")
			if err != nil {
				return nil, ctx, err
			}
			return term.Resign, ctx, nil
		},
		"DoubleBarrier": func(ctx context.Context, p party, limit time.Duration) (func() error, context.Context, error) {
			b := p[0].DoubleBarrier("job", 2).With(mortise.WaitOptions{Wait: limit})
			other := make(chan *mortise.Member, 1)
			go func() {
				m, _, _ := b.Enter(context.WithoutCancel(ctx))
				other <- m
			}()
			m, held, err := b.Enter(ctx)
			if err != nil {
				return nil, ctx, err
			}
			second := <-other
			leave := func() error {
				go func() { _ = second.Leave(context.WithoutCancel(ctx)) }()
				return m.Leave(context.WithoutCancel(ctx))
			}
			return leave, held, nil
		},
	}
	locks := map[string]func(p party, o mortise.LockOptions) taker{
		"RWLock.Read": func(p party, o mortise.LockOptions) taker { return p[0].RWLock("job").Read().With(o) },
		"MultiLock":   func(p party, o mortise.LockOptions) taker { return multi(p[0], "a", "b").With(o) },
		"Redlock":     func(p party, o mortise.LockOptions) taker { return mortise.NewRedlock("job", p...).With(o) },
	}
	for name, k := range kinds {
		locks[name] = func(p party, o mortise.LockOptions) taker { return k.Open(p[0], "job", o) }
	}
	for name, open := range locks {
		all[name] = func(ctx context.Context, p party, limit time.Duration) (func() error, context.Context, error) {
			hold, ctx, err := open(p, mortise.LockOptions{Wait: limit}).Lock(ctx)
			return unlockOf(hold, err), ctx, err
		}
	}
	return all
}()

func unlockOf(hold *mortise.Hold, err error) func() error {
	if err != nil {
		return nil
	}
	return hold.Unlock
}

// The limit bounds the wait, and not what comes of it; the end of ctx ends both.
func TestHoldOutlivesTheLimitOfItsWait(t *testing.T) {
	t.Parallel()
	for name, acquire := range limitedHolds {
		t.Run(name, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				p, _ := openProcess(t, servers)
				caller, cancel := context.WithCancel(t.Context())
				defer cancel()
				unlock, ctx, err := acquire(caller, p, waitFor)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * waitFor)
				if ctx.Err() != nil {
					t.Errorf("the context of the hold ended with the wait: %v", context.Cause(ctx))
				}
				if end, ok := ctx.Deadline(); ok {
					t.Errorf("the context of the hold has the deadline %v", end)
				}
				cancel()
				if ctx.Err() == nil {
					t.Error("the context of the hold outlived that of the caller")
				}
				if err := unlock(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lock that becomes free in the very instant in which the limit of a wait is over is
// acquired or not; in neither case it stays behind.
func TestLockThatIsFreedAtTheLimitOfAWait(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		const limit = 50 * time.Millisecond
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for _, by := range []*mortise.Client{c, other} {
			for _, early := range []time.Duration{time.Millisecond, 0, -time.Millisecond} {
				hold, _ := must(t, k.Open(by, "job", mortise.LockOptions{}), t.Context())
				freed := make(chan struct{})
				time.AfterFunc(limit-early, func() { mustUnlock(t, hold); close(freed) })
				mine, _, err := k.Open(c, "job", mortise.LockOptions{Wait: limit}).Lock(t.Context())
				switch {
				case err == nil:
					mustUnlock(t, mine)
				case !errors.Is(err, mortise.ErrLocked):
					t.Errorf("freed %v before the limit: %v", early, err)
				}
				<-freed
				start := time.Now()
				next, _ := must(t, k.Open(other, "job", mortise.LockOptions{}), t.Context())
				if d := time.Since(start); d > 5*time.Second {
					t.Errorf("freed %v before the limit, it stayed locked for %v", early, d)
				}
				mustUnlock(t, next)
			}
		}
		wantEmpty(t, s)
	})
}

// The reply of an attempt that acquires the lock does not come before the limit is over.
func TestLimitDuringAnAttempt(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		if _, err := c.Inspect(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		f.Set(nil, hang)
		_, _, err := k.Open(c, "job", mortise.LockOptions{Wait: waitFor}).Lock(t.Context())
		if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLocked) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want only ErrUnreachable", err)
		}
		f.Set(nil, nil)
		start := time.Now()
		next, _ := must(t, k.Open(other, "job", mortise.LockOptions{}), t.Context())
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("what the attempt had acquired stayed for %v", d)
		}
		mustUnlock(t, next)
		wantEmpty(t, s)
	})
}

// A limit that is over at once is not an answer: nobody has asked Redis.
func TestLimitThatIsTooShortToAsk(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, fs := openProcess(t, servers)
		slow := func(ctx context.Context, _ string) error {
			time.Sleep(time.Millisecond)
			return hangIfEnded(ctx)
		}
		for _, f := range fs {
			f.Set(slow, nil)
		}
		for name, a := range waitedFor {
			if err := a.wait(t.Context(), p, "free:"+name, 1); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, a.busy) {
				t.Errorf("%s: %v, want ErrUnreachable", name, err)
			}
		}
	})
}

func hangIfEnded(ctx context.Context) error {
	if ctx.Err() != nil {
		return hang(ctx, "")
	}
	return nil
}

func TestNegativeLimitOfAWait(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, fs := openProcess(t, servers)
		before := fs[0].Total()
		for name, a := range waitedFor {
			if err := a.wait(t.Context(), p, "job", -1); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if n := fs[0].Total() - before; n != 0 {
			t.Errorf("%d scripts were sent", n)
		}
	})
}

// The parties of a double barrier wait for each other when they leave, too.
func TestLimitOfLeavingADoubleBarrier(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		b := c.DoubleBarrier("job", 2).With(mortise.WaitOptions{Wait: waitFor})
		members := make(chan *mortise.Member, 2)
		for range 2 {
			go func() {
				m, _, err := b.Enter(t.Context())
				if err != nil {
					t.Error(err)
				}
				members <- m
			}()
		}
		one, two := <-members, <-members
		start := time.Now()
		err := one.Leave(t.Context())
		var missing *mortise.MissingError
		if !errors.As(err, &missing) || missing.Missing != 1 || missing.Of != 2 || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != waitFor {
			t.Errorf("after %v: %v, want 1 of 2 missing", time.Since(start), err)
		}
		if err := two.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if err := one.Leave(t.Context()); err != nil {
			t.Errorf("once all have left: %v", err)
		}
	})
}

// A waiter that wants more permits than the first one, or fewer, is told what it wants itself.
func TestPermitsErrorBehindAnotherWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		plain, leased := c.Semaphore("plain"), permitsOf(t, c, 2)
		if set, err := plain.TrySetPermits(t.Context(), 2); err != nil || !set {
			t.Fatal(set, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = plain.Acquire(ctx, 3) }()
		go func() { _, _, _ = leased.With(atOnce(3)).Acquire(ctx) }()
		time.Sleep(time.Millisecond)
		_, _, err := leased.With(mortise.PermitOptions{Wait: waitFor}).Acquire(t.Context())
		for _, err := range []error{plain.With(mortise.WaitOptions{Wait: waitFor}).Acquire(t.Context(), 1), err} {
			var few *mortise.PermitsError
			if !errors.As(err, &few) || few.Wanted != 1 || few.Available != 2 || errors.Is(err, mortise.ErrNotSet) {
				t.Errorf("%v, want 1 of 2 that others wait for", err)
			}
		}
		_, _, err = c.PermitSemaphore("unset").With(mortise.PermitOptions{Wait: waitFor}).Acquire(t.Context())
		for _, err := range []error{c.Semaphore("unset too").With(mortise.WaitOptions{Wait: waitFor}).Acquire(t.Context(), 1), err} {
			if !errors.Is(err, mortise.ErrNotSet) || !errors.Is(err, mortise.ErrNoPermits) {
				t.Errorf("%v, want ErrNotSet", err)
			}
		}
	})
}

// A party that gives up at its limit breaks the barrier, as one whose context ends.
func TestBarrierBreaksAtTheLimitOfAParty(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		b := c.Barrier("job", 3)
		patient := make(chan error, 1)
		go func() {
			_, err := b.Await(t.Context())
			patient <- err
		}()
		time.Sleep(time.Millisecond)
		_, err := b.With(mortise.WaitOptions{Wait: waitFor}).Await(t.Context())
		var missing *mortise.MissingError
		if !errors.As(err, &missing) || missing.Missing != 1 || missing.Of != 3 || errors.Is(err, mortise.ErrBroken) {
			t.Errorf("%v, want 1 of 3 missing", err)
		}
		if err := <-patient; !errors.Is(err, mortise.ErrBroken) {
			t.Errorf("the other party: %v, want ErrBroken", err)
		}
	})
}

func TestMissingErrorCountsInWords(t *testing.T) {
	for _, c := range []struct {
		missing mortise.MissingError
		want    string
	}{
		{mortise.MissingError{Missing: 1}, "1 more count-down is needed"},
		{mortise.MissingError{Missing: 2}, "2 more count-downs are needed"},
		{mortise.MissingError{Missing: 2, Of: 3}, "parties missing: 2 of 3"},
	} {
		if got := c.missing.Error(); got != c.want {
			t.Errorf("%+v says %q, want %q", c.missing, got, c.want)
		}
	}
}
