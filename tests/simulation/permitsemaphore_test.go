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

				p := &permitHistory{t: t, random: rand.New(rand.NewPCG(seed, 7)), total: total, relied: map[*mortise.Hold]bool{}}
				var all sync.WaitGroup
				end := time.Now().Add(time.Minute)
				for range 3 {
					all.Go(func() {
						for time.Now().Before(end) {
							f := &faults{Driver: s.Driver()}
							c := mortise.New(f, &mortise.Options{TTL: 2 * time.Second, RetryFor: 2 * time.Second})
							f.Set(p.fault(15), p.fault(15))
							var work sync.WaitGroup
							for range 3 {
								work.Go(func() {
									for range 3 + p.number(10) {
										p.turn(c)
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
				allTurns, allLost = allTurns+p.turns, allLost+p.lost
			})
		})
	}
	if allTurns < 250 || allLost < 10 {
		t.Errorf("only %d turns, and %d holds that were lost", allTurns, allLost)
	}
}

// permitHistory is a crowd that holds permits on a bad network.
type permitHistory struct {
	t     *testing.T
	total int

	mu          sync.Mutex // guards what follows
	random      *rand.Rand
	relied      map[*mortise.Hold]bool
	turns, lost int
}

func (p *permitHistory) number(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(n)
}

// fault disturbs three of n calls.
func (p *permitHistory) fault(n int) func(ctx context.Context, name string) error {
	return func(ctx context.Context, _ string) error {
		switch p.number(n) {
		case 0:
			return errCut
		case 1:
			return &driver.Error{Class: driver.Passing, Err: errors.New("LOADING")}
		case 2:
			time.Sleep(time.Duration(p.number(1500)) * time.Millisecond)
		}
		return nil
	}
}

func (p *permitHistory) enter(hold *mortise.Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns++
	p.relied[hold] = true
	sum := 0
	for other := range p.relied {
		if other.Valid() {
			sum += len(other.Permits())
		}
	}
	if sum > p.total {
		p.t.Errorf("%d permits are relied on, want %v at most", sum, p.total)
	}
}

func (p *permitHistory) leave(hold *mortise.Hold, held context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.relied, hold)
	if errors.Is(context.Cause(held), mortise.ErrLost) {
		p.lost++
	}
}

// turn takes some permits, unless that takes too long, and holds them for a while.
func (p *permitHistory) turn(c *mortise.Client) {
	options := atOnce(1 + p.number(3))
	if p.number(3) == 0 {
		options.MaxHold = time.Duration(100+p.number(3000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Duration(p.number(8000))*time.Millisecond)
	defer cancel()
	hold, held, err := c.PermitSemaphore("job").With(options).Acquire(ctx)
	if err != nil {
		return
	}
	p.enter(hold)
	select {
	case <-held.Done():
	case <-time.After(time.Duration(p.number(1500)) * time.Millisecond):
	}
	p.leave(hold, held)
	if p.number(10) > 0 { // else it forgets, or dies
		_ = hold.Unlock()
	}
}
