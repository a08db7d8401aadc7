package mortise

import (
	"time"

	"github.com/mortise-go/mortise/internal/hub"
)

// queue is the wait queue of one client for one place. Only its head asks Redis; the
// other waiters cost Redis nothing. It exists while it has waiters.
//
// Everything here is guarded by Client.mu.
type queue struct {
	head, tail *waiter
	placed     *waiter // the last waiter whose place in Redis is known; those come first
	gated      *waiter // the first waiter that has not asked yet; those come last
	length     int
	spinning   int // number of waiters that pause instead of listening
	turn       turn
	listener   *hub.Listener // opened by the first head that was refused
	heeds      *hub.Listener // of a lock: shows others that the listener is not Redisson's
}

// waiter is one goroutine in a queue. There may be very many, so it is small.
type waiter struct {
	owner      *owner
	request    *request      // accepts leases that are handed off; nil for a waiter that never does
	wake       chan struct{} // capacity 1: look again
	in         *queue        // nil if none; this and the fields below are guarded by Client.mu
	prev, next *waiter
	given      *lease // was handed to the waiter, which is not in the queue any more
	busy       bool   // it asks Redis, so no lease can be handed to it
	asked      bool   // it was told to ask for the lock
	there      bool   // it was waiting when the head began to read the latch
	through    bool   // the latch was open then
	*fairPlace        // of a waiter in a queue in Redis
}

// fairPlace is what a waiter knows about its place in a queue in Redis.
type fairPlace struct {
	id    string    // its name there
	until time.Time // when it gives up; zero if never

	since   queueing  // when it took its place; this and the fields below are guarded by Client.mu
	placed  bool      // its place is known, as far as it can be
	unheard bool      // the client began to listen before its place was known
	nonce   string    // a grant is believed with this nonce only
	former  string    // or with this one, until Redis has answered the attempt that brings nonce
	early   bool      // the grant came with former
	dropped int       // how often it lost its place although it lives
	seen    time.Time // when an attempt last showed that it did not have the lock
	called  bool      // Redis has granted it the lock
}

// spins reports whether w pauses instead of listening.
func (w *waiter) spins() bool { return w.request != nil && w.request.lock.traits.pause != nil }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// arrange moves w, which is in q, behind the waiters that have waited longer, by the
// order in Redis. Waiters whose place there is not known yet come last.
func (q *queue) arrange(w *waiter) {
	q.remove(w)
	before := q.placed
	for before != nil && w.since.before(before.since) {
		before = before.prev
	}
	if q.insert(w, before); before == q.placed {
		q.placed = w
	}
}

// insert puts w behind before, or first if that is nil.
func (q *queue) insert(w, before *waiter) {
	q.length++
	if w.spins() {
		q.spinning++
	} else if q.spinning > 0 {
		q.head.signal() // it may be in a long pause
	}
	w.in = q
	w.prev, w.next = before, q.head
	if before != nil {
		w.next = before.next
		before.next = w
	} else {
		q.head = w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		q.tail = w
	}
}

func (q *queue) remove(w *waiter) {
	q.length--
	if w.spins() {
		q.spinning--
	}
	w.in = nil
	if q.placed == w {
		q.placed = w.prev
	}
	if q.gated == w {
		q.gated = w.next
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
}

// claim reports whether no goroutine of this client holds p, waits for it or asks for
// it. If so, the caller may ask Redis without queueing, and must call unclaim
// afterwards; all other goroutines queue behind it. If p is shared, only waiters are in
// the way.
func (c *Client) claim(p place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queues[p] != nil || c.takenHere(p) {
		return false
	}
	if !p.shared() {
		c.asking[p] = struct{}{}
	}
	return true
}

// takenHere reports whether it is useless to ask Redis, because a goroutine of this
// client holds p or asks for it. It must be called with c.mu held.
func (c *Client) takenHere(p place) bool {
	return c.occupied(p) != unoccupied
}

func (c *Client) unclaim(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, p)
	if q := c.queues[p]; q != nil {
		q.head.signal()
	}
}

// newWaiter returns a waiter that no lease can be handed to.
func newWaiter(o *owner) *waiter { return &waiter{owner: o, wake: make(chan struct{}, 1)} }

// join adds w to the queue for p: at the end, or in front of all waiters that came while
// it asked.
func (c *Client) join(p place, w *waiter, front bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(p, w, front)
}

// rejoin puts w in front again after the lease that it was handed was lost.
func (c *Client) rejoin(p place, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(p, w, true)
}

// enqueue puts w into the queue for p. It must be called with c.mu held.
func (c *Client) enqueue(p place, w *waiter, front bool) {
	w.busy = false
	q := c.queues[p]
	if q == nil {
		q = &queue{}
		c.queues[p] = q
	}
	q.retry()
	if front {
		if q.head != nil && q.head.busy {
			q.turn.over() // the attempt under way has the id, and is responsible for it
		}
		q.insert(w, nil)
	} else {
		q.insert(w, q.tail)
	}
}

// retry closes channels that Redis refused to earlier waiters, so that the head
// subscribes again: the client may have the right to them now. It must be called with
// Client.mu held.
func (q *queue) retry() {
	for _, l := range [...]**hub.Listener{&q.listener, &q.turn.ear} {
		if *l != nil && (*l).Refused() != nil {
			(*l).Close()
			*l = nil
			q.head.signal() // it opens another one
		}
	}
}

