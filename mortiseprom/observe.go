package mortiseprom

import (
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
	c.acquire.WithLabelValues(c.with(s.labels, e.Outcome(), strconv.FormatBool(e.Queued))...).Observe(e.Waited.Seconds())
}

// ended counts a hold that has ended.
func (c *Collector) ended(e *mortise.Event) {
	s := c.of(e)
	s.held.Dec()
	end, reason := e.End()
	if reason != "" {
		c.lost.WithLabelValues(c.with(s.labels, reason)...).Inc()
	}
	c.hold.WithLabelValues(c.with(s.labels, end)...).Observe(e.Held.Seconds())
}

// lostReasons are the reasons of losses: those of a LostError, that the client was closed, and any that is
// not known here.
var lostReasons = []string{
	string(mortise.LostExpired), string(mortise.LostTaken), string(mortise.LostForced), string(mortise.LostUnreachable), "closed", overflow,
}
