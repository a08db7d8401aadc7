package behavior

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// A client that meets no other one passes the lock on inside the process for ten milliseconds, however few of its
// goroutines want it.
func TestClientThatIsAloneKeepsTheLock(t *testing.T) {
	for _, n := range []int{2, 8, 64} {
		t.Run(fmt.Sprintf("%d goroutines", n), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				const work, all = 100 * time.Microsecond, 10_000
				c, f := open(t, s, nil)
				holds := 0 // guarded by the lock
				contend(t, c, n, 0, func(stop func()) {
					time.Sleep(work)
					if holds++; holds == all {
						stop()
					}
				}).Wait()
				if most := 2 * (all*int(work/time.Microsecond)/10_000 + n); f.Total() > most {
					t.Errorf("%d holds took %d scripts, want %d at most: two for ten milliseconds", holds, f.Total(), most)
				}
			})
		})
	}
}

// Another client waits for the end of such a series once. From then on, the busy one lets each of the goroutines
// that wait have the lock once between two turns of the other, also if that pauses for a moment before it asks again.
func TestNewcomerIsMetWithinASeries(t *testing.T) {
	for _, pause := range []time.Duration{0, 250 * time.Microsecond} {
		for _, n := range []int{2, 8} {
			t.Run(fmt.Sprintf("%d goroutines, %v", n, pause), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					const work = 100 * time.Microsecond
					busy, _ := open(t, s, nil)
					other, _ := open(t, s, nil)
					theirs, longest := 0, 0 // guarded by the lock
					ended := contend(t, busy, n, 0, func(func()) {
						theirs++
						longest = max(longest, theirs)
						time.Sleep(work)
					})
					time.Sleep(time.Second)
					turns := 0
					came := time.Now()
					contend(t, other, 1, pause, func(stop func()) {
						if waited := time.Since(came); turns == 0 && waited > 10*time.Millisecond+work {
							t.Errorf("the other client waited for %v at first, want the rest of ten milliseconds at most", waited)
						}
						if turns > 1 && theirs > 2*n+int(pause/work) {
							t.Errorf("the busy client had the lock %d times before turn %d of the other, want two rounds at most", theirs, turns)
						}
						if theirs, turns = 0, turns+1; turns == 100 {
							stop()
						}
						time.Sleep(work)
					}).Wait()
					ended.stop()
					ended.Wait()
					if longest < 2*n+2 {
						t.Errorf("the busy client had the lock %d times in a row at most: it was never alone", longest)
					}
				})
			})
		}
	}
}

// contention is some goroutines that want a lock again and again.
type contention struct {
	sync.WaitGroup
	stop context.CancelFunc
}

// contend starts n goroutines of c that want a lock again and again, with a pause before they ask. With it they call f, until
// that calls stop or the test ends.
func contend(t *testing.T, c *mortise.Client, n int, pause time.Duration, f func(stop func())) *contention {
	ctx, stop := context.WithCancel(t.Context())
	all := &contention{stop: stop}
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(pause)
				hold, _, err := c.Lock("job").Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				f(stop)
				mustUnlock(t, hold)
			}
		})
	}
	return all
}
