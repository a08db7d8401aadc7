package torture

import (
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// party is one call that meets others: at a barrier, inside a double barrier, or at a latch. All
// times are those at which the witness heard of it: of what begins, before that; of what has
// ended, after that.
type party struct {
	place
	load   torture.Load // as the witness wanted it
	came   int64
	passed int64  // it has met the others; 0 if it has not
	valid  int64  // until when its place inside certainly was its own
	leaves int64  // it is about to leave
	gone   int64  // it has left, given up or died; 0 if it is there
	class  string // of the error with which it has gone
	killed bool
}

func (p *party) String() string {
	at := func(t int64) string {
		if t == 0 {
			return "-"
		}
		return time.Duration(t - p.came).Round(100 * time.Microsecond).String()
	}
	return fmt.Sprintf("client %d/%d (passed %s, left from %s to %s, %q)", p.client, p.goroutine, at(p.passed), at(p.leaves), at(p.gone), p.class)
}

// there is the time in which p may have counted as present. One that gave up, or died, counts until its
// lease has ended, if it could not say that it goes.
func (p *party) there(lease time.Duration) span {
	switch {
	case p.leaves != 0:
		return span{p.came, p.leaves}
	case p.passed != 0 && p.gone == 0:
		return span{p.came, 1 << 62}
	case p.gone == 0:
		return span{p.came, 1 << 62}
	case p.passed != 0 && !p.killed:
		return span{p.came, p.gone}
	}
	return span{p.came, p.gone + int64(lease)}
}

// unclean reports whether p has gone without knowing that the others did not pass.
func (p *party) unclean() bool {
	return p.passed == 0 && p.class != "broken" || p.class != "" && p.class != "broken" || p.killed
}

// together returns the parties that passed although never so many were there at one instant of
// their waits. One that was told that the barrier is broken has not passed with anybody.
func together(parties []*party, lease time.Duration) (bad []string) {
	for _, p := range parties {
		if p.passed == 0 {
			continue
		}
		most := 0
		for _, at := range parties {
			if at.came > p.passed || at.there(lease).to < p.came && at != p {
				continue
			}
			instant, n := max(at.came, p.came), 0
			for _, q := range parties {
				if s := q.there(lease); s.from <= instant && instant <= max(s.to, q.passed) && (q.passed != 0 || q.class != "broken") {
					n++
				}
			}
			most = max(most, n)
		}
		if most < p.load.Units {
			bad = append(bad, fmt.Sprintf("%s %s for %d parties: %v passed, and %d were there", p.load.Kind, p.load.Name, p.load.Units, p, most))
		}
	}
	return bad
}

// brokenBy returns the parties that were told that the barrier is broken although none had given
// up, died or been cut off. A broken barrier stays so for a lease.
func brokenBy(parties []*party, lease time.Duration) (bad []string) {
	for _, p := range parties {
		if p.class != "broken" {
			continue
		}
		early := p.came - 3*int64(lease)
		if !slices.ContainsFunc(parties, func(q *party) bool {
			return q != p && q.unclean() && q.came <= p.gone && (q.gone == 0 || q.gone >= early)
		}) {
			bad = append(bad, fmt.Sprintf("%s %s: %v was told that it is broken, and no party has gone", p.load.Kind, p.load.Name, p))
		}
	}
	return bad
}

// stayed returns the parties that left a double barrier, as they believe together with all
// others, while one was still inside.
func stayed(parties []*party) (bad []string) {
	for _, p := range parties {
		if p.leaves == 0 || p.gone == 0 || p.class != "" || p.killed {
			continue
		}
		for _, q := range parties {
			if q != p && q.passed != 0 && q.passed < p.leaves && q.valid > p.gone && (q.leaves == 0 || q.leaves > p.gone) {
				bad = append(bad, fmt.Sprintf("double barrier %s: %v has left with all others, and %v was inside", p.load.Name, p, q))
			}
		}
	}
	return bad
}

// latch is one of a series: each opens once.
type latch struct {
	name      string
	since     int64
	begun     int // calls that count down
	counted   int // those that have succeeded
	handed    int // callers that were sent to it
	confirmed int64
}

// assign decides what a caller does with the latch of a load: it sets a new one, counts it down or
// waits for it. Only one that is set is given to others.
func (w *witness) assign(load int) (name, role string) {
	w.tally.latches++
	current := w.latches[load]
	now := torture.Now()
	if current == nil || now-current.since > int64(2*w.ttl) || current.handed >= 4*w.loads[load].Units {
		return fmt.Sprintf("%s:%d", w.loads[load].Name, w.tally.latches), "set"
	}
	current.handed++
	if current.handed%2 == 0 && current.begun < w.loads[load].Units+1 {
		current.begun++
		return current.name, "count"
	}
	return current.name, "wait"
}

// counted hears that a caller's part with a latch is done, and checks that a latch which lets
// one pass has been counted down.
func (w *witness) counted(load int, p *party) {
	k := w.named[p.load.Name]
	switch {
	case p.load.Role == "set":
		k = &latch{name: p.load.Name, since: p.came}
		w.named[p.load.Name], w.latches[load] = k, k
	case p.load.Role == "count":
		if k.counted++; k.counted == p.load.Units {
			k.confirmed = p.passed
		}
	case k.begun < p.load.Units && !w.forgot(k.since):
		w.note("latch %s was to open after %d, and let client %d pass after %d at most", k.name, p.load.Units, p.client, k.begun)
	default:
		w.tally.opened++
	}
}

// shut hears that somebody has waited for a latch in vain.
func (w *witness) shut(p *party) {
	k := w.named[p.load.Name]
	if k != nil && k.confirmed != 0 && p.came > k.confirmed && !w.forgot(k.since) {
		w.note("latch %s was counted down %d times, and was closed for client %d after that", k.name, k.counted, p.client)
	}
}

// met checks what is known of barriers. It must be called with w.mu held.
func (w *witness) met() {
	by := map[string][]*party{}
	for _, p := range w.parties {
		if p.load.Kind != "latch" {
			by[p.load.Kind+p.load.Name] = append(by[p.load.Kind+p.load.Name], p)
		}
		if p.passed != 0 && p.load.Kind != "latch" {
			w.tally.met++
		}
	}
	if len(w.faults) > 0 || len(w.windows) > 0 { // what Redis has forgotten explains all of it; meetings wait for no replicas
		return
	}
	for _, parties := range by {
		bad := together(parties, w.ttl)
		if parties[0].load.Kind == "double" {
			bad = append(bad, stayed(parties)...)
		} else {
			bad = append(bad, brokenBy(parties, w.ttl)...)
		}
		for _, b := range bad {
			w.note("%s", b)
		}
	}
}
