package mortise

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// Observer receives the events of a client, for logs, metrics and traces. [Options.Logger]
// is one for logs; the modules mortiseotel and mortiseprom have others. [Observers] makes one of several.
//
// Observe is called in the goroutine in which the event happened, and delays it: it must
// be quick, must not call methods of the client, must not panic, and must be safe for concurrent use. A
// panic on the way to a lock leaves the lock without a hold that could release it. Without
// an observer, events cost nothing; with one, each acquisition costs one allocation more, or five if
// it waits.
type Observer interface {
	Observe(e Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(e Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// Linker is an [Observer] that knows a text by which others can refer to a hold, such as the
// traceparent of its span. The client's record in Redis has that text, so that the waiters of
// other processes get it in [Blocker.Link].
//
// Link is called with the [Event.Call] of an acquisition that has succeeded, in a goroutine of
// its own. It may return an empty text. More than 128 bytes are not written.
type Linker interface {
	Observer
	Link(call uint64) string
}

// Observers returns an observer that passes each event to all of them, in this order. It is a
// [Linker] if one of them is; its text is the first that one of them knows.
func Observers(all ...Observer) Observer {
	o := observers(slices.Clone(all))
	for _, one := range o {
		if _, ok := one.(Linker); ok {
			return linkers{o}
		}
	}
	return o
}

type observers []Observer

// Observe passes e to each of them.
func (o observers) Observe(e Event) {
	for _, one := range o {
		one.Observe(e)
	}
}

// linkers are observers of which one at least is a [Linker].
type linkers struct{ observers }

// Link returns the first text that one of them knows.
func (o linkers) Link(call uint64) string {
	for _, one := range o.observers {
		if linker, ok := one.(Linker); ok {
			if text := linker.Link(call); text != "" {
				return text
			}
		}
	}
	return ""
}

// EventType says what happened.
type EventType string

// The events. Those of one acquisition have the same [Event.Call].
const (
	// EventWaiting: a call has begun to wait for other owners.
	EventWaiting EventType = "waiting"
	// EventAcquired: a call has acquired a lock, and [Event.How] says in which way.
	EventAcquired EventType = "acquired"
	// EventRefused: a call has failed, with [Event.Err]: others have the lock, its wait
	// was over, Redis cannot be reached, or any other error.
	EventRefused EventType = "refused"
	// EventRenewed: Redis has confirmed [Event.Leases] leases, in one renewal.
	// [Event.Margin] is for how long the most urgent of them would have been trusted
	// without it, and [Event.Lock] its name.
	EventRenewed EventType = "renewed"
	// EventRenewalFailing: a renewal of [Event.Leases] leases has failed with [Event.Err].
	// [Event.Margin] is for how long the most urgent of them is still trusted. It comes
	// before EventLost, unless the process stood still.
	EventRenewalFailing EventType = "renewal_failing"
	// EventLost: a hold was lost. [Event.Err] matches [ErrLost], or [ErrClosed] if the
	// client was closed under it.
	EventLost EventType = "lost"
	// EventReleased: a hold was released, which took effect, or went on in the background
	// if [Event.Err] is not nil.
	EventReleased EventType = "released"
	// EventResolved: an acquisition whose reply was lost and that nobody wants any more, or a
	// lease that was lost, is certainly not in Redis.
	EventResolved EventType = "resolved"
	// EventGap: a subscription was interrupted and is confirmed again: messages in between
	// were missed, and waiters have asked instead.
	EventGap EventType = "gap"
	// EventPassedOver: [Event.Passed] waiters of a fair lock that gave no sign of life were
	// passed over, by a request of this client.
	EventPassedOver EventType = "passed_over"
	// EventPaused: the process stood still for [Event.Pause], or up to a quarter of a second
	// longer, while it held locks: it was stopped, swapped out, or its machine was suspended
	// or overloaded.
	EventPaused EventType = "paused"
	// EventDeadlock: waiters wait for each other in a cycle, to which [Event.Call]
	// belongs. [Event.Err] is the *[DeadlockError] that names them.
	EventDeadlock EventType = "deadlock"
	// EventAsked: a holder was asked to release its lock. [Event.Err] is the *[RevokedError].
	EventAsked EventType = "asked"
	// EventMute: Redis, or a proxy before it, has refused a subscription, and not for want of a right: [Event.Err] says how. Waiters of
	// the client find out by asking, about once a second. It comes once for each client.
	EventMute EventType = "mute"
)

// How says in which way a lock was acquired.
type How string

// The ways to acquire a lock.
const (
	HowFree      How = "free"       // it was free when the call, or its waiter, asked Redis
	HowGranted   How = "granted"    // the release of another client granted it
	HowHandedOff How = "handed_off" // another goroutine of this client handed it off
	HowReentered How = "reentered"  // the owner held it already
)

// Event is something that happened in a client. Fields that do not apply are zero.
type Event struct {
	Type EventType
	Lock string // the name, without [Options.Prefix]; of a MultiLock all names
	Kind string // the kind of object that was acquired, such as "lock" or "rwlock.read"
	// Call is the number of the acquisition that the event belongs to; 0 if it belongs to none.
	// No two acquisitions of a process have the same, whatever their clients.
	Call uint64
	// Context is that of the call that acquires the lock. It is nil for events that belong
	// to no call. It must not be kept longer than the span that begins with it.
	Context context.Context
	Owner   string // the id of the owner in Redis, if it has the lock
	Token   int64  // the fencing token of what was acquired
	How     How

	Waited time.Duration // how long the call took until it had acquired the lock, or had failed
	Held   time.Duration // how long the hold lasted, of EventReleased and EventLost
	Margin time.Duration // see EventRenewed and EventRenewalFailing
	Pause  time.Duration // see EventPaused
	Leases int           // see EventRenewed and EventRenewalFailing
	Passed int           // see EventPassedOver
	Queued bool          // the call has waited for other owners: EventWaiting came before

	// Blocker is the holder that an acquired lock was waited for last, as far as its record
	// was read: after about a quarter of a second of waiting.
	Blocker *Blocker
	Err     error
}

// Outcome returns what became of the call of an EventAcquired or EventRefused, as one of few words for
// the label of a metric:
//
//	acquired  it has what it asked for
//	locked    other owners have it, and the call does not wait
//	timeout   its wait was over, and other owners have it
//	canceled  its context was canceled
//	deadlock  its wait was ended because it was part of a deadlock
//	error     anything else, such as no answer of Redis
//
// It returns "" for other events.
func (e *Event) Outcome() string {
	is := func(target error) bool { return errors.Is(e.Err, target) }
	switch {
	case e.Type == EventAcquired:
		return "acquired"
	case e.Type != EventRefused:
		return ""
	case is(ErrDeadlock):
		return "deadlock"
	case is(ErrClosed), is(ErrNotSet):
		return "error"
	case is(context.Canceled):
		return "canceled"
	case is(ErrUnreachable):
		return "error"
	case is(context.DeadlineExceeded):
		return "timeout"
	case !is(ErrLocked) && !is(ErrNoPermits) && !is(ErrMissing):
		return "error"
	case e.Queued:
		return "timeout"
	}
	return "locked"
}

// End returns how the hold of an EventReleased or EventLost has ended, as one of few words for the label
// of a metric: "released"; "expired", at its MaxHold; or "lost". Of one that was not released, reason is
// that of the [LostError], "closed" if the client was closed under it, or "other". A hold whose release is
// the first to notice that it was lost was lost. End returns "" for other events.
func (e *Event) End() (end, reason string) {
	if e.Type != EventReleased && e.Type != EventLost {
		return "", ""
	}
	lost, known := errors.AsType[*LostError](e.Err)
	switch {
	case known && lost != nil && lost.Reason == LostExpired:
		return string(LostExpired), string(LostExpired)
	case known && lost != nil && slices.Contains([]LostReason{LostTaken, LostForced, LostUnreachable}, lost.Reason):
		return "lost", string(lost.Reason)
	case e.Type == EventReleased && !errors.Is(e.Err, ErrLost):
		return "released", ""
	case errors.Is(e.Err, ErrClosed):
		return "lost", "closed"
	}
	return "lost", "other"
}

// Blocker is a holder that made a call wait.
type Blocker struct {
	Holder
	Link string // from the [Linker] of its process; may have been written by anybody
}

// hows are the ways that the core knows.
var hows = [...]How{
	outcome.HowFree: HowFree, outcome.HowGranted: HowGranted, outcome.HowHandedOff: HowHandedOff, outcome.HowReentered: HowReentered,
}

// eventTypes are the events that the core knows.
var eventTypes = [...]EventType{
	outcome.EventWaiting: EventWaiting, outcome.EventAcquired: EventAcquired, outcome.EventRefused: EventRefused,
	outcome.EventRenewed: EventRenewed, outcome.EventRenewalFailing: EventRenewalFailing, outcome.EventLost: EventLost,
	outcome.EventReleased: EventReleased, outcome.EventResolved: EventResolved, outcome.EventGap: EventGap,
	outcome.EventPassedOver: EventPassedOver, outcome.EventPaused: EventPaused, outcome.EventDeadlock: EventDeadlock,
	outcome.EventAsked: EventAsked, outcome.EventMute: EventMute,
}

// observe returns a function that passes the core's events to the observers of the options; nil if there are none.
func (o *Options) observe() func(outcome.Event) {
	var all []Observer
	if o.Logger != nil {
		all = append(all, logger{o.Logger})
	}
	if o.Observer != nil {
		all = append(all, o.Observer)
	}
	if len(all) == 0 {
		return nil
	}
	return func(e outcome.Event) {
		told := event(e)
		for _, one := range all {
			one.Observe(told)
		}
	}
}

// event returns an event of the core as observers know it.
func event(e outcome.Event) Event {
	told := Event{
		Type: eventTypes[e.Type], Lock: e.Lock, Kind: e.Kind, Call: e.Call, Context: e.Context, Owner: e.Owner, Token: e.Token,
		Waited: e.Waited, Held: e.Held, Margin: e.Margin, Pause: e.Pause, Leases: e.Leases, Passed: e.Passed, Queued: e.Queued, Err: e.Err,
	}
	if e.Type == outcome.EventAcquired {
		told.How = hows[e.How]
	}
	if b := e.Blocker; b != nil {
		told.Blocker = &Blocker{Holder{Owner: b.Owner, Count: 1, Client: clientInfo(b.Record), Since: b.Since()}, b.Link()}
	}
	return told
}
