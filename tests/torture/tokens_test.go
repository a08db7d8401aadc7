package torture

import (
	"slices"
	"time"
)

// A holder's token was drawn before its hold was valid. Writes of a stale holder may come after those
// of a newer one, and so may its news of a token; but a hold that began to be valid after another one
// was, or whose request was made when that was known, has drawn its token later: it is larger.

// drawnBefore reports whether the token of p was certainly drawn before that of c, two holds of one
// thing that only one may have.
func (p *section) drawnBefore(c *section) bool {
	return p.came < c.asked || p.start != 0 && p.start < c.start
}

// wentBack is a hold with a token that is not larger than that of an earlier one.
type wentBack struct{ earlier, later *section }

// backwards returns the holds of one thing whose tokens went back, although Redis has forgotten
// nothing since the earlier one. The holds are in the order in which the witness heard of them.
func backwards(holds []*section, faults []span, ttl time.Duration) (found []wentBack) {
	var newest *section
	for _, c := range holds {
		p := newest
		if p == nil || c.token > p.token {
			newest = c
		}
		switch {
		case p == nil:
		case slices.ContainsFunc(faults, func(f span) bool { return f.to >= p.came-int64(ttl) && f.from <= c.came }):
			newest = c
		case c.token <= p.token && p.drawnBefore(c):
			found = append(found, wentBack{p, c})
		case c.token > p.token && c.drawnBefore(p):
			found = append(found, wentBack{c, p})
		}
	}
	return found
}

// tokens notes the tokens of the round that went back. It must be called with w.mu held.
func (w *witness) tokens() {
	held := map[string][]*section{}
	for _, c := range w.sections {
		if load := w.loads[c.load]; load.Fenced {
			for _, thing := range things(load) {
				held[thing] = append(held[thing], c)
			}
		}
	}
	for thing, holds := range held {
		for _, b := range backwards(holds, w.faults, w.ttl) {
			w.note("%s: client %d has token %d, and it went back: client %d had %d before", thing, b.later.client, b.later.token, b.earlier.client, b.earlier.token)
		}
	}
}
