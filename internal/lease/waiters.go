package lease

import "github.com/mortise-go/mortise/internal/script"

// Waiters are the goroutines of a client that wait for what its leases keep. A lease knows them only by this.
type Waiters interface {
	// HandOff hands l, whose last hold was released, on to the next goroutine that waits for its lock, and reports whether it did. If
	// so, l is released, and Redis knows nothing of it.
	HandOff(l *Lease) bool
	// Acquired notes that the client has l now; alone says that its owner has no other waiters. It is called with Client.Mu held.
	Acquired(l *Lease, alone bool)
	// Freed notes that the client does not have l any more. It is called with Client.Mu held.
	Freed(l *Lease)
	// Turns returns how a release of k passes it to the next client. row is how often in a row it was granted.
	Turns(k *Lock, row int) script.Turns
	// Passed notes what a release of k has come to.
	Passed(k *Lock, freed script.Freed)
	// Count returns how many goroutines wait, and in how many queues. It is called with Client.Mu held.
	Count() (waiters, queues int)
	// End wakes all, because the client is closed.
	End()
}
