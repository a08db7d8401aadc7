package mortiseprom

import (
	"context"
	"errors"
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
		c.confirmed.Add(float64(max(e.Leases, 0)))
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
	if e.Type == mortise.EventAcquired {
		s.held.Inc()
	}
	c.acquire.WithLabelValues(c.with(s.labels, outcome(e), strconv.FormatBool(e.Queued))...).Observe(e.Waited.Seconds())
}

// outcome returns what became of a call.
func outcome(e *mortise.Event) string {
	switch err := e.Err; {
	case e.Type == mortise.EventAcquired:
		return "acquired"
	case errors.Is(err, mortise.ErrDeadlock):
		return "deadlock"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, mortise.ErrUnreachable):
		return "error"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case !errors.Is(err, mortise.ErrLocked) && !errors.Is(err, mortise.ErrNoPermits):
		return "error"
	case e.Queued:
		return "timeout"
	}
	return "refused"
}

// ended counts a hold that has ended.
func (c *Collector) ended(e *mortise.Event) {
	s := c.of(e)
	s.held.Dec()
	end, reason := ending(e)
	c.hold.WithLabelValues(c.with(s.labels, end)...).Observe(e.Held.Seconds())
	if reason != "" {
		c.lost.WithLabelValues(c.with(s.labels, reason)...).Inc()
	}
}

const closed = "closed"

// lostReasons are the reasons of losses that are counted.
var lostReasons = []string{
	string(mortise.LostExpired), string(mortise.LostTaken), string(mortise.LostForced), string(mortise.LostUnreachable), closed,
}

// ending returns in which way a hold has ended, and the reason if it was lost: that can turn out
// when it is released.
func ending(e *mortise.Event) (end, reason string) {
	lost, ok := errors.AsType[*mortise.LostError](e.Err)
	switch {
	case ok && lost.Reason == mortise.LostExpired:
		return string(lost.Reason), string(lost.Reason)
	case ok:
		return "lost", string(lost.Reason)
	case e.Type == mortise.EventReleased:
		return "released", ""
	}
	return closed, closed
}
