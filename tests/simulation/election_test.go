package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// Elections on a bad network, at random: candidates that give up, leaders whose
// link is cut, that are deposed, die, or stay too long; and observers.
// The history must be one of a correct election: no two terms are valid at once,
// numbers rise, a resource that refuses old numbers refuses no valid leader, and
// observers see only what was, in its order, and the end of it.
func TestElectionHistories(t *testing.T) {
	eachSeed(t, func(w *crowd) { newElectionHistory(w).run() }, map[string]int{
		"terms": 20, "lost": 1, "given up": 2, "proclaimed": 10, "deposed": 0, "deaths": 0, "cuts": 2, "writes": 40, "seen": 40, "compared": 10,
		"replies lost": 10, "late calls": 2, "requests lost": 10, "slow calls": 10,
	})
}

type electionHistory struct {
	*crowd
	force bool // leaders are deposed, so that two may believe that they lead

	mu      sync.Mutex // guards what follows
	active  *mortise.Term
	last    int64                       // the highest number so far
	values  map[int64][]string          // of each term, in the order in which they were proclaimed
	highest int64                       // that the resource was shown
	seen    map[string][]mortise.Leader // by observer
	now     map[string]mortise.Leader   // the same, the last one
	serial  int                         // makes values unique
}

func newElectionHistory(w *crowd) *electionHistory {
	return &electionHistory{
		crowd: w, force: w.seed%4 == 0,
		values: make(map[int64][]string), seen: make(map[string][]mortise.Leader), now: make(map[string]mortise.Leader),
	}
}

func (h *electionHistory) run() {
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	var observers, clients sync.WaitGroup
	good := mortise.New(h.server.Link(), nil)
	observers.Go(func() { h.observe(ctx, good, "good") })
	bad := mortise.New(h.badLink(99), &mortise.Options{RetryFor: 2 * time.Second})
	observers.Go(func() { h.observe(ctx, bad, "bad") })
	observers.Go(func() { h.compare(ctx, good) })

	for i := range uint64(3) {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(h.seed, i))
			for range 2 { // lives
				link := h.badLink(random.Uint64())
				c := mortise.New(link, &mortise.Options{TTL: lease, RetryFor: 8 * time.Second})
				h.live(c, link, random)
				h.check(c.Close())
			}
		})
	}
	clients.Wait()
	h.server.Settle()
	time.Sleep(lease + 4*time.Second) // what was abandoned is over, and has been seen
	h.mu.Lock()
	if l := h.now["good"]; l != (mortise.Leader{}) {
		h.t.Errorf("%+v is seen at the end, want nobody", l)
	}
	h.mu.Unlock()
	cancel()
	observers.Wait()
	h.check(good.Close())
	h.check(bad.Close())
	for observer, leaders := range h.seen {
		h.checkSeen(observer, leaders)
	}
}

