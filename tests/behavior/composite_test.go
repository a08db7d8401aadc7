package behavior

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/memredis"
)

func TestCompositesAreReleasedCrosswise(t *testing.T) {
	t.Parallel()
	for what, k := range composites {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				d, g := open(t, s, nil)
				other, _ := open(t, s, nil)
				for _, f := range []*faults{f, g} { // a round trip takes time
					f.Set(nil, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil })
				}
				crosswise(t, k.Open(c, d), strings.Fields(k.Names), blocker(t, func(name string) taker { return k.One(other, name) }), func(string) { time.Sleep(100 * time.Millisecond); synctest.Wait() }, releasedSoon(t))
				wantEmpty(t, s)
			})
		})
	}
	t.Run("Redlock", func(t *testing.T) {
		several(t, 3, func(t *testing.T, servers []*memredis.Server) {
			p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
			for _, f := range p.faults {
				f.Set(nil, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil })
			}
			crosswise(t, p.redlock(), []string{"job"}, blocker(t, func(string) taker { return other.redlock() }), func(string) { time.Sleep(100 * time.Millisecond); synctest.Wait() }, releasedSoon(t))
		})
	})
}

// releasedSoon judges how long releases take.
func releasedSoon(t *testing.T) func(took time.Duration) {
	return func(took time.Duration) {
		if took > 10*time.Second {
			t.Errorf("the releases took %v", took)
		}
	}
}

// A crowd that gives up leaves nothing behind, nor many goroutines for long.
func TestMultiLockCrowdThatGivesUp(t *testing.T) {
	const crowd, most = 1000, 50
	alone(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("b"), t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if _, _, err := multi(c, "a", "b", "c").Lock(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the context's error", err)
				}
			})
		}
		time.Sleep(3 * time.Second)
		f.Set(hang, nil) // the answers of those that ask are never known
		time.Sleep(3 * time.Second)
		cancel()
		all.Wait()
		synctest.Wait()
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		n := 0
		for _, of := range strings.Split(string(stacks), "\n\n") {
			if slices.ContainsFunc([]string{".", "/internal/lease.", "/internal/waiting.", "/internal/composite.", "/internal/recorder."}, func(room string) bool {
				return strings.Contains(of, "mortise-go/mortise"+room)
			}) { // not of the embedded Redis alone
				n++
			}
		}
		if n > most {
			t.Errorf("%d goroutines are left of %d that gave up, want %d at most", n, crowd, most)
		}
		f.Set(nil, nil)
		mustUnlock(t, block)
		wantEmpty(t, s)
	})
}