// given returns the lease that was handed to w, once.
func (c *Client) given(w *waiter) (l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, w.given = w.given, nil
	return l
}

// leave removes w from the queue for p. If w was the head, it wakes the next waiter,
// unless there is no reason to ask. It returns a lease that was handed to w but not
// accepted.
func (c *Client) leave(p place, w *waiter) (given *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.in == nil {
		given, w.given = w.given, nil
		return given
	}
	q := c.queues[p]
	wasHead := q.head == w
	if c.dequeue(p, q, w); wasHead && q.head != nil && (!c.takenHere(p) || q.turn.due) {
		q.head.signal()
	}
	return nil
}

// dequeue removes w from q, the queue for p. It must be called with c.mu held.
func (c *Client) dequeue(p place, q *queue, w *waiter) {
	if r := w.request; q.head == w && r != nil && r.doubt && q.turn.id == r.id {
		q.turn.over() // the request in doubt is responsible for it
	}
	q.remove(w)
	if q.head == nil {
		delete(c.queues, p)
		for _, l := range [...]*hub.Listener{q.listener, q.heeds} {
			if l != nil {
				l.Close()
			}
		}
		c.dismissed(p, &q.turn)
	}
}

// see sets v to what w sees of its place.
func (c *Client) see(w *waiter, v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*v = view{}
	q := w.in
	switch {
	case w.given != nil:
		v.position = handed
	case q == nil || q.head != w:
		v.called = w.asked
	case q.turn.given:
		v.position = granted
	default:
		k := w.request.lock
		v.position, v.occupancy, v.notBefore = first, c.occupied(k.place), c.after(k)
	}
}

// occupied returns what is in the way at p inside this client. It must be called with
// c.mu held.
func (c *Client) occupied(p place) occupancy {
	_, asks := c.asking[p]
	switch {
	case p.shared():
		return unoccupied
	case asks:
		return asking
	case c.held.at(p) != nil:
		return occupied
	}
	return unoccupied
}

// hasCome reports whether w was notified that Redis has granted it the lock. w may be
// nil.
func (c *Client) hasCome(w *waiter) bool {
	if w == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.fairPlace != nil && w.called || w.in != nil && w.in.head == w && w.in.turn.given
}

// setBusy notes that w asks Redis, or has done so. It reports false if w is not in the
// queue any more, because it was handed a lease.
func (c *Client) setBusy(w *waiter, busy bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.busy = busy
	return w.in != nil
}

// listen returns the subscription of the queue for p, and opens it if necessary. It
// returns nil if there is no queue any more.
func (c *Client) listen(p place, channel string, kind hub.Kind) *hub.Listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	if q == nil {
		return nil
	}
	if q.listener == nil {
		q.listener = c.hub.Listen(channel, kind)
	}
	return q.listener
}

// granted notes that l is held now. It wakes the waiters of the same owner, on this lock
// and on its other side: they can enter now, or must fail. If alone is set, the owner has
// no other waiters yet. It reports false if the client was closed meanwhile.
//
// It ends the former lease of this client on the lock, if there is one: Redis has given
// the lock to another lease.
func (c *Client) granted(l *lease, alone bool) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	at := l.place.under(l.id)
	former := c.held.at(at)
	l.mu.Lock()
	if l.ended == nil { // else it was lost meanwhile, and nothing would remove it
		c.held.put(at, l)
	}
	l.mu.Unlock()
	c.had(l)
	if !alone {
		c.tell(l.place, l.owner)
		if other := l.place.other(); other != l.place {
			c.tell(other, l.owner)
		}
	}
	c.mu.Unlock()
	if former != nil {
		former.superseded()
	}
	return true
}

// tell wakes the waiters of o for p and for its twin. It must be called with c.mu held.
func (c *Client) tell(p place, o *owner) {
	for _, at := range [...]place{p, p.twin()} {
		if q := c.queues[at]; q != nil {
			for w := q.head; w != nil; w = w.next {
				if w.owner == o {
					w.signal()
				}
			}
		}
	}
}

// admit tells all waiters for p to ask for it, because one of them has acquired it, if
// they need not wait for each other.
func (c *Client) admit(p place) {
	if !classes[p.use].admits {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := c.queues[p].head; w != nil; w = w.next {
		w.asked = true
		w.signal()
	}
}

// forget removes l from the table of leases, if it is there. It must be called with c.mu
// held.
func (c *Client) forget(l *lease) {
	if at := l.place.under(l.id); c.held.at(at) == l {
		delete(c.held[at.use], at.name)
	}
}

// leaseOf returns the lease of this client on p with that id, or nil.
func (c *Client) leaseOf(p place, id string) *lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.held.at(p.under(id)); l != nil && l.place == p && l.id == id {
		return l
	}
	return nil
}

// freed notes that l is not held any more, and wakes the first waiter of this client to
// ask for the lock.
func (c *Client) freed(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(l)
	if q := c.queues[l.place]; q != nil {
		q.head.signal()
	}
}

// asks reports, once, whether w was told to ask for the lock.
func (c *Client) asks(w *waiter) (asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, w.asked = w.asked, false
	return asked
}
