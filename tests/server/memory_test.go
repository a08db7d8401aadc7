package server

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestRealOutOfMemory: a Redis that is out of memory admits no new holder, but
// holders keep what they have, and can release it.
func TestRealOutOfMemory(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const lease = 1500 * time.Millisecond
		outOfMemory(t, b, s, dial(s.Addr(), &mortise.Options{TTL: lease, RetryFor: -1}), lease)
	})
}

// held is what is held of an object: until when it is trusted, if that is known, and what returns it.
type held struct {
	until func() time.Time
	back  func() error
}

func takenHold(h *mortise.Hold, _ context.Context, err error) (held, error) {
	if err != nil {
		return held{}, err
	}
	return held{h.Until, h.Unlock}, nil
}

func returnable(back func() error, err error) ([]held, error) {
	return []held{{nil, back}}, err
}

// crowded takes one object of each kind.
type crowded struct {
	t      *testing.T
	ctx    context.Context // one owner, so that holds of one kind overlap
	client *mortise.Client
}

func (c crowded) twice(take func(ctx context.Context) (*mortise.Hold, context.Context, error)) ([]held, error) {
	one, err := takenHold(take(c.ctx))
	if err != nil {
		return nil, err
	}
	two, err := takenHold(take(c.ctx))
	return []held{one, two}, err
}

func (c crowded) locks() map[string]func() ([]held, error) {
	return map[string]func() ([]held, error){
		"Lock":     func() ([]held, error) { return c.twice(c.client.Lock("lock").Lock) },
		"SpinLock": func() ([]held, error) { return c.twice(c.client.SpinLock("spin").Lock) },
		"FairLock": func() ([]held, error) { return c.twice(c.client.FairLock("fair").Lock) },
		"FencedLock": func() ([]held, error) {
			h, err := takenHold(c.client.FencedLock("fenced").Lock(c.ctx))
			return []held{h}, err
		},
		"RWLock, read":  func() ([]held, error) { return c.twice(c.client.RWLock("read").Read().Lock) },
		"RWLock, write": func() ([]held, error) { return c.twice(c.client.RWLock("write").Write().Lock) },
		"RWLock, both": func() ([]held, error) {
			w, err := takenHold(c.client.RWLock("both").Write().Lock(c.ctx))
			if err != nil {
				return nil, err
			}
			r, err := takenHold(c.client.RWLock("both").Read().Lock(c.ctx))
			return []held{w, r}, err
		},
		"GroupLock": func() ([]held, error) {
			long := c.client.GroupLock("group", "c").With(mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}) // the key need not be prolonged
			h, err := takenHold(long.Lock(c.t.Context()))
			if err != nil {
				return nil, err
			}
			both, err := c.twice(c.client.GroupLock("group", "a", "b").Lock)
			return append(both, held{nil, h.back}), err
		},
		"MultiLock": func() ([]held, error) {
			m := mortise.NewMultiLock(c.client.Lock("multi1"), c.client.Lock("multi2"))
			h, err := takenHold(m.Lock(c.t.Context()))
			return []held{h}, err
		},
	}
}

func (c crowded) counts() map[string]func() ([]held, error) {
	return map[string]func() ([]held, error){
		"PermitSemaphore": func() ([]held, error) {
			s := c.client.PermitSemaphore("permits").With(mortise.PermitOptions{Permits: 3})
			if _, err := s.TrySetPermits(c.ctx, 5); err != nil {
				return nil, err
			}
			h, err := takenHold(s.Acquire(c.ctx))
			return []held{h}, err
		},
		"PermitSemaphore, by id": c.permitByID,
		"Semaphore": func() ([]held, error) {
			s := c.client.Semaphore("semaphore")
			if _, err := s.TrySetPermits(c.ctx, 5); err != nil {
				return nil, err
			}
			return returnable(func() error { return s.Release(c.t.Context(), 2) }, s.Acquire(c.ctx, 2))
		},
		"CountDownLatch": func() ([]held, error) {
			l := c.client.CountDownLatch("latch")
			_, err := l.TrySetCount(c.ctx, 2)
			return returnable(func() error {
				if err := l.CountDown(c.t.Context()); err != nil {
					return err
				}
				return l.CountDown(c.t.Context())
			}, err)
		},
		"Election": func() ([]held, error) {
			term, _, err := c.client.Election("election").Campaign(c.ctx, "me")
			if err != nil {
				return nil, err
			}
			return []held{{term.Until, term.Resign}}, nil
		},
		"DoubleBarrier": func() ([]held, error) {
			m, _, err := c.client.DoubleBarrier("double", 1).Enter(c.ctx)
			if err != nil {
				return nil, err
			}
			return []held{{nil, func() error { return m.Leave(c.t.Context()) }}}, nil
		},
	}
}

func (c crowded) permitByID() ([]held, error) {
	s := c.client.PermitSemaphore("permit")
	if _, err := s.TrySetPermits(c.ctx, 5); err != nil {
		return nil, err
	}
	h, _, err := s.With(mortise.PermitOptions{TTL: time.Hour, MaxHold: time.Hour}).Acquire(c.ctx)
	if err != nil {
		return nil, err
	}
	return returnable(func() error {
		id := h.Permits()[0]
		if ok, err := s.UpdateLease(c.t.Context(), id, time.Minute); !ok || err != nil {
			return fmt.Errorf("UpdateLease: %v, %w", ok, err)
		}
		if n, err := s.Release(c.t.Context(), id); n != 1 || err != nil {
			return fmt.Errorf("Release: %v, %w", n, err)
		}
		return nil
	}, nil)
}

func outOfMemory(t *testing.T, b *canary.Bounds, server *redistest.Server, client *mortise.Client, lease time.Duration) {
	c := crowded{t, mortise.WithOwner(t.Context()), client}
	takes := c.locks()
	maps.Copy(takes, c.counts())
	all := map[string][]held{}
	for name, take := range takes {
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
			if !wantNotLost(b, got, lease, began.Add(2*lease)) {
				return
			}
			for i := len(got) - 1; i >= 0; i-- {
				if name == "RWLock, both" { // the write side first, so that it becomes a read lock
					i = 0
					if err := got[0].back(); err != nil {
						t.Errorf("release of the write side: %v", err)
					}
					got = got[1:]
				}
				if err := got[i].back(); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
}

// wantNotLost waits until all are trusted until end, and reports whether they are. That one is lost means that its
// renewal has come too late.
func wantNotLost(b *canary.Bounds, got []held, lease time.Duration, end time.Time) bool {
	for _, h := range got {
		for h.until != nil && h.until().Before(end) {
			if late := time.Since(h.until()); late > 0 {
				b.Within("the next renewal", lease+late, lease)
				return false
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return true
}
