package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// All that can go wrong at once: clients that are cut off and end with permits
// out, replies that are lost, callers that give up. Never are more permits relied
// on than there are, and in the end all are there.
func TestPermitSimulation(t *testing.T) {
	const total = 5
	allTurns, allLost := 0, 0
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				quiet, _ := open(t, s, nil)
				sem := permitsOf(t, quiet, total)

				var mu sync.Mutex // guards what follows
				random := rand.New(rand.NewPCG(seed, 7))
				relied := map[*mortise.Hold]bool{}
				turns, lost := 0, 0

				number := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				fault := func(one int) func(ctx context.Context, name string) error {
					return func(ctx context.Context, _ string) error {
						switch number(one) {
						case 0:
							return errCut
						case 1:
							return &driver.Error{Class: driver.Passing, Err: errors.New("LOADING")}
						case 2:
							time.Sleep(time.Duration(number(1500)) * time.Millisecond)
						}
						return nil
					}
				}
				enter := func(hold *mortise.Hold) {
					mu.Lock()
					defer mu.Unlock()
					turns++
					relied[hold] = true
					sum := 0
					for other := range relied {
						if other.Valid() {
							sum += len(other.Permits())
						}
					}
					if sum > total {
						t.Errorf("%d permits are relied on", sum)
					}
				}
				leave := func(hold *mortise.Hold, held context.Context) {
					mu.Lock()
					defer mu.Unlock()
					delete(relied, hold)
					if errors.Is(context.Cause(held), mortise.ErrLost) {
						lost++
					}
				}
				turn := func(c *mortise.Client) {
					options := atOnce(1 + number(3))
					if number(3) == 0 {
						options.Lease = time.Duration(100+number(3000)) * time.Millisecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(number(8000))*time.Millisecond)
					defer cancel()
					hold, held, err := c.PermitSemaphore("job").With(options).Acquire(ctx)
					if err != nil {
						return
					}
					enter(hold)
					select {
					case <-held.Done():
					case <-time.After(time.Duration(number(1500)) * time.Millisecond):
					}
					leave(hold, held)
					if number(10) > 0 { // else it forgets, or dies
						_ = hold.Unlock()
					}
				}
				var all sync.WaitGroup
				end := time.Now().Add(time.Minute)
				for range 3 {
					all.Go(func() {
						for time.Now().Before(end) {
							f := &faults{Driver: s.Driver()}
							c := mortise.New(f, &mortise.Options{Lease: 2 * time.Second, RetryFor: 2 * time.Second})
							f.Set(fault(15), fault(15))
							var work sync.WaitGroup
							for range 3 {
								work.Go(func() {
									for range 3 + number(10) {
										turn(c)
									}
								})
							}
							work.Wait()
							f.Set(nil, nil)
							_ = c.Close()
						}
					})
				}
				all.Wait()
				time.Sleep(time.Minute)
				if n, err := sem.Available(t.Context()); err != nil || n != total {
					t.Errorf("%d are available in the end, want %d: %v", n, total, err)
				}
				allTurns, allLost = allTurns+turns, allLost+lost
			})
		})
	}
	if allTurns < 250 || allLost < 10 {
		t.Errorf("only %d turns, and %d holds that were lost", allTurns, allLost)
	}
}
