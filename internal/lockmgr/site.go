package lockmgr

import "time"

// site is a place at one client.
type site struct {
	client *Client
	place
}

// site returns what k contends for inside its client.
func (k *Lock) site() site { return site{k.client, k.place()} }

// queue returns the wait queue, or nil. It must be called with Client.mu held.
func (s site) queue() *queue { return s.client.queues[s.place] }

// reserve reports whether no goroutine of this client holds the place, waits for it or asks
// for it. If so, the caller may ask Redis without queueing, and must call unreserve
// afterwards; all other goroutines queue behind it. If the place is shared, only waiters
// are in the way. If the caller has to queue after all, joinAsked takes what reserve returned.
func (s site) reserve() (before uint64, ok bool) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.wanted() {
		return 0, false
	}
	if !s.shared() {
		c.asking[s.place] = struct{}{}
	}
	return c.lastWait, true
}

// wanted reports whether a goroutine of this client waits for the place or, unless it is
// shared, holds it or asks for it. It must be called with Client.mu held.
func (s site) wanted() bool { return s.queue() != nil || s.occupied() != unoccupied }

func (s site) unreserve() {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, s.place)
	if q := s.queue(); q != nil {
		q.head.signal()
	}
}

// join adds w to the queue: at the end, or in front of all waiters that came while it
// asked.
func (s site) join(w *waiter, front bool) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.enqueue(w, front)
}

// joinAsked is join for a waiter that has asked since reserve returned before. Others may have come and gone meanwhile: then
// the client listens already, and what it heard after the answer to w was for them, so w asks again.
func (s site) joinAsked(w *waiter, front bool, before uint64) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	idle, ok := s.client.idle[s.place]
	missed := ok && s.queue() == nil && idle.last > before
	if s.enqueue(w, front); missed {
		w.signal()
	}
}

// enqueue puts w into the queue. It must be called with Client.mu held.
func (s site) enqueue(w *waiter, front bool) {
	w.rest()
	if w.came == 0 {
		s.client.lastWait++
		w.came, w.serial = max(s.client.time(time.Now()), 1), s.client.lastWait
	}
	s.client.recorder.changed()
	q := s.client.queues[s.place]
	if q == nil {
		q = &queue{client: s.client, place: s.place}
		if classes[s.use].Queued {
			q.fair = newFairQueue(q)
		}
		s.client.queues[s.place] = q
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

// leave removes w from the queue. If w was the head, it wakes the next waiter, unless there
// is no reason to ask. It returns a lease that was handed to w but not accepted.
func (s site) leave(w *waiter) (handed *Lease) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	q := w.in
	if q == nil {
		handed, w.handed = w.handed, nil
		return handed
	}
	wasHead := q.head == w
	if q.dequeue(w); wasHead && q.head != nil && (s.occupied() == unoccupied || q.fair.owesHeartbeat()) {
		q.head.signal()
	}
	return nil
}

// occupied returns what is in the way inside this client. It must be called with Client.mu
// held.
func (s site) occupied() occupancy {
	c := s.client
	_, asks := c.asking[s.place]
	switch {
	case s.shared():
		return unoccupied
	case asks:
		return othersAsk
	case c.held.at(s.place) != nil:
		return occupied
	}
	return unoccupied
}

// listen returns the notifications for the head of the queue, all on the common channel, and
// opens the subscription if necessary.
func (s site) listen(channel string) (own, all <-chan struct{}, err error) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	q := s.queue()
	if q == nil {
		return nil, nil, nil
	}
	if q.listener == nil {
		q.listener = s.client.hub.Listen(channel, subscribeMode(s.client.conn))
	}
	return nil, q.listener.Hints(), q.listener.Refused()
}

// wakeOwner wakes the waiters of o for the place and for its twin. It must be called with
// Client.mu held.
func (s site) wakeOwner(o *Owner) {
	for _, at := range [...]place{s.place, s.twin()} {
		if q := s.client.queues[at]; q != nil {
			for w := q.head; w != nil; w = w.next {
				if w.owner == o {
					w.signal()
				}
			}
		}
	}
}

// admit makes all waiters ask, because one of them has acquired the lock, if they need
// not wait for each other.
func (s site) admit() {
	if !classes[s.use].Admits {
		return
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	for w := s.queue().head; w != nil; w = w.next {
		w.call()
	}
}

// lease returns the lease of this client on the place with that id, or nil.
func (s site) lease(id string) *Lease {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if l := s.client.held.at(s.under(id)); l != nil && l.place() == s.place && l.id == id {
		return l
	}
	return nil
}
