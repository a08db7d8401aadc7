package mortise

import "time"

// A waiter is one goroutine that waits for a lock. What it does next depends on
// nothing but what it sees of its place, and on why it looks. So decide is pure,
// and one loop runs it for every lock; see [sleeper].

// position is where a waiter stands among those of its client.
type position uint8

const (
	behind  position = iota // others of this client are before it
	first                   // it may ask Redis, in the name of the client
	granted                 // it is the first, and a release has granted the lock to the client
	handed                  // a goroutine of this client has handed its lease to it
)

// occupancy is what keeps a waiter from asking Redis inside its own process.
type occupancy uint8

const (
	unoccupied occupancy = iota
	asking               // another goroutine asks; if it is refused, it goes first
	occupied             // another goroutine holds the lock
)

// cause is why a waiter looks.
type cause uint8

const (
	started  cause = iota // it has not slept yet
	woken                 // by another goroutine of this client
	notified              // by a message
	elapsed               // the time to sleep is over
	asked                 // it has not slept since Redis refused the lock: there is no reason to ask again
)

// view is what a waiter sees.
type view struct {
	position  position
	occupancy occupancy
	bypass    bool      // it need not be first: what its owner holds lets it in
	called    bool      // the same, for once: it was told to ask
	notBefore time.Time // others have the first chance to take the lock until then
	cause     cause
}

// action is what a waiter does next.
type action uint8

const (
	sleepBehind   action = iota // until it is woken
	sleepYielding               // until notBefore
	sleepOccupied               // until the goroutine in the way is done, or for a poll
	sleepRefused                // until a message, or for a poll
	askFirst                    // with the client's turn
	askBypassing                // for itself
	acceptGrant
	acceptHandoff
)

// decide returns what a waiter does next.
func decide(v *view, now time.Time) action {
	switch v.position {
	case handed:
		return acceptHandoff
	case granted:
		return acceptGrant
	case behind:
		if v.called || v.bypass && v.cause != asked {
			return askBypassing
		}
		return sleepBehind
	}
	switch {
	case v.cause == asked:
		return sleepRefused
	case v.cause != elapsed && now.Before(v.notBefore):
		return sleepYielding
	case v.occupancy == unoccupied, v.occupancy == occupied && v.cause == elapsed:
		return askFirst
	default:
		return sleepOccupied
	}
}
