package mortisetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mortise-go/mortise"
)

// The model of a barrier: the numbers of the calls that wait, in the order of their arrival,
// and those that may pass.
type (
	barrierState struct{ waiting, passing string }
	arrival      struct {
		i, parties, number int
		maybe              bool
	}
	pass   int
	depart int
)

// checkBarrier checks the calls of one barrier.
func checkBarrier(calls []*call) []problem {
	var items []item
	for i, c := range calls {
		if c.over && c.err != nil && !c.doubtful {
			continue
		}
		passes := c.over && c.err == nil
		number := -1
		if passes {
			number = c.got
		}
		steps := []step{{c.begin, c.last(), arrival{i, c.parties, number, !passes}}}
		if passes {
			steps = append(steps, step{c.begin, c.done, pass(i)})
		} else {
			steps = append(steps, step{c.begin, c.last(), depart(i)})
		}
		items = append(items, item{at: c.begin, text: c.story(), steps: steps, needed: true,
			less: []step{{c.begin, c.last(), arrival{i, c.parties, -1, true}}, {c.begin, c.last(), depart(i)}}})
	}
	m := model{
		near:    true,
		promise: fmt.Sprintf("one passes the barrier %q before all %d have arrived, or with a number that another has", calls[0].name, calls[0].parties),
		init:    barrierState{},
		step:    func(state, do any) []any { return stepBarrier(state.(barrierState), do) },
	}
	return m.check(items)
}

func stepBarrier(s barrierState, do any) []any {
	switch do := do.(type) {
	case arrival:
		next := s
		waiting := append([]rune(s.waiting), mark(do.i))
		if next.waiting = string(waiting); len(waiting) == do.parties {
			next = barrierState{"", union(s.passing, next.waiting)}
		}
		switch {
		case do.maybe:
			return []any{s, next}
		case do.number != len(waiting)-1:
			return nil
		}
		return []any{next}
	case pass:
		if !has(s.passing, int(do)) {
			return nil
		}
		s.passing = remove(s.passing, int(do))
	case depart:
		if has(s.waiting, int(do)) {
			s.waiting = "" // it is broken, and the others are told so
		}
		s.passing = remove(s.passing, int(do))
	}
	return []any{s}
}

// The model of a double barrier: the parties inside, those inside when the last had entered, those
// that may return from Enter, and those that may return from Leave.
type (
	doubleState struct {
		inside, group, entered, outs string
		broken                       bool
	}
	come struct {
		i, parties int
		maybe      bool
	}
	begin int
	goOut struct {
		i     int
		maybe bool
	}
	out  int
	drop int
)

// checkDoubleBarrier checks the calls of one double barrier.
func checkDoubleBarrier(calls []*call) []problem {
	var items []item
	for i, c := range calls {
		if c.op != "Enter" || c.over && c.err != nil && !c.doubtful {
			continue
		}
		inside := c.over && c.err == nil
		steps := []step{{c.begin, c.last(), come{i, c.parties, !inside}}}
		text := c.story()
		if inside {
			steps = append(steps, step{c.begin, c.done, begin(i)})
		} else {
			steps = append(steps, step{c.begin, c.last(), drop(i)})
		}
		if c.dark != never {
			from := c.dark
			if from.before(c.done) {
				from = c.done
			}
			steps = append(steps, step{from, from.later(c.lease), drop(i)})
			text += fmt.Sprintf("; it is lost at %s", clock(c.dark))
		}
		if l := c.left; l != nil {
			left := l.over && l.err == nil
			steps = append(steps, step{l.begin, l.done, goOut{i, !left}})
			if !left && c.dark == never {
				steps = append(steps, step{goneFrom(c), l.begin.later(c.lease + c.lease), drop(i)})
			}
			if left {
				steps = append(steps, step{l.begin, l.done, out(i)})
			}
			text += "; " + l.story()
		}
		items = append(items, item{at: c.begin, text: text, steps: steps, needed: true, less: unclaimed(steps)})
	}
	m := model{
		near:    true,
		promise: fmt.Sprintf("one enters the double barrier %q before all %d are inside, or is told that all have left and they have not", calls[0].name, calls[0].parties),
		init:    doubleState{},
		step:    func(state, do any) []any { return stepDouble(state.(doubleState), do) },
	}
	return m.check(items)
}

// goneFrom returns from when on a member whose Leave has failed may not have been inside any more. One
// that was lost, after its context had ended for another reason, was not told when.
func goneFrom(c *call) instant {
	var broken *mortise.BrokenError
	if errors.Is(c.left.err, mortise.ErrLost) || errors.As(c.left.err, &broken) && broken.Reason == mortise.BrokenLost {
		return c.done
	}
	return c.left.begin
}

// unclaimed returns the steps of a member of which nothing is asked: it came, if it did, and
// went.
func unclaimed(steps []step) (less []step) {
	for _, s := range steps {
		switch do := s.do.(type) {
		case begin, out:
			continue
		case come:
			do.maybe = true
			s.do = do
		case goOut:
			do.maybe = true
			s.do = do
		}
		less = append(less, s)
	}
	return append(less, step{steps[0].from, never, drop(steps[0].do.(come).i)})
}

func stepDouble(s doubleState, do any) []any {
	switch do := do.(type) {
	case come:
		return s.comes(do)
	case begin:
		if !has(s.entered, int(do)) {
			return nil
		}
		s.entered = remove(s.entered, int(do))
	case goOut:
		next := s
		if s.group != "" && has(s.inside, do.i) {
			next.inside = remove(s.inside, do.i)
			next = next.ended()
		}
		if do.maybe {
			return slices.Compact([]any{s, next})
		}
		return []any{next}
	case out:
		if !has(s.outs, int(do)) {
			return nil
		}
		s.outs = remove(s.outs, int(do))
	case drop:
		if has(s.inside, int(do)) {
			s.inside = remove(s.inside, int(do))
			s.broken = s.broken || s.group != ""
			s = s.ended()
		}
	}
	return []any{s}
}

func (s doubleState) comes(do come) []any {
	next := s
	if s.group == "" && size(s.inside) < do.parties {
		if next.inside = add(s.inside, do.i); size(next.inside) == do.parties {
			next.group, next.entered = next.inside, union(s.entered, next.inside)
		}
	} else if !do.maybe {
		return nil
	}
	if do.maybe {
		return slices.Compact([]any{s, next})
	}
	return []any{next}
}

// ended begins the next round if the last of this one has left.
func (s doubleState) ended() doubleState {
	if s.group == "" || s.inside != "" {
		return s
	}
	if !s.broken {
		s.outs = union(s.outs, s.group)
	}
	s.group, s.broken = "", false
	return s
}
