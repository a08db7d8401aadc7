package waiting

import "time"

// A waiter is one goroutine that waits for a lock. Its next action depends only on its
// view of the place. So decide is pure, and one loop runs it; see
// [Sleeper].

// position is the position of a waiter among those of its client.
type position uint8

const (
	Behind    position = iota // other waiters of this client are before it
	First                     // it may ask Redis on behalf of the client
	granted                   // it is the first, and a release has granted the lock to the client
	handedOff                 // a goroutine of this client has handed its lease to it
	Gone                      // another waiter has ended its wait
)

// occupancy is what keeps a waiter from asking Redis inside its own process.
type occupancy uint8

const (
	unoccupied occupancy = iota
	othersAsk            // another goroutine asks Redis; if it is refused, it comes first
	occupied             // another goroutine holds the lock
)

// pass is why a waiter need not be the first to ask Redis.
type pass uint8

const (
	inOrder   pass = iota // it must be the first
	besideOwn             // its owner holds something that lets it in
	called                // this once: it was notified to ask
)

// Cause is why a waiter is awake.
type Cause uint8

const (
	Started  Cause = iota // it has not slept yet
	Woken                 // by another goroutine of this client
	Notified              // by a message
	Elapsed               // the time to sleep is over
	Asked                 // it has not slept since a refusal: there is no reason to ask again
)

// view is what the next action of a waiter depends on.
type view struct {
	position  position
	occupancy occupancy
	pass      pass
	notBefore time.Time // others have the first chance to acquire the lock until then
	cause     Cause
}

// action is what a waiter does next.
type action uint8

const (
	sleepBehind   action = iota // until it is woken
	sleepYielding               // until notBefore
	sleepOccupied               // until the goroutine in the way is done, or for a poll
	sleepRefused                // until a notification, or for a poll
	askFirst                    // with the client's turn
	askBypassing                // without the client's turn
	acceptGrant
	acceptHandoff
)

// decide returns the next action of a waiter.
func decide(v *view, now time.Time) action {
	switch v.position {
	case handedOff:
		return acceptHandoff
	case granted:
		return acceptGrant
	case Behind:
		if v.pass == called || v.pass == besideOwn && v.cause != Asked {
			return askBypassing
		}
		return sleepBehind
	}
	switch {
	case v.cause == Asked:
		return sleepRefused
	case v.cause != Elapsed && now.Before(v.notBefore):
		return sleepYielding
	case v.occupancy == unoccupied, v.occupancy == occupied && v.cause == Elapsed:
		return askFirst
	default:
		return sleepOccupied
	}
}
