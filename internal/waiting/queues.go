package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// Queues has the wait queues of a client, and what it knows of the others who want the same. Client.Mu guards it.
type Queues struct {
	*lease.Client
	departures departures
	rechecks   rechecks

	queues   map[lease.Place]*queue
	asking   map[lease.Place]struct{}         // places with a request that asks without queueing
	idle     map[lease.Place]idleSubscription // channels kept open after their last waiter
	sharing  sharings                         // what is known of Redisson's use of locks
	sweeper  *time.Timer                      // closes idle channels; deletes old entries of sharing, deaf and met
	swept    time.Time                        // when sweeper fires; zero if it is not set
	deaf     map[lease.Place]deafness         // channels of this client on which messages were lost
	met      map[lease.Place]time.Time        // when another client was last met at a lock
	lastWait uint64                           // the serial number of the last wait
}

// New returns the queues of c, which is attached to them.
func New(c *lease.Client) *Queues {
	qs := &Queues{
		Client: c, queues: make(map[lease.Place]*queue), asking: make(map[lease.Place]struct{}), idle: make(map[lease.Place]idleSubscription),
		deaf: make(map[lease.Place]deafness), met: make(map[lease.Place]time.Time),
	}
	qs.sharing = sharings{qs, make(map[string]*sharing)}
	c.Attach(qs)
	return qs
}

// QueuesOf returns the queues of c.
func QueuesOf(c *lease.Client) *Queues { return c.Waiters().(*Queues) }

// Acquired implements [lease.Waiters]. It wakes the waiters of the same owner, for this lock and for its other side: they can enter now,
// or must fail.
func (qs *Queues) Acquired(l *lease.Lease, alone bool) {
	at := SiteOf(l.Lock)
	qs.had(l)
	at.heard()
	if alone {
		return
	}
	at.WakeOwner(l.Owner())
	if other := at.Other(); other != at.Place {
		Site{qs, other}.WakeOwner(l.Owner())
	}
}

// Freed implements [lease.Waiters]. It wakes the first waiter of this client to ask for the lock.
func (qs *Queues) Freed(l *lease.Lease) {
	if q := SiteOf(l.Lock).queue(); q != nil {
		if q.freed = qs.Time(time.Now()); q.claimant() == "" { // else the release calls it, when it is its turn
			q.head.Signal()
		}
	}
}

// Turns implements [lease.Waiters].
func (qs *Queues) Turns(k *lease.Lock, row int) script.Turns {
	if !k.Traits().Turns {
		if SiteOf(k).Claims() {
			_, keep := qs.shares(k)
			return script.Turns{Keep: keep}
		}
		return script.Turns{}
	}
	t := script.Turns{Command: qs.Conn().TurnCommand(), Row: row}
	qs.share(k, &t)
	return t
}

// Passed implements [lease.Waiters].
func (qs *Queues) Passed(k *lease.Lock, freed script.Freed) {
	if freed.Again > 0 {
		qs.recheckAfter(k, freed.Again)
	}
	if k.Traits().Pause != nil {
		qs.spinOn(k)
	}
	switch freed.Released {
	case script.ReleasedLeft:
		qs.left(k)
	case script.ReleasedGranted:
		qs.granted(k)
	}
}

// Count implements [lease.Waiters].
func (qs *Queues) Count() (waiters, queues int) {
	for _, q := range qs.queues {
		waiters += q.length
	}
	return waiters, len(qs.queues)
}

// End implements [lease.Waiters].
func (qs *Queues) End() {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	if qs.sweeper != nil {
		qs.sweeper.Stop()
	}
	for _, q := range qs.queues {
		for w := q.head; w != nil; w = w.next {
			w.Signal()
		}
	}
}
