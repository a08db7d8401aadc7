package outcome

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/record"
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
	Record *record.Client
}

// Since returns since when it has the lock, by Redis' clock; zero if that is not known.
func (b *Blocker) Since() time.Time { return b.Record.Since(b.Owner) }

// Link returns the text by which its process refers to its hold.
func (b *Blocker) Link() string {
	if h := b.Record.Hold(b.Owner); h != nil {
		return h.Link
	}
	return ""
}
