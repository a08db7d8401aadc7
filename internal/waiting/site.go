package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/lease"
)

// Site is a place at one client.
type Site struct {
	Queues *Queues
	lease.Place
}

// SiteOf returns what k contends for inside its client.
func SiteOf(k *lease.Lock) Site { return Site{QueuesOf(k.Client()), k.Place()} }

// queue returns the wait queue, or nil. It must be called with Client.Mu held.
func (s Site) queue() *queue { return s.Queues.queues[s.Place] }

// Reserve reports whether no goroutine of this client holds the place, waits for it or asks
// for it. If so, the caller may ask Redis without queueing, and must call unreserve
// afterwards; all other goroutines queue behind it. If the place is shared, only waiters
// are in the way. If the caller has to queue after all, joinAsked takes what reserve returned.
func (s Site) Reserve() (before uint64, ok bool) {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if s.Wanted() {
		return 0, false
	}
	if !s.Shared() {
		c.asking[s.Place] = struct{}{}
	}
	return c.lastWait, true
}

// Wanted reports whether a goroutine of this client waits for the place or, unless it is
// shared, holds it or asks for it. It must be called with Client.Mu held.
func (s Site) Wanted() bool { return s.queue() != nil || s.occupied() != unoccupied }

func (s Site) unreserve() {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	delete(c.asking, s.Place)
	if q := s.queue(); q != nil {
		q.head.Signal()
	}
}

// Join adds w to the queue: at the end, or in front of all waiters that came while it
// asked.
func (s Site) Join(w *Waiter, front bool) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	s.enqueue(w, front)
}

// JoinAsked is join for a waiter that has asked since reserve returned before. Others may have come and gone meanwhile: then
// the client listens already, and what it heard after the answer to w was for them, so w asks again.
func (s Site) JoinAsked(w *Waiter, front bool, before uint64) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	idle, ok := s.Queues.idle[s.Place]
	missed := ok && s.queue() == nil && idle.last > before
	if s.enqueue(w, front); missed {
		w.Signal()
	}
}

// enqueue puts w into the queue. It must be called with Client.Mu held.
func (s Site) enqueue(w *Waiter, front bool) {
	w.rest()
	if w.came == 0 {
		s.Queues.lastWait++
		w.came, w.serial = max(s.Queues.Time(time.Now()), 1), s.Queues.lastWait
	}
	s.Queues.Changed()
	q := s.Queues.queues[s.Place]
	if q == nil {
		q = &queue{client: s.Queues, place: s.Place}
		if s.Use.Class().Queued {
			q.fair = newFairQueue(q)
		}
		s.Queues.queues[s.Place] = q
		q.resume()
	}
	q.retry()
	if front {
		if h := q.head; h != nil && h.state >= asks {
			q.turn.finish() // the attempt under way has the id, and is responsible for it
		} else if h != nil && q.doubts(h) {
			h.request.useID("") // it may be long until h asks again, or leaves
			q.turn.finish()
		}
		q.insert(w, nil)
	} else {
		q.insert(w, q.tail)
	}
}

// Leave removes w from the queue. If w was the head, it wakes the next waiter, unless there
// is no reason to ask. It returns a lease that was handed to w but not accepted.
func (s Site) Leave(w *Waiter) (handed *lease.Lease) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	q := w.in
	if q == nil {
		handed, w.handed = w.handed, nil
		return handed
	}
	wasHead := q.head == w
	if q.dequeue(w); wasHead && q.head != nil && (s.occupied() == unoccupied || q.fair.owesHeartbeat()) {
		q.head.Signal()
	}
	return nil
}

// occupied returns what is in the way inside this client. It must be called with Client.Mu
// held.
func (s Site) occupied() occupancy {
	c := s.Queues
	_, asks := c.asking[s.Place]
	switch {
	case s.Shared():
		return unoccupied
	case asks:
		return othersAsk
	case c.HeldAt(s.Place) != nil:
		return occupied
	}
	return unoccupied
}

// Listen returns the notifications for the head of the queue, all on the common channel, and
// opens the subscription if necessary.
func (s Site) Listen(channel string) (own, all <-chan struct{}, err error) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	q := s.queue()
	if q == nil {
		return nil, nil, nil
	}
	if q.listener == nil {
		q.listener = s.Queues.Hub().Listen(channel, SubscribeMode(s.Queues.Conn()))
	}
	return nil, q.listener.Hints(), q.listener.Refused()
}

// WakeOwner wakes the waiters of o for the place and for its twin. It must be called with
// Client.Mu held.
func (s Site) WakeOwner(o *lease.Owner) {
	for _, at := range [...]lease.Place{s.Place, s.Twin()} {
		if q := s.Queues.queues[at]; q != nil {
			for w := q.head; w != nil; w = w.next {
				if w.owner == o {
					w.Signal()
				}
			}
		}
	}
}

// admit makes all waiters ask, because one of them has acquired the lock, if they need
// not wait for each other.
func (s Site) admit() {
	if !s.Use.Class().Admits {
		return
	}
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	for w := s.queue().head; w != nil; w = w.next {
		w.call()
	}
}

// Mark marks the present waiters: the answer to what the first one asks next holds for all
// of them.
func (s Site) Mark() {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	q := s.queue()
	q.marked = q.tail
}

// Release ends the wait of the waiters that were marked.
func (s Site) Release() {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	q := s.queue()
	for last := q.marked; last != nil && last.in == q; {
		w := q.head
		q.dequeue(w)
		w.Signal()
	}
	if q.head != nil {
		q.head.Signal()
	}
}

// Position returns where w is in the queue: gone, behind or first.
func (s Site) Position(w *Waiter) position {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	switch {
	case w.in == nil:
		return Gone
	case w.in.head == w:
		return First
	}
	return Behind
}
