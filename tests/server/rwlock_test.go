package server

// What virtual time cannot show of read/write locks: the scripts on real servers
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

func TestRealRWLockExclusion(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const clients, goroutines, rounds = 3, 4, 10
		one, two := 0, 0 // unprotected but for the lock; -race looks on
		var readers, most atomic.Int32
		var all sync.WaitGroup
		for range clients {
			k := dial(s.Addr(), nil).RWLock("doc")
			for i := range goroutines {
				all.Go(func() {
					for range rounds {
						var err error
						if i == 0 {
							err = k.Write().Do(t.Context(), func(context.Context) error {
								one++
								time.Sleep(time.Millisecond)
								two++
								return nil
							})
						} else {
							err = k.Read().Do(t.Context(), func(context.Context) error {
								most.Store(max(readers.Add(1), most.Load()))
								defer readers.Add(-1)
								if one != two {
									t.Errorf("a reader sees %d and %d, want them equal", one, two)
								}
								time.Sleep(time.Millisecond)
								return nil
							})
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if want := clients * rounds; one != want || two != want {
			t.Errorf("the writers have counted to %d and %d, want %d", one, two, want)
		}
		if most.Load() < 2 {
			t.Error("there were never two readers at once")
		}
		wantNoKeys(t, s)
	})
}

// The connection is cut after a script ran and before its reply arrived.
func TestRealRWLockLostReplies(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		k := dial(p.Addr(), nil).RWLock("doc")
		use := func(before func() func()) {
			t.Helper()
			owner := mortise.WithOwner(t.Context())
			step := func(f func()) {
				done := before()
				f()
				done()
			}
			var w, r, inner *mortise.Hold
			step(func() { w, _ = must(t, k.Write(), owner) })
			step(func() { r, _ = must(t, k.Read(), owner) })
			step(func() { inner, _ = must(t, k.Read(), owner) })
			wantHolders(t, k, "write", w.Owner(), 1, r.Owner(), 2)
			for _, h := range []*mortise.Hold{w, inner, r} {
				step(func() {
					if err := h.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
						t.Error(err)
					}
				})
			}
			wantHolders(t, k, "")
		}
		use(func() func() { return func() {} }) // every script is known to the server from here on
		use(func() func() {
			cut := p.LoseReply("doc", 1)
			return func() { <-cut }
		})
		wantNoKeys(t, s)
	})
}

// All keys of a lock lie in its slot, and renewals of many are told apart.
func TestRealRWLockOnACluster(t *testing.T) {
	onClusterInTime(t, func(t *testing.T, b *canary.Bounds, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		const lease = 2 * time.Second
		c, other := dial(&mortise.Options{TTL: lease}), dial(nil)
		var holds []*mortise.Hold
		var waiting sync.WaitGroup
		for i, master := range set.Masters {
			for j := range 3 {
				name := set.KeyOn(t, master, fmt.Sprint(driver, i, j))
				owner := mortise.WithOwner(t.Context())
				w, _ := must(t, c.RWLock(name).Write(), owner)
				r, _ := must(t, c.RWLock(name).Read(), owner)
				again, _ := must(t, c.RWLock(name).Read(), owner)
				waiting.Go(func() {
					h, _, err := other.RWLock(name).Read().Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mustUnlock(t, h)
				})
				holds = append(holds, w, r, again)
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
			wantHad(t, other.RWLock(h.Name()).Write())
		}
	})
}

// rwUsesItsRights does all that a read/write lock can do.
func rwUsesItsRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	k, o := c.RWLock(name), other.RWLock(name)
	owner := mortise.WithOwner(t.Context())
	w, _ := must(t, k.Write(), owner)
	r, _ := must(t, k.Read(), owner)
	inner, _ := must(t, k.Read(), owner)
	again, _ := must(t, k.Write(), owner)
	wantHolders(t, k, "write", w.Owner(), 2, r.Owner(), 2)
	got := make(chan *mortise.Hold)
	go func() {
		h, _, err := o.Read().Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	wantRefused(t, o.Read(), w.Owner())
	for _, h := range []*mortise.Hold{again, inner, w} {
		mustUnlock(t, h)
	}
	if theirs := <-got; theirs != nil {
		wantHolders(t, k, "read", r.Owner(), 1, theirs.Owner(), 1)
		mustUnlock(t, theirs)
	}
	if freed, err := o.Read().ForceUnlock(t.Context()); err != nil || len(freed) != 1 {
		t.Errorf("ForceUnlock: %v, %v, want one holder", freed, err)
	}
	h, _ := must(t, o.Write(), t.Context())
	mustUnlock(t, h)
	if err := r.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock of what was forced: %v", err)
	}
}
