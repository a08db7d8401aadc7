package mortisetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mortise-go/mortise"
)

// The model of holds: those that are in, and how many permits exist.
type (
	holdState struct {
		in     string
		exist  int
		exists bool
	}
	enter  int // the number of a holding
	leave  int
	exists int // so many permits
)

// checkHolds checks that no two holds of a name exclude each other.
func (h *History) checkHolds(family, name string, rs []*holding) []problem {
	var items []item
	for n, r := range rs {
		if !r.granted {
			continue
		}
		i := item{at: r.begin, text: h.story(r), of: r}
		for _, s := range h.stays(r) {
			end := later(s.to, s.by)
			i.steps = append(i.steps, step{s.from, s.by, enter(n)}, step{end, end, leave(n)})
		}
		if len(i.steps) > 0 {
			items = append(items, i)
		}
	}
	for _, c := range h.calls {
		if c.family == family && c.name == name && c.op == "SetPermits" {
			steps := []step{{c.begin, c.done, exists(c.n)}}
			items = append(items, item{at: c.begin, text: c.story(), steps: steps, needed: true, less: steps})
		}
	}
	m := model{
		promise: fmt.Sprintf("%s %q: more holders at the same time than it admits", family, name),
		init:    holdState{},
		step:    func(state, do any) []any { return stepHolds(rs, state.(holdState), do) },
		moral:   together,
	}
	return m.check(items)
}

func stepHolds(rs []*holding, s holdState, do any) []any {
	switch do := do.(type) {
	case exists:
		s.exist, s.exists = int(do), true
	case leave:
		s.in = remove(s.in, int(do))
	case enter:
		r := rs[do]
		sum := r.Permits
		for _, mark := range s.in {
			other := rs[mark-firstMark]
			if excludes(r, other) {
				return nil
			}
			sum += other.Permits
		}
		if r.Sort == Permits && s.exists && sum > s.exist {
			return nil
		}
		s.in = add(s.in, int(do))
	}
	return []any{s}
}

// excludes reports whether two holds of one name must not be there at once.
func excludes(a, b *holding) bool {
	switch {
	case a.Sort == Permits, a.Sort == Reading && b.Sort == Reading:
		return false
	case a.Sort == Leading:
		return true
	case a.owner == b.owner:
		return false
	case a.Sort == Group:
		return slices.ContainsFunc(a.Values, func(v string) bool { return slices.Contains(b.Values, v) })
	}
	return true
}

// together says when all holds of the items are there.
func together(items []item) []string {
	from, to, n := instant{}, never, 0
	for _, i := range items {
		if i.of == nil {
			continue
		}
		n++
		if from.before(i.of.done) {
			from = i.of.done
		}
		to = earlier(to, i.of.end)
	}
	switch {
	case n == 1:
		return []string{"that is more than there are"}
	case n == 0 || !from.before(to):
		return nil
	case n == 2:
		return []string{fmt.Sprintf("both have it from %s to %s", clock(from), clock(to))}
	}
	return []string{fmt.Sprintf("all %d have it from %s to %s", n, clock(from), clock(to))}
}

// checkRefusals checks that a request that was told that another owner has the lock was told
// so for a reason.
func (h *History) checkRefusals(rs []*holding) (problems []problem) {
	for _, r := range rs {
		var by *mortise.HeldError
		if r.granted || r.part || !errors.Is(r.err, mortise.ErrLocked) || errors.As(r.err, &by) && by.Kept() {
			continue
		}
		if slices.ContainsFunc(rs, func(o *holding) bool { return o != r && h.mayHold(o, r) }) {
			continue
		}
		problems = append(problems, problem{
			fmt.Sprintf("a request for %s %q is refused, and nobody has it", r.Sort.family(), r.Name),
			[]string{h.story(r), fmt.Sprintf("from %s to %s nobody else can have it, or can have asked for it before", clock(r.begin), clock(r.done))},
		})
	}
	return problems
}

// mayHold reports whether o may have been in the way of r at some time of its request.
func (h *History) mayHold(o, r *holding) bool {
	if o.owner == r.owner && o.Sort != Leading || !excludes(o, r) || !o.begin.before(r.done) {
		return false
	}
	last := o.done.later(o.lease) // of a request that failed: it may have got a turn, or the lock
	if o.granted {
		last = o.released
		switch {
		case last == never:
			last = later(o.end, o.gone).later(o.lease)
		case h.wasDisturbed(o): // a late copy of the request may have acquired it once more
			last = last.later(o.lease)
		}
	}
	last = later(last, h.back(o))
	return !last.before(r.begin)
}
