package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// fencedUsesItsRights does all that a fenced lock and a guard can do.
func fencedUsesItsRights(t *testing.T, c *mortise.Client, wrap func() driver.Driver, prefix, name string) {
	t.Helper()
	k := c.FencedLock(name)
	hold, ctx := mustFence(t, k, t.Context())
	inner, _ := mustFence(t, k, ctx)
	wantToken(t, k, inner.Token())
	mustUnlock(t, inner)
	g := fencing.NewGuard(wrap())
	defer g.Close()
	if err := g.Set(ctx, prefix+name+":data", "x", hold.Token()); err != nil {
		t.Error(err)
	}
	mustUnlock(t, hold)
}

// groupUsesItsRights does all that a lock group can do.
func groupUsesItsRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	k := c.GroupLock(name, "a", "b")
	hold, ctx := mustFence(t, k, t.Context())
	inner, _ := mustFence(t, k, ctx)
	mustUnlock(t, inner)
	got := make(chan *mortise.Hold)
	go func() {
		h, _, err := other.GroupLock(name, "b").Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	mustUnlock(t, hold)
	next := <-got
	short, _ := mustFence(t, c.GroupLock(name, "c").With(mortise.LockOptions{MaxHold: 20 * time.Millisecond}), t.Context())
	<-time.After(time.Until(short.Until()))
	hold, _ = mustFence(t, c.GroupLock(name, "c"), t.Context()) // over what is left
	if freed, err := c.GroupLock(name, "b").ForceUnlock(t.Context()); err != nil || len(freed) != 1 || freed[0].Owner != next.Owner() {
		t.Errorf("ForceUnlock = %v, %v, want the owner %s", freed, err, next.Owner())
	}
	mustUnlock(t, hold)
}

// documentedRights returns the ACL command of docs/protocol.md, and what a
// cluster also needs.
func documentedRights(t *testing.T) (command, cluster []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(ACL SETUSER .*?)```").FindSubmatch(text)
	more := regexp.MustCompile("A cluster also needs `([^`]+)`").FindSubmatch(text)
	if block == nil || more == nil {
		t.Fatal("docs/protocol.md does not show the rights")
	}
	return strings.Fields(string(block[1])), strings.Fields(string(more[1]))
}

// The rights that docs/protocol.md names are enough for all that a lock does.
func TestRealDocumentedRightsSuffice(t *testing.T) {
	command, _ := documentedRights(t)
	s := redistest.Single(t)
	s.Must(t, redistest.Rules(t, command...)...)

	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "SECRET"})
	t.Cleanup(func() { rdb.Close() })
	rc, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: []string{s.Addr()}, Username: "locks", Password: "SECRET", DisableCache: true,
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	for name, wrap := range map[string]func() driver.Driver{
		"goredis": func() driver.Driver { return goredis.Wrap(rdb) },
		"rueidis": func() driver.Driver { return rueidis.Wrap(rc) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range [][2]string{{"app:", "job"}, {"app:", "{order}:42"}, {"", "{app:1}:job"}} {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) { usesItsRights(t, b, wrap, n[0], n[1]) })
			}
		})
	}
}

func TestRealDocumentedRightsSufficeOnACluster(t *testing.T) {
	command, more := documentedRights(t)
	set := redistest.Cluster(t, 0)
	for _, master := range set.Masters {
		master.Must(t, redistest.Rules(t, append(command, more...)...)...)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: set.Addrs(), Username: "locks", Password: "SECRET"})
	t.Cleanup(func() { rdb.Close() })
	rc, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: set.Addrs(), Username: "locks", Password: "SECRET", DisableCache: true,
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	for name, wrap := range map[string]func() driver.Driver{
		"goredis": func() driver.Driver { return goredis.Wrap(rdb) },
		"rueidis": func() driver.Driver { return rueidis.Wrap(rc) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, master := range set.Masters {
				key := set.KeyOn(t, master, "app:"+name)
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) { usesItsRights(t, b, wrap, "", key) })
			}
		})
	}
}

