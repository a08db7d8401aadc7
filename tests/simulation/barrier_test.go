package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/mortisetest"
)

// patient are options with which no fault of the network lasts for a lease.
var patient = mortise.Options{TTL: 5 * time.Minute, RetryFor: -1}

// However bad the network, as long as nobody gives up every round of a barrier
// ends with all passing, each with another number, and none before the last has
// come.
func TestBarrierHistoriesOfThePatient(t *testing.T) {
	const parties, rounds = 4, 6
	eachSeed(t, func(w *crowd) {
		var mu sync.Mutex
		come, numbers := make([]int, rounds), make([][]int, rounds)
		w.workers(parties, patient, func(_ int, c *mortise.Client, _ *mortisetest.Link, r *rand.Rand) {
			for round := range rounds {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				mu.Lock()
				come[round]++
				mu.Unlock()
				number, err := c.Barrier("job", parties).Await(w.t.Context())
				if err != nil {
					w.t.Errorf("round %d: %v", round, err)
					return
				}
				w.count("passed")
				mu.Lock()
				numbers[round] = append(numbers[round], number)
				if come[round] != parties {
					w.t.Errorf("round %d: one passed when %d had come", round, come[round])
				}
				mu.Unlock()
			}
		})
		for round, got := range numbers {
			slices.Sort(got)
			if !slices.Equal(got, []int{0, 1, 2, 3}) {
				w.t.Errorf("round %d: passed as %v", round, got)
			}
		}
	}, map[string]int{"passed": 2 * parties * rounds, "replies lost": 10, "late calls": 5, "requests lost": 10, "slow calls": 10})
}

// The same for members that begin and end together.
func TestDoubleBarrierHistoriesOfThePatient(t *testing.T) {
	const parties, rounds = 3, 5
	eachSeed(t, func(w *crowd) {
		var mu sync.Mutex
		come, gone := make([]int, rounds), make([]int, rounds)
		note := func(n *int) {
			mu.Lock()
			defer mu.Unlock()
			*n++
		}
		all := func(what string, round int, n *int) {
			mu.Lock()
			defer mu.Unlock()
			if *n != parties {
				w.t.Errorf("round %d: one went on when %d had %s", round, *n, what)
			}
		}
		w.workers(parties, patient, func(_ int, c *mortise.Client, _ *mortisetest.Link, r *rand.Rand) {
			for round := range rounds {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				note(&come[round])
				m, ctx, err := c.DoubleBarrier("job", parties).Enter(w.t.Context())
				if err != nil {
					w.t.Errorf("round %d: Enter: %v", round, err)
					return
				}
				all("come", round, &come[round])
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				if ctx.Err() != nil {
					w.t.Errorf("round %d: %v", round, context.Cause(ctx))
				}
				note(&gone[round])
				if err := m.Leave(w.t.Context()); err != nil {
					w.t.Errorf("round %d: Leave: %v", round, err)
					return
				}
				all("left", round, &gone[round])
				w.count("rounds")
			}
		})
	}, map[string]int{"rounds": 2 * parties * rounds, "replies lost": 10, "late calls": 5, "requests lost": 10, "slow calls": 10})
}

// call is one call of Await in a history.
type call struct {
	start, end time.Time
	number     int // if it passed, else -1
	broken     bool
}

// calls are those of a history.
type calls struct {
	mu  sync.Mutex // guards all, and the calls in it
	all []*call
}

func (l *calls) start() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &call{start: time.Now(), number: -1}
	l.all = append(l.all, c)
	return c
}

// end notes what Await returned.
func (l *calls) end(w *crowd, c *call, number int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.end = time.Now()
	switch {
	case err == nil:
		c.number = number
		w.count("passed")
	case errors.Is(err, mortise.ErrBroken):
		c.broken = true
		w.count("broken")
	default:
		w.count("given up")
		w.check(err)
	}
}

// there returns how many parties may have been at the barrier with c. One that
// gave up counts as long as Redis may not know it: until its departure, which is
// tried again and again, has come through, late at most.
func (l *calls) there(c *call, late time.Duration) (n int) {
	for _, o := range l.all {
		end := o.end
		if o.number < 0 && !o.broken {
			end = end.Add(late)
		}
		if !o.start.After(c.end) && !end.Before(c.start) {
			n++
		}
	}
	return n
}

// check looks at the calls that passed.
func (l *calls) check(w *crowd, parties int, late time.Duration) {
	passed := map[int]int{} // by number
	for _, c := range l.all {
		if c.number < 0 {
			continue
		}
		passed[c.number]++
		if there := l.there(c, late); there < parties {
			w.t.Errorf("one passed while %d were there, want %v at least", there, parties)
		}
	}
	for number, n := range passed {
		if number >= parties || n*parties > len(l.all) {
			w.t.Errorf("%d passed with the number %d in %d calls for %d parties", n, number, len(l.all), parties)
		}
	}
}

