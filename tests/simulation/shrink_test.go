package simulation

import (
	"slices"
	"testing"
	"time"
)

// attempts is how often a smaller plan is tried before it is said not to fail.
const attempts = 2

// shrink leaves out of a plan what it can, for so long of real time, and returns what still
// fails. It returns nil if the plan itself did not fail again.
func shrink(t *testing.T, p *plan, wrap mutant, most time.Duration) (*plan, outcome) {
	began := time.Now()
	last, ok := fails(t, p, wrap)
	if !ok {
		return nil, outcome{}
	}
	for smaller := true; smaller; {
		smaller = false
		for n := 0; ; {
			q := p.omit(n)
			if q == nil || time.Since(began) > most {
				break
			}
			if o, ok := fails(t, q, wrap); ok {
				p, last, smaller = q, o, true // the next part has this number now
			} else {
				n++
			}
		}
	}
	return p, last
}

func fails(t *testing.T, p *plan, wrap mutant) (outcome, bool) {
	for range attempts {
		if o := run(t, p, wrap); len(o.wrong) > 0 {
			return o, true
		}
	}
	return outcome{}, false
}

// omit returns the plan without its nth part, or nil if there are fewer: first come whole
// clients, then programs, rates, faults, and single operations.
func (p *plan) omit(n int) *plan {
	q := *p
	q.clients = slices.Clone(p.clients)
	if n < len(q.clients) {
		q.clients = slices.Delete(q.clients, n, n+1)
		return &q
	}
	n -= len(q.clients)
	for i := range q.clients {
		c := &q.clients[i]
		if n < len(c.programs) {
			c.programs = slices.Delete(slices.Clone(c.programs), n, n+1)
			return &q
		}
		n -= len(c.programs)
	}
	if fields := rateFields(&q.rates); n < len(fields) {
		*fields[n].rate = 0
		return &q
	} else {
		n -= len(fields)
	}
	return q.omitSmall(n)
}

// omitSmall omits a fault, or a single operation.
func (p *plan) omitSmall(n int) *plan {
	if n < len(p.server) {
		p.server = slices.Delete(slices.Clone(p.server), n, n+1)
		return p
	}
	n -= len(p.server)
	for i := range p.clients {
		c := &p.clients[i]
		if n < len(c.events) {
			c.events = slices.Delete(slices.Clone(c.events), n, n+1)
			return p
		}
		n -= len(c.events)
		for j := range c.programs {
			if n < len(c.programs[j]) {
				c.programs = slices.Clone(c.programs)
				c.programs[j] = slices.Delete(slices.Clone(c.programs[j]), n, n+1)
				return p
			}
			n -= len(c.programs[j])
		}
	}
	return nil
}
