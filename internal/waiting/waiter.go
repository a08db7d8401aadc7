package waiting

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// waiterState is what a waiter does, and what it was notified of.
type waiterState uint8

const (
	waits       waiterState = iota // until it is woken
	waitsCalled                    // it was notified to ask for the lock, and has not begun to
	asks                           // it asks Redis, so no lease can be handed to it
	asksCalled                     // the same, and it was notified to ask again
)

// call notifies w to ask for the lock.
func (w *Waiter) call() {
	w.state |= waitsCalled
	w.Signal()
}

// takeCall reports, once, whether w was notified to ask for the lock.
func (w *Waiter) takeCall() (called bool) {
	called = w.state&waitsCalled != 0
	w.state &^= waitsCalled
	return called
}

// ask notes that w asks Redis, and rest that it does not any more.
func (w *Waiter) ask()  { w.state |= asks }
func (w *Waiter) rest() { w.state &^= asks }

// isAsking reports whether w asks Redis.
func (w *Waiter) isAsking() bool { return w.state >= asks }

// Waiter is one goroutine in a queue. There may be very many, so it is small.
type Waiter struct {
	client     *Queues
	owner      *lease.Owner
	request    *request      // accepts leases that are handed off; nil for a waiter that never does
	Wake       chan struct{} // capacity 1: look again
	in         *queue        // nil if none; this and the fields below are guarded by Client.Mu
	prev, next *Waiter
	handed     *lease.Lease // was handed to the waiter, which is not in the queue any more
	state      waiterState
	pending    bool          // it asks for permits, or was notified to
	Wants      int32         // how many permits it waits for; 0 if for something else
	fair       *fairWaiter   // of a waiter for a fair lock; else nil
	came       time.Duration // when it joined a queue first, in the client's time; 0 if it has not
	serial     uint64        // of the wait
	cycle      error         // names a cycle that the wait is part of, until it has reported it; else nil
	ends       bool          // it is to end because of cycle

	Within *lease.Hold // the innermost hold that the wait is part of; set before it joins a queue
}

// pendingCycle returns the cycle that w has still to report, or because of which it is to end. It must
// be called with Client.Mu held.
func (w *Waiter) pendingCycle() error {
	if w.handed == nil {
		return w.cycle
	}
	return nil
}

// heedCycle reports a cycle that the wait is part of, if there is one to report, and returns why the wait
// must end, or nil. The waiter reports it by itself, before it reports how its wait has ended.
func (w *Waiter) heedCycle() error {
	w.client.Mu.Lock()
	err, ends := w.pendingCycle(), w.ends
	if err != nil {
		w.cycle = nil
	}
	w.client.Mu.Unlock()
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
func (w *Waiter) tellCycle(err error) {
	r := w.request
	if w.fair != nil {
		r = w.fair.of
	}
	e := outcome.Event{Type: outcome.EventDeadlock, Lock: r.Lock.Name(), Kind: r.Lock.Traits().Kind, Err: err}
	if o := r.Call; o != nil {
		e.Call, e.Context = o.Serial, o.Context
	}
	w.client.Emit(e)
}

// spins reports whether w pauses instead of listening.
func (w *Waiter) spins() bool { return w.request != nil && w.request.Lock.Traits().Pause != nil }

func (w *Waiter) Signal() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// NewWaiter returns a waiter that no lease can be handed to.
func NewWaiter(c *Queues, o *lease.Owner) *Waiter {
	return &Waiter{client: c, owner: o, Wake: make(chan struct{}, 1)}
}

// takeHandoff returns the lease that was handed to w, once.
func (w *Waiter) takeHandoff() (l *lease.Lease) {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	l, w.handed = w.handed, nil
	return l
}

// see sets v to what w sees of its place. If it returns an error, there is a cycle to heed.
func (w *Waiter) see(v *view) error {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
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
		k := w.request.Lock
		v.position, v.occupancy, v.notBefore = First, SiteOf(k).occupied(), w.client.After(k)
	}
	return w.pendingCycle()
}

// isGranted reports whether w was notified that Redis has granted it the lock. w may be
// nil.
func (w *Waiter) isGranted() bool {
	if w == nil {
		return false
	}
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	return w.fair != nil && w.fair.grant != ungranted || w.in != nil && w.in.head == w && w.in.turn.phase >= turnGranted
}

// beginAsking notes that w asks Redis, as it was notified to. It reports false if w is not in the
// queue any more, because it was handed a lease.
func (w *Waiter) beginAsking() bool {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	w.ask()
	w.takeCall()
	return w.in != nil
}

// BeginCalled reports whether w was notified to ask, and notes that it does.
func (w *Waiter) BeginCalled() bool {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	if !w.takeCall() {
		return false
	}
	w.ask()
	return true
}

// EndAsking notes that w does not ask Redis any more.
func (w *Waiter) EndAsking() {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	w.rest()
	if w.in != nil {
		w.in.answered(w, 0) // else it has got permits, and they were notified
	}
}

// Pause implements [lease.Pauser], also for no waiter if w is nil. Only a grant of the lock ends the pause. Any other wake-up of w has no
// effect until the pause is over: any client may publish.
func (w *Waiter) Pause(ctx context.Context, c *lease.Client, d time.Duration) (came, ok bool) {
	if w == nil {
		return false, c.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for woken := false; ; woken = true {
		select {
		case <-w.Wake:
			if w.isGranted() {
				w.Signal()
				return true, true
			}
			continue
		case <-timer.C:
			ok = true
		case <-ctx.Done():
		case <-c.Done():
		}
		if woken {
			w.Signal()
		}
		return false, ok
	}
}
