package behavior

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// An observer may keep the error of an event, and read it in another goroutine: nothing is written to it
// then. The race detector sees it if something is.
func TestObserverMayKeepErrors(t *testing.T) {
	t.Parallel()
	for name, a := range waitedFor {
		if a.party { // whose waits are not told
			continue
		}
		t.Run(name, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				told := make(chan error, 100)
				observe := mortise.ObserverFunc(func(e mortise.Event) {
					if e.Err != nil {
						told <- e.Err
					}
				})
				var observed party
				for _, s := range servers {
					c, _ := open(t, s, &mortise.Options{Observer: observe})
					observed = append(observed, c)
				}
				other, _ := openProcess(t, servers)
				_, free := a.occupy(t, other, "job")
				read := make(chan int)
				go func() {
					n := 0
					for err := range told {
						if err.Error() != "" {
							n++
						}
					}
					read <- n
				}()
				for range 3 {
					if err := a.wait(t.Context(), observed, "job", waitFor); !errors.Is(err, a.busy) {
						t.Errorf("%v, want %v", err, a.busy)
					}
				}
				free()
				for _, c := range observed {
					_ = c.Close()
				}
				close(told)
				if n := <-read; n < 3 {
					t.Errorf("%d errors were told, want 3", n)
				}
			})
		})
	}
}

// Own is about the client of the lock that refused, whether or not somebody observes the MultiLock.
func TestOwnOfAMultiLock(t *testing.T) {
	for name, observer := range map[string]mortise.Observer{"unobserved": nil, "observed": mortise.ObserverFunc(func(mortise.Event) {})} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				a, _ := open(t, s, &mortise.Options{Observer: observer})
				b, _ := open(t, s, &mortise.Options{Observer: observer})
				both := mortise.NewMultiLock(a.Lock("a"), b.Lock("b")).With(mortise.LockOptions{Wait: waitFor})
				for _, k := range []*mortise.Lock{a.Lock("a"), b.Lock("b")} {
					hold, _ := mustLock(t, k, t.Context())
					for _, enter := range []func(context.Context) (*mortise.Hold, context.Context, error){both.TryLock, both.Lock} {
						_, _, err := enter(t.Context())
						var held *mortise.HeldError
						if !errors.As(err, &held) || !held.Own {
							t.Errorf("%s is held by its own client: %v", k.Name(), err)
						}
					}
					mustUnlock(t, hold)
				}
			})
		})
	}
}

// The lock that the error of a MultiLock names is the one that the holder in it has.
func TestMultiLockNamesTheLockOfTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		long := 12 * time.Second
		if *deep {
			long = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		holder := map[string]string{} // the client that acquires the lock, by its name
		var all sync.WaitGroup
		for i, name := range []string{"m1", "m2"} {
			c, _ := open(t, s, nil)
			holder[name] = clientID(t, c)
			for j := range 3 {
				r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				all.Go(func() {
					for ctx.Err() == nil {
						hold, _, err := c.Lock(name).Lock(ctx)
						if err == nil {
							time.Sleep(time.Duration(r.IntN(12000)) * time.Microsecond)
							mustUnlock(t, hold)
						}
						time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
					}
				})
			}
		}
		c, _ := open(t, s, nil)
		own, named := clientID(t, c), 0
		var mu sync.Mutex // guards named
		for j := range 6 {
			r := rand.New(rand.NewPCG(2, uint64(j)))
			all.Go(func() {
				for ctx.Err() == nil {
					wait := time.Duration(5+r.IntN(400)) * time.Millisecond
					both := mortise.NewMultiLock(c.Lock("m1"), c.Lock("m2")).With(mortise.LockOptions{Wait: wait})
					hold, _, err := both.Lock(ctx)
					if err == nil {
						mustUnlock(t, hold)
						time.Sleep(time.Duration(1+r.IntN(1000)) * time.Microsecond) // else no time passes while it always succeeds
						continue
					}
					var of *mortise.Error
					var held *mortise.HeldError
					if !errors.As(err, &of) || !errors.As(err, &held) {
						continue
					}
					client, _, _ := strings.Cut(held.Owner, ":")
					if client != own && client != holder[of.Name] {
						t.Errorf("%v: that is a holder of another lock", err)
					}
					mu.Lock()
					named++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if named < 100 {
			t.Errorf("%d errors named a holder, want 100 to say something", named)
		}
	})
}

// clientID returns the id of a client, which is part of its owners.
func clientID(t *testing.T, c *mortise.Client) string {
	t.Helper()
	hold, _ := mustLock(t, c.Lock("id"), t.Context())
	defer mustUnlock(t, hold)
	id, _, _ := strings.Cut(hold.Owner(), ":")
	return id
}
