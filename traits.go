package mortise

import (
	"context"
	"time"
)

// traits are the properties of a kind of lock, apart from its scripts. A kind declares
// them once, and all of its locks share them, so they must not be changed. The zero
// value of a field is that of most kinds.
type traits struct {
	use use // what a name is used for

	turns     bool // its waiting clients take turns in Redis; only for kinds in the hash of a Lock
	grantable bool // a release may grant it to a waiting client
	handsOff  bool // a released lease may be handed off to a waiter with the same traits
	batched   bool // one script can acquire several of them, and one release them
	numbered  bool // each holder draws a fencing token
	unowned   bool // its leases have no owner: the holder of one may acquire another
	partial   bool // a part of a lost lease may be left in Redis
	claims    bool // the first waiter of a client leaves a claim in Redis, as the others do not ask

	mark  string        // suffix of the ids of its leases
	guard time.Duration // how often its leases are checked at least; 0 if they need not be

	// pause returns how long a waiter pauses after the n-th refusal, counted from 0,
	// before it asks again. Such a waiter does not listen.
	pause func(n int) time.Duration

	// draw returns the id of a new lease, if that is not one of the client's.
	draw func(k *locker) string

	// permits splits the id of a lease into the ids of its permits.
	permits func(id string) []string

	// beside returns the scripts with which o asks, and whether o need not queue,
	// given its other leases. It fails if they would keep o out forever.
	beside func(k *locker, o *owner) (ask ops, past bool, err error)

	// wait blocks until r has a hold, if its waiters queue in Redis.
	wait func(ctx context.Context, r *request) (*Hold, error)

	flaw error // what is wrong with how this lock was asked for
}

// flawed makes k a lock that cannot be used.
func (k *locker) flawed(err error) {
	t := *k.traits
	t.flaw = err
	k.traits = &t
}
