package mortise

import (
	"context"
	"time"
)

// traits are what is special about a kind of lock, its scripts aside. A kind declares
// them once, and all of its locks share them, so they must not be changed. The zero
// value of a field is what most kinds have.
type traits struct {
	use use // what a name is used for

	turns     bool // its waiting clients take turns in Redis; only for what lies in the hash of a Lock
	grantable bool // a release by another client may give it to one that waits
	handsOff  bool // a released lease may go to a goroutine of the client that waits for a lock with the same traits
	batched   bool // one script can take several of them, and one release them
	numbered  bool // every holder draws a fencing token
	unowned   bool // its leases have no owner: the holder of one may take another
	partial   bool // when a lease was lost, a part of it may be left in Redis
	claims    bool // the first waiter of each client leaves a claim in Redis, since the others do not ask

	mark  string        // what the ids of its leases end with
	guard time.Duration // how often its leases are looked after at least; 0 if they need not be

	// pause makes waiters look again after the n-th refusal (from 0) and a pause,
	// instead of listening.
	pause func(n int) time.Duration

	// draw returns the id of a new lease, where that is not one of the client's.
	draw func(k *locker) string

	// permits returns the ids of the permits of which the id of a lease consists.
	permits func(id string) []string

	// beside returns the scripts with which o asks, and whether o need not queue,
	// given its other leases. It fails if they would keep o out forever.
	beside func(k *locker, o *owner) (ask ops, past bool, err error)

	// wait returns a hold as soon as it is r's turn, where the queue of the waiters is
	// in Redis.
	wait func(ctx context.Context, r *request) (*Hold, error)

	flaw error // what is wrong with how this lock was asked for
}

// flawed makes k a lock that cannot be used.
func (k *locker) flawed(err error) {
	t := *k.traits
	t.flaw = err
	k.traits = &t
}