// usesItsRights does all that a lock can do.
func usesItsRights(t *testing.T, b *canary.Bounds, wrap func() driver.Driver, prefix, name string) {
	t.Helper()
	asked := &faults{Driver: wrap()}
	options := &mortise.Options{Prefix: prefix, History: 10}
	c := mortise.New(asked, options)
	defer c.Close()
	other := mortise.New(wrap(), options)
	defer other.Close()
	lockUsesItsRights(t, b, c, other, asked, name)
	rwUsesItsRights(t, c, other, name+":rw")
	fairUsesItsRights(t, b, other, c, asked, name+":fair")
	fencedUsesItsRights(t, c, wrap, prefix, name+":fenced")
	groupUsesItsRights(t, c, other, name+":group")
	electionUsesItsRights(t, c, other, name+":election")
	barriersUseTheirRights(t, c, other, name)
	permitsUseTheirRights(t, c, other, name+":permits")
	numbersUseTheirRights(t, c, other, name+":number")
	if prefix != "" { // otherwise the records are outside the allowed names
		recordsUseTheirRights(t, c, other, name+":records")
	}
	stranger := mortise.New(wrap(), nil)
	defer stranger.Close()
	if _, _, err := stranger.Lock("foreign").TryLock(t.Context()); !errors.Is(err, mortise.ErrDenied) {
		t.Errorf("TryLock outside the allowed names: %v, want ErrDenied", err)
	}
}

// lockUsesItsRights does all that a plain lock can do; asked is the driver of c.
func lockUsesItsRights(t *testing.T, b *canary.Bounds, c, other *mortise.Client, asked *faults, name string) {
	t.Helper()
	k := c.Lock(name)
	hold, ctx := mustLock(t, k, t.Context())
	inner, _ := mustLock(t, k, ctx)
	wantState(t, k, hold.Owner(), 2)
	mustUnlock(t, inner)
	mustUnlock(t, hold)
	wakes(t, b, other.Lock(name), k, asked, true)
	hold, _ = mustLock(t, k, t.Context())
	if by, err := k.ForceUnlock(t.Context()); err != nil || by == nil || by.Owner != hold.Owner() {
		t.Errorf("ForceUnlock = %v, %v, want the owner %s", by, err, hold.Owner())
	}
}

// blocked is something that c waits for, because of holder, until free is called.
type blocked func(t *testing.T, holder, c *mortise.Client, name string) (wait func(ctx context.Context) error, free func())

// locked is a lock that holder has.
func locked(open func(c *mortise.Client, name string) taker) blocked {
	return func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		t.Helper()
		hold, _, err := open(holder, name).TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mine := open(c, name)
		return func(ctx context.Context) error {
			hold, _, err := mine.Lock(ctx)
			if err == nil {
				err = hold.Unlock()
			}
			return err
		}, func() { mustUnlock(t, hold) }
	}
}

