package lockmgr

import "time"

// waiterState is what a waiter does, and what it was notified of.
type waiterState uint8

const (
	waits       waiterState = iota // until it is woken
	waitsCalled                    // it was notified to ask for the lock, and has not begun to
	asks                           // it asks Redis, so no lease can be handed to it
	asksCalled                     // the same, and it was notified to ask again
)

// call notifies w to ask for the lock.
func (w *waiter) call() {
	w.state |= waitsCalled
	w.signal()
}

// takeCall reports, once, whether w was notified to ask for the lock.
func (w *waiter) takeCall() (called bool) {
	called = w.state&waitsCalled != 0
	w.state &^= waitsCalled
	return called
}

// ask notes that w asks Redis, and rest that it does not any more.
func (w *waiter) ask()  { w.state |= asks }
func (w *waiter) rest() { w.state &^= asks }

// isAsking reports whether w asks Redis.
func (w *waiter) isAsking() bool { return w.state >= asks }

// waiter is one goroutine in a queue. There may be very many, so it is small.
type waiter struct {
	client     *Client
	owner      *Owner
	request    *request      // accepts leases that are handed off; nil for a waiter that never does
	wake       chan struct{} // capacity 1: look again
	in         *queue        // nil if none; this and the fields below are guarded by Client.mu
	prev, next *waiter
	handed     *Lease // was handed to the waiter, which is not in the queue any more
	state      waiterState
	pending    bool          // it asks for permits, or was notified to
	wants      int32         // how many permits it waits for; 0 if for something else
	fair       *fairWaiter   // of a waiter for a fair lock; else nil
	came       time.Duration // when it joined a queue first, in the client's time; 0 if it has not
	serial     uint64        // of the wait
	cycle      error         // names a cycle that the wait is part of, until it has reported it; else nil
	ends       bool          // it is to end because of cycle

	within *Hold // the innermost hold that the wait is part of; set before it joins a queue
}

// pendingCycle returns the cycle that w has still to report, or because of which it is to end. It must
// be called with Client.mu held.
func (w *waiter) pendingCycle() error {
	if w.handed == nil {
		return w.cycle
	}
	return nil
}

// heedCycle reports a cycle that the wait is part of, if there is one to report, and returns why the wait
// must end, or nil. The waiter reports it by itself, before it reports how its wait has ended.
func (w *waiter) heedCycle() error {
	w.client.mu.Lock()
	err, ends := w.pendingCycle(), w.ends
	if err != nil {
		w.cycle = nil
	}
	w.client.mu.Unlock()
	if err == nil {
		return nil
	}
	w.tellCycle(err)
	if ends {
		return err
	}
	return nil
}

// tellCycle reports a cycle. It is not part of heedCycle to keep the stacks of waiting goroutines small.
func (w *waiter) tellCycle(err error) {
	r := w.request
	if w.fair != nil {
		r = w.fair.of
	}
	e := Event{Type: EventDeadlock, Lock: r.lock.Name(), Kind: r.lock.traits.Kind, Err: err}
	if o := r.told; o != nil {
		e.Call, e.Context = o.call, o.ctx
	}
	w.client.tell(e)
}

// spins reports whether w pauses instead of listening.
func (w *waiter) spins() bool { return w.request != nil && w.request.lock.traits.Pause != nil }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// newWaiter returns a waiter that no lease can be handed to.
func newWaiter(c *Client, o *Owner) *waiter {
	return &waiter{client: c, owner: o, wake: make(chan struct{}, 1)}
}

// takeHandoff returns the lease that was handed to w, once.
func (w *waiter) takeHandoff() (l *Lease) {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	l, w.handed = w.handed, nil
	return l
}

// see sets v to what w sees of its place. If it returns an error, there is a cycle to heed.
func (w *waiter) see(v *view) error {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	*v = view{}
	switch q := w.in; {
	case w.handed != nil:
		v.position = handedOff
	case q == nil || q.head != w:
		if w.state&waitsCalled != 0 {
			v.pass = called
		}
	case q.turn.phase >= turnGranted:
		v.position = granted
	default:
		k := w.request.lock
		v.position, v.occupancy, v.notBefore = first, k.site().occupied(), k.after()
	}
	return w.pendingCycle()
}

// isGranted reports whether w was notified that Redis has granted it the lock. w may be
// nil.
func (w *waiter) isGranted() bool {
	if w == nil {
		return false
	}
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	return w.fair != nil && w.fair.grant != ungranted || w.in != nil && w.in.head == w && w.in.turn.phase >= turnGranted
}

// beginAsking notes that w asks Redis, as it was notified to. It reports false if w is not in the
// queue any more, because it was handed a lease.
func (w *waiter) beginAsking() bool {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	w.ask()
	w.takeCall()
	return w.in != nil
}

// beginCalled reports whether w was notified to ask, and notes that it does.
func (w *waiter) beginCalled() bool {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if !w.takeCall() {
		return false
	}
	w.ask()
	return true
}

// endAsking notes that w does not ask Redis any more.
func (w *waiter) endAsking() {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	w.rest()
	if w.in != nil {
		w.in.answered(w, 0) // else it has got permits, and they were notified
	}
}
