package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Real servers go and come back, fewer than half at any time, while processes
// contend: the lock stays exclusive and available.
func TestRealRedlock(t *testing.T) {
	for name, open := range dialers {
		for _, n := range []int{3, 5} {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				t.Parallel()
				var servers []*redistest.Server
				for range n {
					servers = append(servers, redistest.Single(t))
				}
				process := func() *mortise.Redlock {
					var clients []*mortise.Client
					for _, s := range servers {
						c := mortise.New(open(t, s.Addr(), ""), &mortise.Options{TTL: 3 * time.Second})
						t.Cleanup(func() { _ = c.Close() })
						clients = append(clients, c)
					}
					return mortise.NewRedlock("job", clients...)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var crowd redlockCrowd
				for range 3 {
					k := process()
					for range 2 {
						crowd.all.Go(func() { crowd.contend(t, ctx, k) })
					}
				}
				progress := func(what string) { t.Helper(); crowd.wantProgress(t, what) }
				// Always the same ones: those that are left never forget.
				last := servers[n-1]
				progress("all are well")
				last.Kill()
				progress("one is killed")
				if n == 5 {
					servers[3].Pause(t)
					progress("one is killed and one is frozen")
					servers[3].Resume(t)
				}
				last.Start(t)
				progress("it is back, without data")
				last.Pause(t)
				progress("one is frozen")
				last.Resume(t)
				progress("it goes on")
				stop()
				crowd.all.Wait()
				if crowd.counter != crowd.rounds {
					t.Errorf("the counter is %d after %d rounds: two held the lock at once", crowd.counter, crowd.rounds)
				}
				redistest.Eventually(t, "the lock is free on all servers", func() error {
					for i, s := range servers {
						if s.Int(t, "EXISTS", "job") != 0 {
							return fmt.Errorf("server %d has it", i)
						}
					}
					return nil
				})
			})
		}
	}
}

// redlockCrowd are processes that contend for a Redlock.
type redlockCrowd struct {
	all     sync.WaitGroup
	counter int // unprotected but for the lock; -race looks on
	mu      sync.Mutex
	rounds  int // guarded by mu
}

// contend takes the lock again and again until ctx ends.
func (c *redlockCrowd) contend(t *testing.T, ctx context.Context, k *mortise.Redlock) {
	for ctx.Err() == nil {
		if err := k.Do(t.Context(), func(context.Context) error { c.counter++; return nil }); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.rounds++
		c.mu.Unlock()
	}
}

// wantProgress waits for twenty more rounds.
func (c *redlockCrowd) wantProgress(t *testing.T, what string) {
	t.Helper()
	c.mu.Lock()
	before := c.rounds
	c.mu.Unlock()
	redistest.Eventually(t, "progress while "+what, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rounds < before+20 {
			return fmt.Errorf("%d rounds", c.rounds-before)
		}
		return nil
	})
}

// A frozen server is not waited for, and comes to know of the lock when it goes
// on; a majority that is frozen is.
func TestRealRedlockWithFrozenServers(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { redlockWithAFrozenServer(t, b, open) })
		})
	}
}

func redlockWithAFrozenServer(t *testing.T, b *canary.Bounds, open func(t *testing.T, addr, password string) driver.Driver) {
	var servers []*redistest.Server
	var clients, others []*mortise.Client
	for range 3 {
		s := redistest.Single(t)
		servers = append(servers, s)
		for _, list := range []*[]*mortise.Client{&clients, &others} {
			c := mortise.New(open(t, s.Addr(), ""), nil)
			t.Cleanup(func() { _ = c.Close() })
			*list = append(*list, c)
		}
	}
	k, other := mortise.NewRedlock("job", clients...), mortise.NewRedlock("job", others...)
	warm, _, err := k.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	onAllThenNone(t, servers, warm)

	servers[0].Pause(t)
	start := time.Now()
	hold, ctx, err := k.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Within("an acquisition with one server frozen", time.Since(start), time.Second)
	servers[0].Resume(t)
	redistest.Eventually(t, "the lock is on the server that was frozen", func() error {
		if servers[0].Int(t, "EXISTS", "job") == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	wantOthersRefused(t, servers, other)
	if ctx.Err() != nil || !hold.Valid() {
		t.Errorf("the holder lost it within its lease: %v, want no loss", context.Cause(ctx))
	}
	mustUnlock(t, hold)
	next, _, err := other.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, next)
}

// wantOthersRefused freezes one of three servers, and then two.
func wantOthersRefused(t *testing.T, servers []*redistest.Server, other *mortise.Redlock) {
	servers[1].Pause(t)
	if _, _, err := other.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock of another: %v, want ErrLocked", err)
	}
	servers[2].Pause(t)
	if _, _, err := other.TryLock(t.Context()); !errors.Is(err, mortise.ErrNoQuorum) {
		t.Errorf("TryLock with two of three frozen: %v, want ErrNoQuorum", err)
	}
	servers[1].Resume(t)
	servers[2].Resume(t)
}

// onAllThenNone releases hold once it is on all servers, and waits until it is on none.
func onAllThenNone(t *testing.T, servers []*redistest.Server, hold *mortise.Hold) {
	// A majority is a lock, and free is what others can have the majority
	// of: one server may still be on its way in either direction, and
	// would refuse. So all have it before it is released, and none after.
	for _, want := range []int64{1, 0} {
		redistest.Eventually(t, fmt.Sprintf("EXISTS is %d on all servers", want), func() error {
			for i, s := range servers {
				if got := s.Int(t, "EXISTS", "job"); got != want {
					return fmt.Errorf("on server %d it is %d", i, got)
				}
			}
			return nil
		})
		if want == 1 {
			mustUnlock(t, hold)
		}
	}
}

// On a cluster, locks of one slot are taken at once, and all others one after
// the other, wherever they lie.
func TestRealClusterMultiLock(t *testing.T) {
	set := redistest.Cluster(t, 0)
	for name, open := range clusterDialers {
		t.Run(name, func(t *testing.T) {
			f := &faults{Driver: open(t, set.Addrs())}
			c := mortise.New(f, nil)
			other := mortise.New(open(t, set.Addrs()), nil)
			t.Cleanup(func() { _ = c.Close(); _ = other.Close() })
			names := []string{"{m}:1", "{m}:2", "{m}:3"}
			for i, master := range set.Masters {
				names = append(names, set.KeyOn(t, master, fmt.Sprint(name, i)))
			}
			m := multi(c, names...)
			hold, _ := mustMulti(t, m, t.Context())
			if a, l := f.Count("multi_acquire"), f.Count("lock_acquire"); a != 1 || l != 3 {
				t.Errorf("%d scripts for several locks and %d for one, want 1 and 3", a, l)
			}
			for _, name := range names {
				if _, _, err := other.Lock(name).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("TryLock %s: %v, want ErrLocked", name, err)
				}
			}
			got := make(chan error)
			go func() {
				got <- multi(other, names...).Do(t.Context(), func(context.Context) error { return nil })
			}()
			mustUnlock(t, hold)
			if n := f.Count("multi_release"); n != 1 {
				t.Errorf("%d scripts to release several locks, want 1", n)
			}
			if err := <-got; err != nil {
				t.Error(err)
			}
			counter := 0
			var all sync.WaitGroup
			for _, client := range []*mortise.Client{c, other} {
				for i := range 4 {
					all.Go(func() {
						for range 5 {
							err := multi(client, names[i], names[5], names[2]).Do(t.Context(), func(context.Context) error {
								counter++
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
			if counter != 40 {
				t.Errorf("the counter is %d, want 40", counter)
			}
		})
	}
}