// eachBlocked is each way to wait that needs the right to listen.
var eachBlocked = map[string]blocked{
	"Lock":       locked(func(c *mortise.Client, name string) taker { return c.Lock(name) }),
	"FencedLock": locked(func(c *mortise.Client, name string) taker { return c.FencedLock(name) }),
	"FairLock":   locked(func(c *mortise.Client, name string) taker { return c.FairLock(name) }),
	"GroupLock":  locked(func(c *mortise.Client, name string) taker { return c.GroupLock(name, "a", "b") }),
	"write":      locked(func(c *mortise.Client, name string) taker { return c.RWLock(name).Write() }),
	"MultiLock": locked(func(c *mortise.Client, name string) taker {
		return mortise.NewMultiLock(c.Lock(name+":1"), c.Lock(name+":2"))
	}),
	"Redlock": locked(func(c *mortise.Client, name string) taker { return mortise.NewRedlock(name, c) }),
	"read": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		_, free := locked(func(c *mortise.Client, name string) taker { return c.RWLock(name).Write() })(t, holder, c, name)
		return func(ctx context.Context) error {
			hold, _, err := c.RWLock(name).Read().Lock(ctx)
			if err == nil {
				err = hold.Unlock()
			}
			return err
		}, free
	},
	"Semaphore": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		mustAcquire(t, permitted(t, holder, name, 1), 1)
		return func(ctx context.Context) error {
			err := c.Semaphore(name).Acquire(ctx, 1)
			if err == nil {
				err = c.Semaphore(name).Release(ctx, 1)
			}
			return err
		}, func() { mustRelease(t, holder.Semaphore(name), 1) }
	},
	"PermitSemaphore": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		if _, err := holder.PermitSemaphore(name).TrySetPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		hold, _, err := holder.PermitSemaphore(name).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) error {
			hold, _, err := c.PermitSemaphore(name).Acquire(ctx)
			if err == nil {
				err = hold.Unlock()
			}
			return err
		}, func() { mustUnlock(t, hold) }
	},
	"CountDownLatch": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		l := closedLatch(t, holder, name, 1)
		return c.CountDownLatch(name).Wait, func() { mustCountDown(t, l) }
	},
	"Election": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		term, _, err := holder.Election(name).Campaign(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) error {
				term, _, err := c.Election(name).Campaign(ctx, "second")
				if err == nil {
					err = term.Resign()
				}
				return err
			}, func() {
				if err := term.Resign(); err != nil {
					t.Error(err)
				}
			}
	},
	"Observe": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		term, _, err := holder.Election(name).Campaign(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) error {
				for leader, err := range c.Election(name).Observe(ctx) {
					if err != nil || leader.Owner == "" {
						return err
					}
				}
				return nil
			}, func() {
				if err := term.Resign(); err != nil {
					t.Error(err)
				}
			}
	},
	"Barrier": func(t *testing.T, holder, c *mortise.Client, name string) (func(context.Context) error, func()) {
		return func(ctx context.Context) error {
				_, err := c.Barrier(name, 2).Await(ctx)
				if err != nil { // that has broken it
					err = errors.Join(err, holder.Barrier(name, 2).Reset(ctx))
				}
				return err
			}, func() {
				if _, err := holder.Barrier(name, 2).Await(t.Context()); err != nil {
					t.Error(err)
				}
			}
	},
}

// A client loses the right to its channels and gets it back. It fails where it
// has to wait, and nowhere else; and from the moment that it has the right
// again, nothing reminds of that it had not.
func TestRealRightToListenComesAndGoes(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		may := func(listen bool) {
			s.Must(t, "ACL", "SETUSER", "default", map[bool]string{true: "allchannels", false: "resetchannels"}[listen])
		}
		s.Must(t, "ACL", "SETUSER", "holders", "on", "nopass", "~*", "&*", "+@all")
		c := dial(s.Addr(), nil)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "holders", Password: "any"})
		t.Cleanup(func() { rdb.Close() })
		holder := mortise.New(goredis.Wrap(rdb), nil)
		t.Cleanup(func() { _ = holder.Close() })
		for kind, block := range eachBlocked {
			t.Run(kind, func(t *testing.T) {
				for round := range 3 {
					name := fmt.Sprint(kind, ":", round)
					may(false)
					wait, free := block(t, holder, c, name)
					if err := wait(t.Context()); !errors.Is(err, mortise.ErrDenied) {
						t.Fatalf("without the right to listen: %v, want ErrDenied", err)
					}
					may(true)
					got := waitAside(t, wait)
					awaitListener(t, s, got)
					free()
					if err := <-got; err != nil {
						t.Fatalf("with the right to listen: %v", err)
					}
				}
			})
		}
	})
}

