package server

// What virtual time cannot show of permit semaphores: the scripts on real servers
// at once, their keys on a cluster, and the rights that they need.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestRealPermitsAreNeverExceeded(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const total, clients, goroutines, rounds = 4, 3, 4, 15
		sem := permitsOf(t, dial(s.Addr(), nil), total)
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for range clients {
			c := dial(s.Addr(), nil)
			for g := range goroutines {
				n := int64(g%3 + 1)
				all.Go(func() {
					for range rounds {
						err := c.PermitSemaphore("job").With(atOnce(int(n))).Do(t.Context(), func(context.Context) error {
							now := inside.Add(n)
							most.Store(max(now, most.Load()))
							if now > total {
								t.Errorf("%d permits are out, want %v at most", now, total)
							}
							time.Sleep(time.Millisecond)
							inside.Add(-n)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most.Load() < 2 {
			t.Error("there were never two inside at once")
		}
		wantPermits(t, sem, total, 0)
		if ok, err := sem.Delete(t.Context()); !ok || err != nil {
			t.Errorf("got %v, %v, want true", ok, err)
		}
		if keys := s.Must(t, "KEYS", "[^m]*").([]any); len(keys) != 0 { // all but those that remember operations for a while
			t.Errorf("keys are left: %v", keys)
		}
	})
}

// The connection is cut after a script ran and before its reply arrived.
func TestRealPermitsSurviveLostReplies(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		sem := dial(p.Addr(), nil).PermitSemaphore("job")
		sure := dial(s.Addr(), nil).PermitSemaphore("job")
		use := func(before func() func()) {
			t.Helper()
			step := func(available, out int, f func() error) {
				t.Helper()
				done := before()
				if err := f(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Error(err)
				}
				done()
				wantPermits(t, sure, available, out)
			}
			var one, three *mortise.Hold
			take := func(hold **mortise.Hold, n int) func() error {
				return func() (err error) {
					*hold, _, err = sem.With(atOnce(n)).Acquire(t.Context())
					return err
				}
			}
			step(7, 0, func() error { _, err := sem.TrySetPermits(t.Context(), 7); return err })
			step(6, 1, take(&one, 1))
			step(3, 4, take(&three, 3))
			step(5, 4, func() error { return sem.AddPermits(t.Context(), 2) })
			step(8, 1, func() error { return three.Unlock() })
			step(9, 0, func() error { _, err := sem.Release(t.Context(), one.Permits()...); return err })
			step(0, 0, func() error { _, err := sem.Delete(t.Context()); return err })
		}
		use(func() func() { return func() {} }) // every script is known to the server from here on
		use(func() func() {
			cut := p.LoseReply("job", 1)
			return func() { <-cut }
		})
	})
}

// All keys lie in one slot, waiters are woken, and renewals of many are told
// apart.
func TestRealPermitsOnACluster(t *testing.T) {
	onClusterInTime(t, func(t *testing.T, b *canary.Bounds, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		const lease = 2 * time.Second
		c, other := dial(&mortise.Options{TTL: lease}), dial(nil)
		var holds []*mortise.Hold
		var waiting sync.WaitGroup
		for i, master := range set.Masters {
			for j := range 3 {
				name := set.KeyOn(t, master, fmt.Sprint("permits", driver, i, j))
				if ok, err := c.PermitSemaphore(name).TrySetPermits(t.Context(), 2); !ok || err != nil {
					t.Fatalf("got %v, %v, want true", ok, err)
				}
				holds = append(holds, takeAll(t, c.PermitSemaphore(name), 2))
				waiting.Go(func() {
					if err := other.PermitSemaphore(name).Do(t.Context(), func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				})
			}
		}
		renewed := awaitRenewals(t, b, lease, holds...)
		for _, h := range holds {
			if err := h.Unlock(); err != nil && renewed {
				t.Error(err)
			}
		}
		waiting.Wait()
		for _, h := range holds {
			wantPermits(t, other.PermitSemaphore(h.Name()), 2, 0)
		}
	})
}

// takeAll takes permits at once.
func takeAll(t *testing.T, s *mortise.PermitSemaphore, n int) *mortise.Hold {
	t.Helper()
	hold, _ := mustTakePermits(t, s.With(atOnce(n)))
	return hold
}

// permitsUseTheirRights does all that a permit semaphore can do.
func permitsUseTheirRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	s, o := c.PermitSemaphore(name), other.PermitSemaphore(name)
	ctx := t.Context()
	if ok, err := s.TrySetPermits(ctx, 2); !ok || err != nil {
		t.Fatalf("got %v, %v, want true", ok, err)
	}
	if err := errors.Join(s.SetPermits(ctx, 5), s.AddPermits(ctx, -2)); err != nil {
		t.Error(err)
	}
	hold := takeAll(t, s, 3)
	waiting := awaitedPermits(t, o)
	if list, err := o.List(ctx); err != nil || len(list) != 3 {
		t.Error(list, err)
	}
	if ok, err := o.UpdateLease(ctx, hold.Permits()[0], time.Hour); !ok || err != nil {
		t.Errorf("got %v, %v, want true", ok, err)
	}
	mustUnlock(t, hold)
	waiting.Wait()
	lost := takeAll(t, s, 1)
	if n, err := o.Release(ctx, lost.Permits()...); n != 1 || err != nil {
		t.Errorf("got %v, %v, want 1", n, err)
	}
	if err := lost.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock of what was released: %v", err)
	}
	wantTakenBack(t, s, o)
	if ok, err := o.Delete(ctx); !ok || err != nil {
		t.Errorf("got %v, %v, want true", ok, err)
	}
}

// wantTakenBack has o take a permit whose lease with s is over.
func wantTakenBack(t *testing.T, s, o *mortise.PermitSemaphore) {
	late, _, err := s.With(mortise.PermitOptions{MaxHold: 200 * time.Millisecond}).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(210 * time.Millisecond)
	mustUnlock(t, takeAll(t, o, 3)) // takes back what is over
	_ = late.Unlock()
}

// awaitedPermits has a goroutine wait for two permits.
func awaitedPermits(t *testing.T, s *mortise.PermitSemaphore) *sync.WaitGroup {
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := s.With(atOnce(2)).Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
	redistest.Eventually(t, "somebody waits", func() error {
		_, _, err := s.TryAcquire(t.Context())
		if !errors.Is(err, mortise.ErrNoPermits) {
			return fmt.Errorf("got %s, want ErrNoPermits", fmt.Sprint(err))
		}
		return nil
	})
	return &waiting
}
