package waiting

// fairQueue is the queue of one client for a fair lock. Each of its waiters has a place in
// the queue in Redis as well, and a position here by the order there. The first waiter
// sends the heartbeat of the client, for all of them.
//
// It is guarded by Client.Mu. Its methods, and those of its waiters, must be called with
// that held.
type fairQueue struct {
	*queue
	waiters   map[string]*fairWaiter // by id; those that can be notified
	placed    *Waiter                // the last waiter whose place in Redis is known; those come first
	gated     *Waiter                // the first waiter that is not admitted yet; those come last
	admitted  int                    // number of waiters that make their first attempt
	opened    int                    // how often the client's channel was opened or refused
	pace      pacer                  // of the attempts of all waiters
	mixed     bool                   // Redisson's threads hold the lock or wait for it
	heartbeat heartbeat
}

const (
	// fairNear is how many of a client's waiters are subscribed, from the first
	// on. One would suffice, but the next must be ready when its turn comes.
	fairNear = 3
	// fairAtOnce is how many of a client's waiters may make their first attempt
	// concurrently. If many waiters are canceled, at most these have sent a script
	// that may still queue them.
	fairAtOnce = 64
)

func newFairQueue(q *queue) *fairQueue {
	return &fairQueue{queue: q, waiters: make(map[string]*fairWaiter)}
}

// join completes the entry of w, which was put at the end of the queue.
func (f *fairQueue) join(w *fairWaiter) {
	w.opened = f.opened
	f.waiters[w.id] = w
	switch {
	case f.admitted < fairAtOnce:
		f.admit(w)
	case f.gated == nil:
		f.gated = &w.Waiter
	}
}

// admit lets w, the first waiter that is not admitted yet, make its first attempt.
func (f *fairQueue) admit(w *fairWaiter) {
	f.gated = w.next
	w.phase = admitted
	f.admitted++
}

// admitNow lets w make its first attempt, regardless of fairAtOnce.
func (f *fairQueue) admitNow(w *fairWaiter) {
	f.remove(&w.Waiter)
	before := f.tail
	if f.gated != nil {
		before = f.gated.prev
	}
	f.insert(&w.Waiter, before)
	w.phase = admitted
	f.admitted++
}

// attempted notes that w has made its first attempt, or gives up, and admits the next
// waiter. It has no effect if w was not making one.
func (f *fairQueue) attempted(w *fairWaiter) {
	if w.phase != admitted {
		return
	}
	w.phase = unplaced
	f.admitted--
	if next := f.gated; next != nil {
		f.admit(next.fair)
		next.Signal()
	}
}

// settle moves w to its position. since is when w took its place in Redis.
func (f *fairQueue) settle(w *fairWaiter, since queueing) {
	if w.phase == placed && w.since == since {
		return
	}
	unheard := w.phase != placed && w.opened != f.opened
	w.since, w.phase = since, placed
	f.arrange(w)
	if f.owesHeartbeat() {
		f.head.Signal() // the head may have changed
	}
	if unheard && f.head == &w.Waiter {
		w.mustAsk()
	}
}

// arrange moves w behind the waiters that have waited longer, by the order in Redis.
// Waiters whose place there is not known yet come last.
func (f *fairQueue) arrange(w *fairWaiter) {
	f.remove(&w.Waiter)
	before := f.placed
	for before != nil && w.since.before(before.fair.since) {
		before = before.prev
	}
	if f.insert(&w.Waiter, before); before == f.placed {
		f.placed = &w.Waiter
	}
}

// skip moves the marks in the queue past w, which leaves it.
func (f *fairQueue) skip(w *Waiter) {
	if f.placed == w {
		f.placed = w.prev
	}
	if f.gated == w {
		f.gated = w.next
	}
}

// before returns the number of waiters before w, counted up to fairNear.
func (f *fairQueue) before(w *fairWaiter) (n int) {
	for v := f.head; v != &w.Waiter && n < fairNear; v = v.next {
		n++
	}
	return n
}

// mix notes whether Redisson's threads take part.
func (f *fairQueue) mix(mixed bool) {
	if f.mixed == mixed {
		return
	}
	f.mixed = mixed
	for w, n := f.head, 0; w != nil && n < fairNear; w, n = w.next, n+1 {
		w.Signal() // it may need a channel of its own
	}
}

// approach wakes the waiter that is now near enough to subscribe.
func (f *fairQueue) approach() {
	if f.turn.listener != nil && !f.mixed {
		return
	}
	w := f.head
	for n := 1; w != nil && n < fairNear; n++ {
		w = w.next
	}
	if w != nil {
		w.Signal()
	}
}

// end stops the heartbeat of a queue that has ended.
func (f *fairQueue) end() {
	if f.heartbeat.timer != nil {
		f.heartbeat.timer.Stop()
	}
}