// waitAside calls wait in a goroutine.
func waitAside(t *testing.T, wait func(context.Context) error) <-chan error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	got := make(chan error, 1)
	go func() {
		defer cancel()
		got <- wait(ctx)
	}()
	return got
}

// awaitListener waits until somebody listens, or got has something.
func awaitListener(t *testing.T, s *redistest.Server, got <-chan error) {
	t.Helper()
	redistest.Eventually(t, "somebody listens", func() error {
		if len(got) == 0 && len(s.Must(t, "PUBSUB", "CHANNELS").([]any)) == 0 {
			return errors.New("nobody does")
		}
		return nil
	})
}

// What is free is taken without the right to listen, even by a client that
// listened a moment ago.
func TestRealFreeLocksNeedNoRightToListen(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		s.Must(t, "ACL", "SETUSER", "holders", "on", "nopass", "~*", "&*", "+@all")
		c := dial(s.Addr(), nil)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "holders", Password: "any"})
		t.Cleanup(func() { rdb.Close() })
		holder := mortise.New(goredis.Wrap(rdb), nil)
		t.Cleanup(func() { _ = holder.Close() })
		for kind, open := range map[string]func(c *mortise.Client, name string) taker{
			"Lock":     func(c *mortise.Client, name string) taker { return c.Lock(name) },
			"FairLock": func(c *mortise.Client, name string) taker { return c.FairLock(name) },
		} {
			t.Run(kind, func(t *testing.T) {
				s.Must(t, "ACL", "SETUSER", "default", "allchannels")
				wait, free := locked(open)(t, holder, c, kind)
				got := waitAside(t, wait)
				awaitListener(t, s, got)
				free()
				if err := <-got; err != nil {
					t.Fatal(err)
				}
				// The right to publish is kept: else Unlock would have something to say.
				s.Must(t, "ACL", "SETUSER", "default", "resetchannels")
				for start := time.Now(); time.Since(start) < 1500*time.Millisecond; {
					if hold, _, err := open(c, kind).Lock(t.Context()); err != nil {
						t.Fatalf("after %v: Lock: %v", time.Since(start), err)
					} else if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrDenied) {
						t.Fatalf("Unlock: %v", err)
					}
				}
			})
		}
	})
}

// Goroutines that try again and again, so that there always is one that was
// refused, do not keep what they were refused.
func TestRealRefusalIsNotHandedOn(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		s.Must(t, "ACL", "SETUSER", "holders", "on", "nopass", "~*", "&*", "+@all")
		c := dial(s.Addr(), nil)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "holders", Password: "any"})
		t.Cleanup(func() { rdb.Close() })
		holder := mortise.New(goredis.Wrap(rdb), nil)
		t.Cleanup(func() { _ = holder.Close() })
		for kind, block := range eachBlocked {
			if kind == "Barrier" {
				continue // for two, not for a crowd
			}
			t.Run(kind, func(t *testing.T) {
				s.Must(t, "ACL", "SETUSER", "default", "resetchannels")
				wait, free := block(t, holder, c, kind)
				const crowd = 8
				var back atomic.Bool
				var failed sync.WaitGroup
				failed.Add(crowd)
				got := make(chan error, crowd)
				for range crowd {
					go func() {
						allowed := 0 // tries that began with the right
						for try := 0; ; try++ {
							has := back.Load()
							ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
							err := wait(ctx)
							cancel()
							if try == 10 && err != nil {
								failed.Done()
							}
							if has {
								allowed++
							}
							// The first one may share the answer to what was asked before.
							if !errors.Is(err, mortise.ErrDenied) || allowed == 2 {
								got <- err
								return
							}
						}
					}()
				}
				failed.Wait()
				s.Must(t, "ACL", "SETUSER", "default", "allchannels")
				back.Store(true)
				awaitListener(t, s, got)
				free()
				for range crowd {
					if err := <-got; err != nil {
						t.Errorf("with the right to listen: %v", err)
					}
				}
			})
		}
	})
}
