package lease

import (
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// Emit passes an event to the observer, if there is one. It must not be called with a mutex locked.
func (c *Client) Emit(e outcome.Event) {
	if c.config.Observe != nil {
		c.config.Observe(e)
	}
}

// gapEvery is how long after the report of an interruption others belong to the same: all channels
// of a connection are interrupted at once.
const gapEvery = 100 * time.Millisecond

// gap reports that a subscription was interrupted.
func (c *Client) gap() {
	now := int64(c.Time(time.Now()))
	last := c.lastGap.Load()
	known := last != 0 && now-last < int64(gapEvery)
	if !known && c.lastGap.CompareAndSwap(last, now) {
		c.Counters.gaps.Add(1)
		c.Emit(outcome.Event{Type: outcome.EventGap})
		c.watchdog.Hurry() // a server that was away may be another one
	}
}

// mute reports, once, that the server has no messages.
func (c *Client) mute(err error) {
	if !c.muted.Swap(true) {
		c.Emit(outcome.Event{Type: outcome.EventMute, Err: err})
	}
}

// paused returns what reports that the process stood still; nil if there is no observer.
func (c *Client) paused() func(time.Duration) {
	if c.config.Observe == nil {
		return nil
	}
	return func(d time.Duration) { c.Emit(outcome.Event{Type: outcome.EventPaused, Pause: d}) }
}

// Stats are the numbers of a client, which package mortise documents.
type Stats struct {
	Held       int
	Waiting    int
	Queues     int
	Acquired   uint64
	Refused    uint64
	Granted    uint64
	HandedOff  uint64
	Lost       uint64
	Renewed    uint64
	Failed     uint64
	Gaps       uint64
	Records    uint64
	Unrecorded uint64
}

// counters count what happened since the client was made.
type counters struct {
	acquired, refused, Granted, HandedOff, lost, renewed, failed, gaps, Records, Unrecorded atomic.Uint64
}

// Count counts a call that has failed with err, or succeeded.
func (n *counters) Count(err error) {
	if err != nil {
		n.refused.Add(1)
	} else {
		n.acquired.Add(1)
	}
}

// Stats returns the numbers of the client.
func (c *Client) Stats() Stats {
	n := &c.Counters
	s := Stats{
		Acquired: n.acquired.Load(), Refused: n.refused.Load(), Granted: n.Granted.Load(), HandedOff: n.HandedOff.Load(),
		Lost: n.lost.Load(), Renewed: n.renewed.Load(), Failed: n.failed.Load(), Gaps: n.gaps.Load(),
		Records: n.Records.Load(), Unrecorded: n.Unrecorded.Load(),
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, leases := range c.held {
		s.Held += len(leases)
	}
	s.Waiting, s.Queues = c.waiters.Count()
	return s
}
