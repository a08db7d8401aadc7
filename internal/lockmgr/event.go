package lockmgr

import (
	"context"
	"sync/atomic"
	"time"
)

// EventType says what happened. Package mortise documents the events.
type EventType uint8

// The events.
const (
	EventWaiting EventType = iota
	EventAcquired
	EventRefused
	EventRenewed
	EventRenewalFailing
	EventLost
	EventReleased
	EventResolved
	EventGap
	EventPassedOver
	EventPaused
	EventDeadlock
	EventAsked
	EventMute
)

// How says in which way a lock was acquired.
type How uint8

// The ways to acquire a lock.
const (
	HowFree How = iota
	HowGranted
	HowHandedOff
	HowReentered
)

// String returns the way as it is recorded.
func (h How) String() string {
	return [...]string{HowFree: "free", HowGranted: "granted", HowHandedOff: "handed_off", HowReentered: "reentered"}[h]
}

// Event is something that happened in a client.
type Event struct {
	Type    EventType
	How     How
	Queued  bool
	Lock    string
	Kind    string
	Owner   string
	Call    uint64
	Token   int64
	Leases  int
	Passed  int
	Waited  time.Duration
	Held    time.Duration
	Margin  time.Duration
	Pause   time.Duration
	Context context.Context
	Blocker *Blocker
	Err     error
}

// Blocker is the holder that a call waited for.
type Blocker struct {
	Owner  string
	Record *Record
}

// Since returns since when it has the lock, by Redis' clock; zero if that is not known.
func (b *Blocker) Since() time.Time { return b.Record.Since(b.Owner) }

// Link returns the text by which its process refers to its hold.
func (b *Blocker) Link() string {
	if h := b.Record.hold(b.Owner); h != nil {
		return h.Link
	}
	return ""
}

// tell passes an event to the observer, if there is one. It must not be called with a mutex locked.
func (c *Client) tell(e Event) {
	if c.config.Observe != nil {
		c.config.Observe(e)
	}
}

// gapEvery is how long after the report of an interruption others belong to the same: all channels
// of a connection are interrupted at once.
const gapEvery = 100 * time.Millisecond

// gap reports that a subscription was interrupted.
func (c *Client) gap() {
	now := int64(c.time(time.Now()))
	last := c.lastGap.Load()
	known := last != 0 && now-last < int64(gapEvery)
	if !known && c.lastGap.CompareAndSwap(last, now) {
		c.counters.gaps.Add(1)
		c.tell(Event{Type: EventGap})
		c.watchdog.Hurry() // a server that was away may be another one
	}
}

// mute reports, once, that the server has no messages.
func (c *Client) mute(err error) {
	if !c.muted.Swap(true) {
		c.tell(Event{Type: EventMute, Err: err})
	}
}

// paused returns what reports that the process stood still; nil if there is no observer.
func (c *Client) paused() func(time.Duration) {
	if c.config.Observe == nil {
		return nil
	}
	return func(d time.Duration) { c.tell(Event{Type: EventPaused, Pause: d}) }
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
	acquired, refused, granted, handedOff, lost, renewed, failed, gaps, records, unrecorded atomic.Uint64
}

// count counts a call that has failed with err, or succeeded.
func (n *counters) count(err error) {
	if err != nil {
		n.refused.Add(1)
	} else {
		n.acquired.Add(1)
	}
}

// Stats returns the numbers of the client.
func (c *Client) Stats() Stats {
	n := &c.counters
	s := Stats{
		Acquired: n.acquired.Load(), Refused: n.refused.Load(), Granted: n.granted.Load(), HandedOff: n.handedOff.Load(),
		Lost: n.lost.Load(), Renewed: n.renewed.Load(), Failed: n.failed.Load(), Gaps: n.gaps.Load(),
		Records: n.records.Load(), Unrecorded: n.unrecorded.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, leases := range c.held {
		s.Held += len(leases)
	}
	s.Queues = len(c.queues)
	for _, q := range c.queues {
		s.Waiting += q.length
	}
	return s
}
