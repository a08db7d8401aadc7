package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// queue is the wait queue of one client for one place. Only its head asks Redis; the
// other waiters cost Redis nothing. It exists while it has waiters.
//
// Everything here is guarded by Client.Mu.
type queue struct {
	client *Queues
	place  lease.Place

	head, tail *Waiter
	marked     *Waiter // the last waiter for which the answer to the head counts, too
	pending    int     // number of waiters that ask for permits, or were notified to
	spare      int     // how many permits were spare at least, by the answers since pending was 0
	length     int
	spinning   int // number of waiters that pause instead of listening
	turn       turn
	refused    *outcome.Refusal // what was in the way when Redis last answered a waiter; nil if something else is
	why        error            // that, for callers, or why Redis cannot be asked; else nil. It names no holder: callers share it
	silent     time.Duration    // since when Redis could not be asked, in the client's time; else 0
	freed      time.Duration    // when a lease of this client was last in the way, in the client's time; else 0
	listener   *hub.Listener    // opened by the first head that was refused
	heeds      *hub.Listener    // of a lock: shows others that the listener is not Redisson's
	since      time.Time        // when the last queue for the place ended, if the client still listens
	fair       *fairQueue       // of a fair lock; else nil
}

// insert puts w behind before, or first if that is nil.
func (q *queue) insert(w, before *Waiter) {
	q.length++
	if w.spins() {
		q.spinning++
	} else if q.spinning > 0 {
		q.head.Signal() // it may be in a long pause
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

func (q *queue) remove(w *Waiter) {
	q.length--
	if w.spins() {
		q.spinning--
	}
	w.in = nil
	q.answered(w, 0)
	if q.marked == w {
		q.marked = w.prev
	}
	if q.fair != nil {
		q.fair.skip(w)
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

// retry closes channels that Redis refused to earlier waiters, so that the head
// subscribes again: the client may have the right to them now. Waiters for permits do without
// a channel of the client's own. It must be called with Client.Mu held.
func (q *queue) retry() {
	for _, l := range [...]**hub.Listener{&q.listener, &q.turn.listener} {
		if *l != nil && (*l).Refused() != nil && (l == &q.listener || !q.site().Claims()) {
			(*l).Close()
			*l = nil
			q.head.Signal() // it opens another one
		}
	}
}

// doubts reports whether an attempt of w with the id of the turn is in doubt: then w's request releases that id in the end.
// It must be called with Client.Mu held, while w does not ask.
func (q *queue) doubts(w *Waiter) bool {
	r := w.request
	return r != nil && r.Doubt && q.turn.id == r.ID
}

// dequeue removes w from q, and ends q if no waiter is left. It must be called with
// Client.Mu held.
func (q *queue) dequeue(w *Waiter) {
	if q.head == w && q.doubts(w) {
		q.turn.finish() // the request in doubt is responsible for it
	}
	q.remove(w)
	q.client.Changed()
	if q.head == nil {
		delete(q.client.queues, q.place)
		q.keepListening()
		if q.fair != nil {
			q.fair.end()
		}
		q.endTurn()
	}
}
