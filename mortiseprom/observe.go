package mortiseprom

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/mortise-go/mortise"
)

// Observe counts e. Clients call it.
func (c *Collector) Observe(e mortise.Event) {
	switch e.Type {
	case mortise.EventWaiting:
		c.of(&e).waiters.Inc()
	case mortise.EventAcquired, mortise.EventRefused:
		c.concluded(&e)
	case mortise.EventReleased, mortise.EventLost:
		c.ended(&e)
	case mortise.EventRenewed:
		c.renewed.Add(float64(max(e.Leases, 0)))
		c.margin.Observe(e.Margin.Seconds())
	case mortise.EventRenewalFailing:
		c.failed.Add(float64(max(e.Leases, 0)))
	case mortise.EventGap:
		c.gaps.Inc()
	case mortise.EventPaused:
		c.pause.Observe(e.Pause.Seconds())
	case mortise.EventDeadlock:
		c.deadlocks.Inc()
	case mortise.EventAsked:
		c.asked.Inc()
	}
}

// concluded counts a call.
func (c *Collector) concluded(e *mortise.Event) {
	s := c.of(e)
	if e.Queued {
		s.waiters.Dec()
	}
	if e.Type == mortise.EventAcquired && e.Owner != "" { // else nobody has it: no end will be told
		s.held.Inc()
	}
	c.acquire.WithLabelValues(c.with(s.labels, outcome(e), strconv.FormatBool(e.Queued))...).Observe(e.Waited.Seconds())
}

// outcome returns what became of a call.
func outcome(e *mortise.Event) string {
	is := func(target error) bool { return errors.Is(e.Err, target) }
	switch {
	case e.Type == mortise.EventAcquired:
		return "acquired"
	case is(mortise.ErrDeadlock):
		return "deadlock"
	case is(mortise.ErrClosed), is(mortise.ErrNotSet):
		return "error"
	case is(context.Canceled):
		return "canceled"
	case is(mortise.ErrUnreachable):
		return "error"
	case is(context.DeadlineExceeded):
		return "timeout"
	case !is(mortise.ErrLocked) && !is(mortise.ErrNoPermits) && !is(mortise.ErrMissing):
		return "error"
	case e.Queued:
		return "timeout"
	}
	return "locked"
}

// ended counts a hold that has ended.
func (c *Collector) ended(e *mortise.Event) {
	s := c.of(e)
	s.held.Dec()
	end := "released"
	if reason := lossOf(e); reason != "" {
		c.lost.WithLabelValues(c.with(s.labels, reason)...).Inc()
		if end = "lost"; reason == string(mortise.LostExpired) {
			end = reason
		}
	}
	c.hold.WithLabelValues(c.with(s.labels, end)...).Observe(e.Held.Seconds())
}

// lostReasons are the reasons of losses: those of a LostError, that the client was closed, and any that is
// not known here.
var lostReasons = []string{
	string(mortise.LostExpired), string(mortise.LostTaken), string(mortise.LostForced), string(mortise.LostUnreachable), "closed", overflow,
}

// lossOf returns the reason for which a hold was lost, and nothing if it was released. That it was lost
// may turn out when it is released.
func lossOf(e *mortise.Event) string {
	lost, ok := errors.AsType[*mortise.LostError](e.Err)
	switch {
	case ok && slices.Contains(lostReasons, string(lost.Reason)):
		return string(lost.Reason)
	case e.Type == mortise.EventReleased && !errors.Is(e.Err, mortise.ErrLost):
		return ""
	case errors.Is(e.Err, mortise.ErrClosed):
		return "closed"
	}
	return overflow
}
