package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestRealOutOfMemory: a Redis that is out of memory admits no new holder, but
// whoever has something keeps it, and can give it back.
func TestRealOutOfMemory(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const lease = 1500 * time.Millisecond
		outOfMemory(t, s, dial(s.Addr(), &mortise.Options{Lease: lease, RetryFor: -1}), lease)
	})
}

func outOfMemory(t *testing.T, server *redistest.Server, client *mortise.Client, lease time.Duration) {
	ctx := mortise.WithOwner(t.Context()) // so that holds of one kind overlap

	// Each takes something, and returns until when that is trusted, and what gives
	// it back.
	type held struct {
		until func() time.Time
		back  func() error
	}
	hold := func(h *mortise.Hold, _ context.Context, err error) (held, error) {
		if err != nil {
			return held{}, err
		}
		return held{h.Until, h.Unlock}, nil
	}
	for0 := func(back func() error, err error) ([]held, error) {
		return []held{{nil, back}}, err
	}
	twice := func(take func(ctx context.Context) (*mortise.Hold, context.Context, error)) ([]held, error) {
		one, err := hold(take(ctx))
		if err != nil {
			return nil, err
		}
		two, err := hold(take(ctx))
		return []held{one, two}, err
	}
	kinds := map[string]func() ([]held, error){
		"Lock":     func() ([]held, error) { return twice(client.Lock("lock").Lock) },
		"SpinLock": func() ([]held, error) { return twice(client.SpinLock("spin").Lock) },
		"FairLock": func() ([]held, error) { return twice(client.FairLock("fair").Lock) },
		"FencedLock": func() ([]held, error) {
			h, err := hold(client.FencedLock("fenced").Lock(ctx))
			return []held{h}, err
		},
		"RWLock, read":  func() ([]held, error) { return twice(client.RWLock("read").Read().Lock) },
		"RWLock, write": func() ([]held, error) { return twice(client.RWLock("write").Write().Lock) },
		"RWLock, both": func() ([]held, error) {
			w, err := hold(client.RWLock("both").Write().Lock(ctx))
			if err != nil {
				return nil, err
			}
			r, err := hold(client.RWLock("both").Read().Lock(ctx))
			return []held{w, r}, err
		},
		"GroupLock": func() ([]held, error) {
			long := client.GroupLock("group", "c").With(mortise.LockOptions{Lease: time.Hour}) // the key need not be prolonged
			h, err := hold(long.Lock(t.Context()))
			if err != nil {
				return nil, err
			}
			both, err := twice(client.GroupLock("group", "a", "b").Lock)
			return append(both, held{nil, h.back}), err
		},
		"MultiLock": func() ([]held, error) {
			m := mortise.NewMultiLock(client.Lock("multi1"), client.Lock("multi2"))
			h, err := hold(m.Lock(t.Context()))
			return []held{h}, err
		},
		"PermitSemaphore": func() ([]held, error) {
			s := client.PermitSemaphore("permits").With(mortise.PermitOptions{Permits: 3})
			if _, err := s.TrySetPermits(ctx, 5); err != nil {
				return nil, err
			}
			h, err := hold(s.Acquire(ctx))
			return []held{h}, err
		},
		"PermitSemaphore, by id": func() ([]held, error) {
			s := client.PermitSemaphore("permit")
			if _, err := s.TrySetPermits(ctx, 5); err != nil {
				return nil, err
			}
			h, _, err := s.With(mortise.PermitOptions{Lease: time.Hour}).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return for0(func() error {
				id := h.Permits()[0]
				if ok, err := s.UpdateLease(t.Context(), id, time.Minute); !ok || err != nil {
					return fmt.Errorf("UpdateLease: %v, %w", ok, err)
				}
				if n, err := s.Release(t.Context(), id); n != 1 || err != nil {
					return fmt.Errorf("Release: %v, %w", n, err)
				}
				return nil
			}, nil)
		},
		"Semaphore": func() ([]held, error) {
			s := client.Semaphore("semaphore")
			if _, err := s.TrySetPermits(ctx, 5); err != nil {
				return nil, err
			}
			return for0(func() error { return s.Release(t.Context(), 2) }, s.Acquire(ctx, 2))
		},
		"CountDownLatch": func() ([]held, error) {
			l := client.CountDownLatch("latch")
			_, err := l.TrySetCount(ctx, 2)
			return for0(func() error {
				if err := l.CountDown(t.Context()); err != nil {
					return err
				}
				return l.CountDown(t.Context())
			}, err)
		},
		"Election": func() ([]held, error) {
			term, _, err := client.Election("election").Campaign(ctx, "me")
			if err != nil {
				return nil, err
			}
			return []held{{term.Until, term.Resign}}, nil
		},
		"DoubleBarrier": func() ([]held, error) {
			m, _, err := client.DoubleBarrier("double", 1).Enter(ctx)
			if err != nil {
				return nil, err
			}
			return []held{{nil, func() error { return m.Leave(t.Context()) }}}, nil
		},
	}
	all := map[string][]held{}
	for name, take := range kinds {
		got, err := take()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = got
	}
	server.Must(t, "CONFIG", "SET", "maxmemory", "1")
	began := time.Now()
	if _, err := server.Do("SET", "more", "x"); err == nil {
		t.Fatal("Redis is not out of memory")
	}
	for name, got := range all {
		t.Run(name, func(t *testing.T) {
			for _, h := range got {
				for h.until != nil && h.until().Before(began.Add(2*lease)) {
					if time.Now().After(h.until()) {
						t.Errorf("it was lost")
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			for i := len(got) - 1; i >= 0; i-- {
				if name == "RWLock, both" { // the write side first, so that it becomes a read lock
					i = 0
					if err := got[0].back(); err != nil {
						t.Errorf("give back the write side: %v", err)
					}
					got = got[1:]
				}
				if err := got[i].back(); err != nil {
					t.Errorf("give back: %v", err)
				}
			}
		})
	}
}
