package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

// composites are locks that consist of others, all of them on one server.
var composites = map[string]struct {
	names string // of the locks, in the order in which they are taken
	open  func(c, d *mortise.Client) taker
	one   func(c *mortise.Client, name string) taker // what keeps it out
}{
	"plain": {"a b c", func(c, _ *mortise.Client) taker { return multi(c, "a", "b", "c") }, plainLock},
	"plain, of one slot": {"{s}a {s}b {s}c", func(c, _ *mortise.Client) taker {
		return multi(c, "{s}a", "{s}b", "{s}c")
	}, plainLock},
	"mixed kinds": {"a b c d", func(c, _ *mortise.Client) taker {
		return mortise.NewMultiLock(c.FencedLock("a"), c.Lock("b"), c.FairLock("c"), c.Lock("d"))
	}, plainLock},
	"two clients": {"a b c d", func(c, d *mortise.Client) taker {
		return mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c"), d.Lock("d"))
	}, plainLock},
	"both sides": {"a b", func(c, _ *mortise.Client) taker {
		return mortise.NewMultiLock(c.RWLock("a").Write(), c.RWLock("a").Read(), c.RWLock("b").Write(), c.RWLock("b").Read())
	}, func(c *mortise.Client, name string) taker { return c.RWLock(name).Write() }},
}

func plainLock(c *mortise.Client, name string) taker { return c.Lock(name) }

// blocker returns what keeps a lock until it is told to release it.
func blocker(t *testing.T, open func(name string) taker) func(name string) (release func()) {
	return func(name string) func() {
		hold, _, err := open(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return func() { mustUnlock(t, hold) }
	}
}

// crosswise has two holds of one owner released at the same time, of which the
// first had to wait for another lock each time: so it has them in another order
// than the second, which found all of them its own.
func crosswise(t *testing.T, k taker, names []string, block func(name string) (release func()), waits func(name string)) {
	const bound = 10 * time.Second
	for _, name := range names {
		for range 3 {
			release := block(name)
			ctx, cancel := context.WithCancel(mortise.WithOwner(t.Context()))
			got := make(chan *mortise.Hold, 1)
			go func() {
				hold, _, err := k.Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- hold
			}()
			waits(name)
			release()
			first := <-got
			second, _, err := k.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			released := make(chan error, 2)
			for _, hold := range []*mortise.Hold{first, second} {
				go func() { released <- hold.Unlock() }()
			}
			over := time.After(bound)
			for range 2 {
				select {
				case err := <-released:
					if err != nil {
						t.Error(err)
					}
				case <-over:
					t.Fatalf("after a wait for %s the two releases do not end", name)
				}
			}
			cancel()
		}
	}
}

func TestCompositesAreReleasedCrosswise(t *testing.T) {
	for what, k := range composites {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				d, g := open(t, s, nil)
				other, _ := open(t, s, nil)
				for _, f := range []*faults{f, g} { // a round trip takes time
					f.set(nil, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil })
				}
				crosswise(t, k.open(c, d), strings.Fields(k.names), blocker(t, func(name string) taker { return k.one(other, name) }), func(string) { time.Sleep(100 * time.Millisecond); synctest.Wait() })
				wantEmpty(t, s)
			})
		})
	}
	t.Run("Redlock", func(t *testing.T) {
		several(t, 3, func(t *testing.T, servers []*memredis.Server) {
			p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
			for _, f := range p.faults {
				f.set(nil, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil })
			}
			crosswise(t, p.redlock(), []string{"job"}, blocker(t, func(string) taker { return other.redlock() }), func(string) { time.Sleep(100 * time.Millisecond); synctest.Wait() })
		})
	})
}

func TestCompositesAreReleasedCrosswiseOnARealServer(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		for what, k := range composites {
			t.Run(what, func(t *testing.T) {
				c, d, other := dial(s.Addr(), nil), dial(s.Addr(), nil), dial(s.Addr(), nil)
				crosswise(t, k.open(c, d), strings.Fields(k.names), blocker(t, func(name string) taker { return k.one(other, name) }), func(name string) {
					redistest.Eventually(t, "somebody listens for the release of "+name, func() error {
						if channels, err := s.Do("PUBSUB", "CHANNELS", "*"+name+"*"); err != nil || len(channels.([]any)) == 0 {
							return fmt.Errorf("the channels are %v, %v", channels, err)
						}
						return nil
					})
				})
			})
		}
	})
}

// A crowd that gives up leaves nothing behind, nor many goroutines for long.
func TestMultiLockCrowdThatGivesUp(t *testing.T) {
	const crowd, most = 1000, 50
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("b"), t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if _, _, err := multi(c, "a", "b", "c").Lock(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want the context's error", err)
				}
			})
		}
		time.Sleep(3 * time.Second)
		f.set(hang, nil) // the answers of those that ask are never known
		time.Sleep(3 * time.Second)
		cancel()
		all.Wait()
		synctest.Wait()
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		n := 0
		for _, of := range strings.Split(string(stacks), "\n\n") {
			if strings.Contains(of, "mortise-go/mortise.") { // not of the embedded Redis alone
				n++
			}
		}
		if n > most {
			t.Errorf("%d goroutines are left of %d that gave up, want %d at most", n, crowd, most)
		}
		f.set(nil, nil)
		mustUnlock(t, block)
		wantEmpty(t, s)
	})
}
