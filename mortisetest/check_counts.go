package mortisetest

import "fmt"

// counting is a step of a latch or a semaphore: what was asked and what came of it.
type counting struct {
	*call
	maybe bool // it may have had no effect
}

// counts makes an item of each call that changed a number, may have, or says what it was.
func counts(calls []*call) (items []item) {
	for _, c := range calls {
		if c.err != nil && !c.doubtful || !c.over && c.op == "Wait" {
			continue
		}
		i := item{at: c.begin, text: c.saysNumber(), steps: []step{{c.begin, c.last(), counting{c, !c.over || c.err != nil}}}}
		if c.op == "TrySetCount" || c.op == "TrySetPermits" || c.op == "CountDown" || c.op == "Release" {
			i.needed, i.less = true, i.steps
		}
		items = append(items, i)
	}
	return items
}

// saysNumber describes a call of a latch or a semaphore.
func (c *call) saysNumber() string {
	switch {
	case c.op == "Wait":
		return c.says("")
	case (c.op == "Count" || c.op == "Available") && c.over && c.err == nil:
		return c.says("") + fmt.Sprintf(" with %d", c.got)
	case c.op == "TrySetCount" && c.over && c.err == nil && c.got == 0:
		return c.says(fmt.Sprintf("(%d)", c.n)) + " and has not set it"
	}
	return c.says(fmt.Sprintf("(%d)", c.n))
}

// checkLatch checks the calls of one latch.
func checkLatch(calls []*call) []problem {
	m := model{
		promise: fmt.Sprintf("latch %q does not open when, or only when, it was counted down to zero", calls[0].name),
		init:    0,
		step:    func(state, do any) []any { return stepLatch(state.(int), do.(counting)) },
	}
	return m.check(counts(calls))
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

// unset is the number of a semaphore that nobody has set.
const unset = -1

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
	next := n
	switch c.op {
	case "TrySetPermits":
		if !c.maybe && (n == unset) != (c.got == 1) {
			return nil
		}
		if n == unset {
			next = c.n
		}
	case "Release":
		next = max(n, 0) + c.n
	case "Available":
		if c.got > max(n, 0) && !c.maybe {
			return nil
		}
	case "Acquire":
		if c.maybe {
			break // what it may have taken it gives back
		}
		if next = n - c.n; n < c.n {
			return nil
		}
	}
	if c.maybe && next != n {
		return []any{n, next}
	}
	return []any{next}
}
