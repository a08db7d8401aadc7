package mortisetest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/mortise-go/mortise"
)

// counting is a step of a latch or a semaphore: what was asked and what came of it.
type counting struct {
	*call
	maybe bool // it may have had no effect
}

// counts makes an item of each call that changed a number, may have, or says what it was.
func counts(calls []*call) (items []item) {
	for _, c := range calls {
		if c.err != nil && !c.doubtful || c.op == "Wait" && (!c.over || c.err != nil) {
			continue
		}
		i := item{at: c.begin, text: c.story(), steps: []step{{c.begin, c.last(), counting{c, !c.over || c.err != nil}}}}
		switch c.op {
		case "TrySetCount", "TrySetPermits", "CountDown", "Release", "AddPermits":
			i.needed, i.less = true, i.steps
		case "Drain": // a number below 0 becomes 0
			if !c.over || c.err != nil {
				i.needed, i.less = true, i.steps
			}
		}
		items = append(items, i)
	}
	return items
}

// closed is what a waiter claims that a latch has not let pass: it was not open.
type closed struct{}

// checkLatch checks the calls of one latch, of which all is known until end.
func (h *History) checkLatch(calls []*call, end instant) []problem {
	items := counts(calls)
	for _, c := range calls {
		if s, claims := h.claimsClosed(c, calls, end); claims {
			items = append(items, item{at: c.begin, text: c.story(), steps: []step{s}})
		}
	}
	m := model{
		promise: fmt.Sprintf("latch %q does not open when, or only when, it was counted down to zero", calls[0].name),
		init:    0,
		step: func(state, do any) []any {
			if do, counts := do.(counting); counts {
				return stepLatch(state.(int), do)
			}
			if state.(int) == 0 {
				return nil
			}
			return []any{state}
		},
	}
	return m.check(items)
}

// claimsClosed returns when a call of Wait must have found the latch closed, if it must: it has
// [mortise.ErrMissing], or waited for longer than a Lease. It looks again and again, so what it has
// found is not older than a Lease, unless its link was bad. Then a call that waited behind others of its client may
// say what Redis last answered to them.
func (h *History) claimsClosed(c *call, calls []*call, end instant) (s step, claims bool) {
	if c.op != "Wait" || c.over && c.err == nil {
		return step{}, false
	}
	end = earlier(end, c.done)
	from := later(c.begin, instant{at: end.at - h.Lease})
	calm := !h.disturbs(c.client, from, end)
	if errors.Is(c.err, mortise.ErrMissing) {
		if !calm {
			from = waitedSince(c, calls)
		}
		return step{from, end, closed{}}, true
	}
	waited := !c.over || !errors.Is(c.err, mortise.ErrUnreachable) && (errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded))
	return step{from, end, closed{}}, calm && waited && end.at-c.begin.at > h.Lease
}

// waitedSince returns when the first of the calls of Wait began by which c's client has waited without a pause until c ended.
func waitedSince(c *call, calls []*call) instant {
	since := c.begin
	for more := true; more; {
		more = false
		for _, other := range calls {
			if other.op == "Wait" && other.client == c.client && other.begin.before(since) && since.before(other.done) {
				since, more = other.begin, true
			}
		}
	}
	return since
}

func stepLatch(n int, c counting) []any {
	next := n
	switch c.op {
	case "TrySetCount":
		if !c.maybe && (n == 0) != (c.got == 1) {
			return nil
		}
		if n == 0 {
			next = c.n
		}
	case "CountDown":
		next = max(n-1, 0)
	case "Wait":
		if n != 0 && !c.maybe {
			return nil
		}
	case "Count":
		if n != c.got && !c.maybe {
			return nil
		}
	}
	if c.maybe && next != n {
		return []any{n, next}
	}
	return []any{next}
}

// unset is the number of a semaphore that nobody has set. No semaphore can have so few.
const unset = math.MinInt

// checkSemaphore checks the calls of one semaphore. One that was never set is not checked.
func checkSemaphore(calls []*call) []problem {
	m := model{
		promise: fmt.Sprintf("of semaphore %q more permits are taken than there are", calls[0].name),
		init:    unset,
		step:    func(state, do any) []any { return stepSemaphore(state.(int), do.(counting)) },
	}
	return m.check(counts(calls))
}

func stepSemaphore(n int, c counting) []any {
	if n == unset {
		return stepUnset(c)
	}
	next := n
	switch c.op {
	case "TrySetPermits":
		if !c.maybe && c.got == 1 {
			return nil
		}
	case "Release", "AddPermits":
		next = n + c.n
	case "Available":
		if c.got > n && !c.maybe {
			return nil
		}
	case "Drain", "Acquire":
		if c.maybe { // what it may have taken it gives back, or there may be less
			next = c.drained(n)
			break
		}
		taken := c.n
		if c.op == "Drain" {
			taken = c.got
		}
		if next = n - taken; n < taken {
			return nil
		}
	}
	if c.maybe && next != n {
		return []any{n, next}
	}
	return []any{next}
}

// drained returns what n has become at most by a call in doubt that takes permits.
func (c counting) drained(n int) int {
	if c.op == "Drain" {
		return max(n, 0)
	}
	return n
}

// stepUnset is stepSemaphore for one that nobody has set.
func stepUnset(c counting) []any {
	next := unset
	switch c.op {
	case "TrySetPermits":
		if !c.maybe && c.got != 1 {
			return nil
		}
		next = c.n
	case "Release", "AddPermits":
		next = c.n
	case "Available", "Drain":
		if c.got > 0 && !c.maybe {
			return nil
		}
	case "Acquire":
		if !c.maybe {
			return nil
		}
	}
	if c.maybe && next != unset {
		return []any{unset, next}
	}
	return []any{next}
}
