package behavior

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Lead leads again after a loss and after an outage, and whatever ends it resigns, so that the next leads at once.
func TestLead(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, f := open(t, s, nil)
		b, _ := open(t, s, nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		terms := make(chan *mortise.Term, 10)
		ended := make(chan error, 1)
		work := func(ctx context.Context, term *mortise.Term) error {
			terms <- term
			<-ctx.Done()
			return nil
		}
		go func() { ended <- a.Election("lead").Lead(ctx, "a", work) }()
		next := func() *mortise.Term {
			t.Helper()
			select {
			case term := <-terms:
				return term
			case err := <-ended:
				t.Fatalf("Lead has ended: %v", err)
				return nil
			}
		}
		first := next()

		do(t, s, "DEL", "lead") // the leader learns that at its next renewal
		second := next()
		if first.Valid() || second.Token() <= first.Token() {
			t.Errorf("the second term is %d, after %d", second.Token(), first.Token())
		}

		f.Set(hang, nil)
		time.Sleep(2 * time.Minute)
		f.Set(nil, nil)
		third := next()
		if second.Valid() || !third.Valid() {
			t.Error("there was an outage, and it does not lead anew")
		}

		follows := make(chan error, 1)
		go func() { _, err := mustCampaign(t, b); follows <- err }()
		synctest.Wait()
		start := time.Now()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead: %v, want the error of its context", err)
		}
		if err := <-follows; err != nil || time.Since(start) != 0 {
			t.Errorf("the next leads after %v, %v, want at once", time.Since(start), err)
		}
	})
}

func mustCampaign(t *testing.T, c *mortise.Client) (*mortise.Term, error) {
	t.Helper()
	term, _, err := c.Election("lead").Campaign(t.Context(), "next")
	return term, err
}

// Lead returns what its function returns, and what does not pass.
func TestLeadReturns(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		e := c.Election("lead")
		failed := errors.New("failed")
		for _, want := range []error{nil, failed} {
			if err := e.Lead(t.Context(), "me", func(context.Context, *mortise.Term) error { return want }); !errors.Is(err, want) {
				t.Errorf("Lead: %v, want %v", err, want)
			}
			wantFree(t, s, "lead")
		}
		func() {
			defer func() {
				if recover() != "panic" {
					t.Error("the panic has got lost")
				}
			}()
			_ = e.Lead(t.Context(), "me", func(context.Context, *mortise.Term) error { panic("panic") })
		}()
		wantFree(t, s, "lead")
		if err := e.Lead(t.Context(), string(make([]byte, 1<<20)), nop); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("Lead with a value that is too long: %v, want ErrInvalid", err)
		}
		do(t, s, "SET", "lead", "text")
		if err := e.Lead(t.Context(), "me", nop); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("Lead with a name that is in use: %v, want ErrWrongKind", err)
		}
	})
}

func nop(context.Context, *mortise.Term) error { return nil }

// tryDo are the calls of TryDo of some kinds, for one client.
func tryDo(t *testing.T, c *mortise.Client) map[string]func(func(context.Context) error) (bool, error) {
	type work = func(context.Context) error
	return map[string]func(work) (bool, error){
		"Lock": func(f work) (bool, error) { return c.Lock("lock").TryDo(t.Context(), f) },
		"MultiLock": func(f work) (bool, error) {
			return mortise.NewMultiLock(c.Lock("lock"), c.Lock("more")).TryDo(t.Context(), f)
		},
		"Semaphore":       func(f work) (bool, error) { return c.Semaphore("sem").TryDo(t.Context(), 1, f) },
		"PermitSemaphore": func(f work) (bool, error) { return c.PermitSemaphore("permits").TryDo(t.Context(), f) },
	}
}

// setOne sets the semaphores of tryDo to one permit.
func setOne(t *testing.T, c *mortise.Client) {
	t.Helper()
	for _, set := range []func(context.Context, int) (bool, error){c.Semaphore("sem").TrySetPermits, c.PermitSemaphore("permits").TrySetPermits} {
		if _, err := set(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
}

// TryDo calls its function if nobody else has the lock, or the permits.
func TestTryDo(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		tries := tryDo(t, c)
		for _, name := range []string{"Semaphore", "PermitSemaphore"} {
			if done, err := tries[name](func(context.Context) error { return nil }); done || !errors.Is(err, mortise.ErrNotSet) {
				t.Errorf("%s that nobody has set: %v, %v, want ErrNotSet", name, done, err)
			}
		}
		setOne(t, c)
		failed := errors.New("failed")
		for name, try := range tries {
			for _, want := range []error{nil, failed} {
				if done, err := try(func(context.Context) error { return want }); !done || !errors.Is(err, want) {
					t.Errorf("%s: %v, %v, want that the function is called and %v", name, done, err, want)
				}
			}
		}
	})
}

func TestTryDoIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		setOne(t, c)
		mustLock(t, other.Lock("lock"), t.Context())
		if err := other.Semaphore("sem").Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.PermitSemaphore("permits").Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		never := func(context.Context) error { t.Error("the function is called"); return nil }
		for name, try := range tryDo(t, c) {
			if done, err := try(never); done || err != nil {
				t.Errorf("%s that others have: %v, %v, want neither a call nor an error", name, done, err)
			}
		}
		f.Set(hang, nil)
		for name, try := range tryDo(t, c) {
			if done, err := try(never); done || !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("%s during an outage: %v, %v, want ErrUnreachable", name, done, err)
			}
		}
		f.Set(nil, nil)
	})
}

// Timers of three processes differ. With MinHold and TryDo the job runs once for each tick.
func TestTryDoOncePerTick(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var runs atomic.Int32
		for i := range 3 {
			c, _ := open(t, s, nil)
			job := c.Lock("nightly").With(mortise.LockOptions{MinHold: 10 * time.Second})
			go func() {
				time.Sleep(time.Duration(i) * 150 * time.Millisecond)
				for range 5 {
					if _, err := job.TryDo(t.Context(), func(context.Context) error { runs.Add(1); time.Sleep(5 * time.Millisecond); return nil }); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Minute)
				}
			}()
		}
		time.Sleep(6 * time.Minute)
		if n := runs.Load(); n != 5 {
			t.Errorf("the job ran %d times in 5 ticks", n)
		}
	})
}
