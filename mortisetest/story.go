package mortisetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mortise-go/mortise"
)

// story says which client held what, from when to when. h.mu must be held.
func (h *History) story(r *holding) string {
	what := fmt.Sprintf("%s %q", r.Kind, r.Name)
	switch r.Sort {
	case Permits:
		what = fmt.Sprintf("%d of the permits of %q", r.Permits, r.Name)
	case Group:
		what += " with " + strings.Join(r.Values, ", ")
	case Leading:
		what += fmt.Sprintf(" with the value %q", r.value)
	}
	text := fmt.Sprintf("%s, as owner %s, asks for %s at %s", r.client, r.owner, what, clock(r.begin))
	switch {
	case r.done == never:
		return text + " and waits to the end"
	case !r.granted:
		return text + fmt.Sprintf(" and is refused at %s: %v", clock(r.done), r.err) + h.holder(r)
	}
	text += ", has it from " + clock(r.done)
	if r.id != "" {
		text += fmt.Sprintf(" (in Redis as %s)", r.id)
	}
	if r.token != 0 {
		text += fmt.Sprintf(" with the token %d", r.token)
	}
	switch {
	case r.end == never:
		text += " to the end"
	case r.lost:
		text += fmt.Sprintf(" and loses it at %s (%s)", clock(r.end), r.why())
	case r.cause != nil:
		text += fmt.Sprintf(" and releases it at %s (%v)", clock(r.end), r.cause)
	default:
		text += " and releases it at " + clock(r.end)
	}
	return text
}

// holder says which of the owners of the history it is that an error names by its id in Redis.
func (h *History) holder(refused *holding) string {
	var by *mortise.HeldError
	if !errors.As(refused.err, &by) {
		return ""
	}
	var is *holding
	for _, r := range h.holdings { // an id may go on with the lease, from one owner to the next
		if r.id == by.Owner && (is == nil || r.begin.before(refused.done)) {
			is = r
		}
	}
	if is == nil {
		return ""
	}
	return fmt.Sprintf(" (that is owner %s)", is.owner)
}

// why says why a hold was lost, as far as its holder was told.
func (r *holding) why() string {
	if r.cause == nil {
		return "its context had ended for another reason"
	}
	return r.cause.Error()
}

// story reports what a call asked, and what came of it.
func (c *call) story() string {
	if c.op == "SetPermits" { // the test has reported it
		return fmt.Sprintf("the permits of %q are %d from %s on", c.name, c.n, clock(c.begin))
	}
	text := fmt.Sprintf("%s calls %s%s on %s %q at %s", c.client, c.op, c.argument(), c.family, c.name, clock(c.begin))
	switch {
	case !c.over:
		return text + ", which has not returned"
	case c.err != nil:
		return text + fmt.Sprintf(", which returns at %s: %v", clock(c.done), c.err)
	}
	return text + ", which returns at " + clock(c.done) + c.result()
}

// argument is what the call was given, apart from its context.
func (c *call) argument() string {
	switch c.op {
	case "TrySetCount", "TrySetPermits", "Acquire", "Release", "AddPermits":
		return fmt.Sprintf("(%d)", c.n)
	case "Proclaim":
		return fmt.Sprintf("(%q) in the term %d", c.value, c.n)
	}
	return ""
}

// result is what a call has returned that succeeded.
func (c *call) result() string {
	switch c.op {
	case "Count", "Available", "Drain", "Await":
		return fmt.Sprintf(" with %d", c.got)
	case "TrySetCount", "TrySetPermits":
		if c.got == 0 {
			return " and has not set it"
		}
	case "Leader", "Observe":
		if c.got == 0 {
			return ", and sees nobody"
		}
		return fmt.Sprintf(", and sees the term %d with the value %q", c.got, c.value)
	}
	return ""
}

// clock shows an instant in a story.
func clock(i instant) string {
	if i == never {
		return "the end"
	}
	return fmt.Sprintf("%.3fs", i.at.Seconds())
}
