package lease

import (
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Traits are the properties of a kind of lock, apart from its scripts. A kind declares
// them once, and all of its locks share them, so they must not be changed. The zero
// value of a field is that of most kinds.
type Traits struct {
	Use  Use    // what a name is used for
	Kind string // as observers and records call it

	Turns     bool // its waiting clients take turns in Redis; only for kinds in the hash of a plain lock
	Grantable bool // a release may grant it to a waiting client
	HandsOff  bool // a released lease may be handed off to a waiter with the same traits
	Keeps     bool // a release can leave it taken for a while; then its Ops are a keeper
	Batched   bool // one script can acquire several of them, and one release them
	Numbered  bool // each holder draws a fencing token
	Unowned   bool // its leases have no owner: the holder of one may acquire another
	Parted    bool // it is a lock on a part of what the name has; then its Ops are parted
	Partial   bool // a part of a lost lease may be left in Redis

	Mark  string        // suffix of the ids of its leases
	Guard time.Duration // how often its leases are checked at least; 0 if they need not be

	// Leave names the method that releases its holds, if [Hold.Unlock] must not.
	Leave string

	// Pause returns how long a waiter pauses after the n-th refusal, counted from 0,
	// before it asks again. Such a waiter does not listen.
	Pause func(n int) time.Duration

	// Draw returns the id of a new lease, if that is not one of the client's.
	Draw func(o Ops) string

	// Permits splits the id of a lease into the ids of its permits.
	Permits func(id string) []string

	// Wanted returns how many permits a request is for. It is nil for a lock.
	Wanted func(o Ops) int

	// Admission returns the scripts with which o asks, and whether o need not queue,
	// given its other leases. It fails if they would keep o out forever.
	Admission func(k *Lock, o *Owner) (ask Ops, past bool, err error)

	// Queue returns the scripts of the lock's wait queue in Redis. It is nil if its
	// waiters queue only inside their clients.
	Queue func(o Ops) *script.FairLock

	Flaw error // what is wrong with how this lock was asked for
}
