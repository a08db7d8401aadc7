package lockmgr

import (
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// A series of hand-offs inside the process keeps other clients from the lock. So it is short while
// another client takes part in it: then each of the goroutines that waited has the lock once. A
// client that has met nobody else for a while keeps the lock for the whole time that a series may
// last, whatever the number of its goroutines. If another client comes meanwhile, it waits for the
// end of that series, and is met then.
//
// A client meets another one when that has the lock, when a release grants the lock to this client,
// and when its own release grants the lock. Redisson's threads are met as sharing.go says.

// metFor is how long another client is believed to take part in a lock after it was last met. One that
// receives no messages asks once in a [poll].
const metFor = 2 * poll

// meet notes that another client takes part in the lock. It must be called with Client.mu held.
func (s site) meet() {
	if _, ok := s.client.met[s.place]; !ok { // else there is a sweep already
		s.client.sweepWithin(metFor)
	}
	s.client.met[s.place] = time.Now()
}

// meetHolder notes that owner has the lock. It must be called with Client.mu held.
func (s site) meetHolder(owner string) {
	if script.ClientOf(owner) != s.client.id {
		s.meet()
	}
}

// granted notes that a release of this client has granted the lock to another one.
func (k *Lock) granted() {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	k.site().meet()
}

// alone reports whether nobody but this client is known to take part in the lock of l. It must be
// called with Client.mu held.
func (l *Lease) alone(now time.Time) bool {
	c := l.client
	if at, ok := c.met[l.place()]; ok && now.Sub(at) < metFor {
		return false
	}
	return l.traits.Pause == nil && (len(c.sharing.of) == 0 || c.sharing.shared(l.sharedAs()) == nil)
}
