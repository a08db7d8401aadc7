package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
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
const metFor = 2 * outcome.Poll

// meet notes that another client takes part in the lock. It must be called with Client.Mu held.
func (s Site) meet() {
	if _, ok := s.Queues.met[s.Place]; !ok { // else there is a sweep already
		s.Queues.sweepWithin(metFor)
	}
	s.Queues.met[s.Place] = time.Now()
}

// meetHolder notes that owner has the lock. It must be called with Client.Mu held.
func (s Site) meetHolder(owner string) {
	if script.ClientOf(owner) != s.Queues.ID() {
		s.meet()
	}
}

// granted notes that a release of this client has granted the lock to another one.
func (qs *Queues) granted(k *lease.Lock) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	SiteOf(k).meet()
}

// alone reports whether nobody but this client is known to take part in the lock of l. It must be
// called with Client.Mu held.
func (qs *Queues) alone(l *lease.Lease, now time.Time) bool {
	if at, ok := qs.met[l.Place()]; ok && now.Sub(at) < metFor {
		return false
	}
	return l.Traits().Pause == nil && (len(qs.sharing.of) == 0 || qs.sharing.shared(sharedAs(l.Lock)) == nil)
}