// Parties that give up, are cut off, die and come again, and resets:
// a party that passes does so with enough others, no number is used more often than
// there were rounds, every call ends, and afterwards the barrier works.
func TestBarrierHistoriesOfTheImpatient(t *testing.T) {
	const parties = 3
	lease := 4 * time.Second
	eachSeed(t, func(w *crowd) {
		var history calls
		w.workers(5, mortise.Options{TTL: lease, RetryFor: 2 * time.Second}, func(_ int, c *mortise.Client, link *mortisetest.Link, r *rand.Rand) {
			for n := range 12 {
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(500+r.IntN(12_000))*time.Millisecond)
				me := history.start()
				switch r.IntN(10) {
				case 0:
					w.count("cuts")
					cut(link, time.Duration(r.IntN(9000))*time.Millisecond)
				case 1:
					w.count("resets")
					w.check(c.Barrier("job", parties).Reset(ctx))
				case 2:
					if n > 8 {
						w.count("deaths")
						go func() { time.Sleep(100 * time.Millisecond); _ = c.Close() }()
					}
				}
				number, err := c.Barrier("job", parties).Await(ctx)
				cancel()
				history.end(w, me, number, err)
				time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
			}
		})
		history.check(w, parties, lease+4*time.Second)
		// Afterwards.
		time.Sleep(2 * lease)
		c := mortise.New(w.server.Link(), nil)
		defer c.Close()
		var after []<-chan locktest.Arrival
		for range parties {
			after = append(after, locktest.Arrive(w.t.Context(), c.Barrier("job", parties)))
		}
		for _, p := range after {
			if got := <-p; got.Err != nil || got.After != 0 {
				w.t.Errorf("afterwards: %+v, want to pass at once", got)
			}
		}
	}, map[string]int{"passed": 6, "broken": 10, "given up": 10, "cuts": 4, "resets": 4, "deaths": 1, "replies lost": 10, "late calls": 5, "requests lost": 10})
}

// member is one stay inside a double barrier.
type member struct {
	entered time.Time
	ctx     context.Context
	leaving bool
}

// members are those of a history.
type members struct {
	mu  sync.Mutex // guards all, and the members in it
	all []*member
}

func (l *members) enter(ctx context.Context) *member {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &member{entered: time.Now(), ctx: ctx}
	l.all = append(l.all, m)
	return m
}

// leave has me leave. Cancel ends the context with which it entered.
func (l *members) leave(w *crowd, me *member, m *mortise.Member, cancel context.CancelFunc) {
	l.mu.Lock()
	me.leaving = true
	l.mu.Unlock()
	began := time.Now()
	cancel()
	long, done := context.WithTimeout(w.t.Context(), time.Minute)
	err := m.Leave(long)
	done()
	switch {
	case err == nil:
		w.count("left")
	case errors.Is(err, mortise.ErrBroken):
		w.count("broken")
	default:
		w.count("lost")
		w.check(err)
		return // it was not told that all are out
	}
	var broken *mortise.BrokenError
	if errors.As(err, &broken) && broken.Reason == mortise.BrokenLost {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.all {
		if o.entered.Before(began) && !o.leaving && o.ctx.Err() == nil {
			w.t.Errorf("Leave: %v, while another one is inside", err)
		}
	}
}

// Members that give up, are cut off, die inside and stay too long: a member
// that is told that all have left by themselves can rely on it. One that is told
// that another did not can rely on the end of its context. Every call ends.
func TestDoubleBarrierHistoriesOfTheImpatient(t *testing.T) {
	const parties = 3
	lease := 4 * time.Second
	eachSeed(t, func(w *crowd) {
		var members members
		w.workers(5, mortise.Options{TTL: lease, RetryFor: 2 * time.Second}, func(_ int, c *mortise.Client, link *mortisetest.Link, r *rand.Rand) {
			for n := range 10 {
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(500+r.IntN(15_000))*time.Millisecond)
				m, held, err := c.DoubleBarrier("job", parties).Enter(ctx)
				if err != nil {
					cancel()
					w.count("given up")
					w.check(err)
					continue
				}
				w.count("entered")
				me := members.enter(held)
				switch r.IntN(8) {
				case 0:
					w.count("cuts")
					cut(link, time.Duration(r.IntN(9000))*time.Millisecond)
				case 1:
					if n > 5 {
						w.count("deaths")
						cancel()
						_ = c.Close()
						return
					}
				}
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				members.leave(w, me, m, cancel)
			}
		})
	}, map[string]int{"entered": 10, "left": 2, "broken": 2, "given up": 5, "cuts": 1, "replies lost": 10, "late calls": 5, "requests lost": 10})
}
