package torture

import (
	"syscall"

	"github.com/mortise-go/mortise/internal/torture"
)

// busiest returns the place of the client with the most goroutines that are, or not, inside a
// section, and how many these are. Of equals it chooses by chance.
func (r *round) busiest(holding bool) (at, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	score := make([]int, len(r.clients))
	for who, s := range r.places {
		switch {
		case holding && s.section != nil:
			score[who.client%100]++
		case !holding && s.section != nil:
			score[who.client%100] -= 100
		case !holding && s.waits != 0:
			score[who.client%100]++
		}
	}
	first := r.random.IntN(len(score))
	at = first
	for i := range score {
		if j := (first + i) % len(score); score[j] > score[at] {
			at = j
		}
	}
	return at, max(score[at], 0)
}

// freezeHolder stops a client that holds locks for longer than its leases last.
func freezeHolder(r *round) int {
	i, n := r.busiest(true)
	r.freeze(i, true)
	return n
}

// freezeWaiter stops a client that only waits, for any time.
func freezeWaiter(r *round) int {
	i, n := r.busiest(false)
	r.freeze(i, r.random.IntN(2) == 0)
	return n
}

func (r *round) freeze(i int, long bool) {
	c := r.clients[i]
	c.signal(syscall.SIGSTOP)
	if long {
		r.pause(r.ttl+r.ttl/10, 2*r.ttl)
	} else {
		r.pause(0, r.ttl)
	}
	c.signal(syscall.SIGCONT)
}

// kill kills a client, and another one takes its place.
func kill(r *round) int {
	i, n := r.busiest(r.random.IntN(2) == 0)
	r.clients[i].kill()
	r.pause(0, r.ttl)
	r.replace(i)
	r.wait(served, "the new client has begun", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for who := range r.places {
			if who.client == i+100*r.lives[i] {
				return true
			}
		}
		return false
	})
	return n
}

// forgets calls f, in which Redis forgets what it has confirmed.
func (r *round) forgets(f func()) {
	r.mu.Lock()
	i := len(r.faults)
	r.faults = append(r.faults, span{torture.Now(), 1 << 62})
	r.mu.Unlock()
	f()
	r.mu.Lock()
	r.faults[i].to = torture.Now()
	r.mu.Unlock()
}