func (h *electionHistory) live(c *mortise.Client, link *mortisetest.Link, random *rand.Rand) {
	var workers sync.WaitGroup
	for range 2 {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		workers.Go(func() {
			for range 4 {
				h.round(c, link, r)
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); workers.Wait() }()
	if random.IntN(3) == 0 {
		select {
		case <-time.After(time.Duration(random.IntN(20_000)) * time.Millisecond):
			h.count("deaths")
			h.check(c.Close())
		case <-done:
		}
	}
	<-done
}

func (h *electionHistory) value() string {
	h.serial++
	return fmt.Sprint("v", h.serial)
}

// round campaigns, leads for a while and resigns.
func (h *electionHistory) round(c *mortise.Client, link *mortisetest.Link, r *rand.Rand) {
	e := c.Election("job")
	if r.IntN(4) == 0 {
		e = e.With(mortise.LockOptions{MaxHold: time.Duration(200+r.IntN(4000)) * time.Millisecond})
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(r.IntN(30_000))*time.Millisecond)
	defer cancel()
	h.mu.Lock()
	value := h.value()
	h.mu.Unlock()
	term, held, err := e.Campaign(ctx, value)
	if err != nil {
		h.count("given up")
		h.check(err)
		return
	}
	h.enter(term, value)
	for range 1 + r.IntN(4) {
		time.Sleep(time.Duration(r.IntN(800)) * time.Millisecond)
		h.write(term)
		switch r.IntN(6) {
		case 0:
			h.count("cuts")
			cut(link, time.Duration(r.IntN(8000))*time.Millisecond)
		case 1, 2:
			h.proclaim(term)
		case 3:
			if h.force {
				if _, err := c.Election("job").Depose(ctx); err == nil {
					h.count("deposed")
				} else if !errors.Is(err, mortise.ErrNoLeader) {
					h.check(err)
				}
			}
		}
	}
	if held.Err() != nil && ctx.Err() == nil {
		h.count("lost")
	}
	h.check(term.Resign())
}

// enter notes a term.
func (h *electionHistory) enter(term *mortise.Term, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count("terms")
	if _, twice := h.values[term.Token()]; twice {
		h.t.Errorf("two terms have the number %d", term.Token())
	}
	h.values[term.Token()] = []string{value}
	if term.Valid() && !h.force {
		if h.active != nil && h.active.Valid() {
			h.t.Errorf("the terms %d and %d are valid at once", h.active.Token(), term.Token())
		}
		if term.Token() <= h.last {
			h.t.Errorf("the term %d comes after the term %d", term.Token(), h.last)
		}
	}
	h.active, h.last = term, max(h.last, term.Token())
}

// write uses a resource that refuses numbers lower than one that it was shown.
func (h *electionHistory) write(term *mortise.Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count("writes")
	if h.highest > term.Token() && term.Valid() && !h.force {
		h.t.Errorf("the resource refuses the valid term %d: it has seen %d", term.Token(), h.highest)
	}
	h.highest = max(h.highest, term.Token())
}

// proclaim changes the value. It is noted before, for others may see it before
// the answer comes.
func (h *electionHistory) proclaim(term *mortise.Term) {
	h.mu.Lock()
	value := h.value()
	h.values[term.Token()] = append(h.values[term.Token()], value)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Second)
	defer cancel()
	err := term.Proclaim(ctx, value)
	if err == nil {
		h.count("proclaimed")
	}
	h.check(err)
}

// observe notes what it sees, and begins again where the network was too bad.
func (h *electionHistory) observe(ctx context.Context, c *mortise.Client, observer string) {
	for ctx.Err() == nil {
		for l, err := range c.Election("job").Observe(ctx) {
			if err != nil {
				if observer == "good" && ctx.Err() == nil {
					h.t.Errorf("an observer over a good network ended with %v", err)
				}
				break
			}
			l.TTL = 0
			h.mu.Lock()
			h.count("seen")
			h.seen[observer] = append(h.seen[observer], l)
			h.now[observer] = l
			h.mu.Unlock()
		}
	}
}

// compare looks now and then whether a state that lasts is seen.
func (h *electionHistory) compare(ctx context.Context, c *mortise.Client) {
	read := func() mortise.Leader {
		l, err := c.Election("job").Leader(ctx)
		if err != nil && !errors.Is(err, mortise.ErrNoLeader) && ctx.Err() == nil {
			h.t.Error(err)
		}
		l.TTL = 0
		return l
	}
	for ctx.Err() == nil {
		before := read()
		time.Sleep(1200 * time.Millisecond) // longer than the poll
		h.mu.Lock()
		seen := h.now["good"]
		h.mu.Unlock()
		if after := read(); ctx.Err() == nil && before == after {
			h.count("compared")
			if seen != after {
				h.t.Errorf("for more than a second the leader was %+v, and %+v was seen", after, seen)
			}
		}
	}
}

// checkSeen checks that what was seen has been, in its order.
func (h *electionHistory) checkSeen(observer string, leaders []mortise.Leader) {
	term, edition := int64(0), -1
	for _, l := range leaders {
		if l == (mortise.Leader{}) {
			continue
		}
		values, known := h.values[l.Term]
		if l.Term < term {
			h.t.Errorf("%s saw the term %d after %d", observer, l.Term, term)
		}
		if l.Term > term {
			edition = -1
		}
		term = l.Term
		if !known {
			continue // one whose candidate had given up when it was elected
		}
		i := slices.Index(values, l.Value)
		if i < 0 || i < edition {
			h.t.Errorf("%s saw %q in the term %d, whose values were %q, after the one at %d", observer, l.Value, l.Term, values, edition)
		}
		edition = i
	}
}
