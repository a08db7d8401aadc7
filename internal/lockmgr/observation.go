package lockmgr

import (
	"context"
	"errors"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// observation is what is reported about one call and the hold that it has acquired: to the observer, and
// to the history of the lock.
type observation struct {
	client  *Client
	name    string
	kind    string
	ctx     context.Context
	call    uint64
	start   time.Time // of the call
	held    time.Time // since when it has the lock
	how     How
	queued  bool
	blocker string  // the owner that was in the way last
	early   *ending // set in place of the rest: why the hold was lost before its call was reported
}

// calls counts the calls that were reported to observers. The clients of a process share the numbers: they
// may share an observer, too, which distinguishes calls by them.
var calls atomic.Uint64

// observes reports whether somebody observes calls and holds.
func (c *Client) observes() bool { return c.config.Observe != nil || c.config.History > 0 }

// observe returns the observation of a call, and nil if nobody observes it.
func (c *Client) observe(ctx context.Context, name, kind string) *observation {
	if !c.observes() {
		return nil
	}
	return &observation{client: c, name: name, kind: kind, ctx: lasting(ctx), call: calls.Add(1), start: time.Now()}
}

// event returns an event of the call.
func (o *observation) event(t EventType) Event {
	return Event{Type: t, How: o.how, Queued: o.queued, Lock: o.name, Kind: o.kind, Call: o.call, Context: o.ctx}
}

// waits reports, once, that the call has begun to wait, and labels its goroutine for profiles. o may be nil.
//
// It is small, so that it is inlined: an event takes much stack, and there may be many waiters.
func (c *Client) waits(o *observation) {
	if o != nil && !o.queued {
		o.tellWaiting()
	}
}

func (o *observation) tellWaiting() {
	o.queued = true
	pprof.SetGoroutineLabels(pprof.WithLabels(o.ctx, pprof.Labels("mortise_lock", o.name, "mortise_kind", o.kind)))
	o.client.tell(o.event(EventWaiting))
}

// came notes in which way the lock was acquired. o may be nil.
func (o *observation) came(how How) {
	if o != nil {
		o.how = how
	}
}

// refusedBy notes what was in the way. o may be nil.
func (o *observation) refusedBy(why *refusal) {
	if o != nil && why.lack == nil {
		o.blocker = why.by.Owner
	}
}

// concluded reports what became of a call: h is nil if it has failed with err. o may be nil.
func (c *Client) concluded(o *observation, h *Hold, err error) {
	if o != nil {
		o.conclude(h, err)
	}
}

func (o *observation) conclude(h *Hold, err error) {
	c := o.client
	if o.queued {
		pprof.SetGoroutineLabels(o.ctx)
	}
	o.held = time.Now()
	e := o.event(EventRefused)
	if e.Waited = o.held.Sub(o.start); err != nil {
		e.Err = c.Because(o.ctx, err)
	} else {
		e.Type = EventAcquired
	}
	if h != nil {
		e.Owner, e.Token = h.Owner(), h.Token()
	}
	if o.queued && o.blocker != "" {
		if r := c.others.cached(o.blocker); r != nil {
			e.Blocker = &Blocker{o.blocker, r}
		}
	}
	c.tell(e)
	if h != nil {
		h.observedBy(o)
	}
}

// observedBy makes o receive the end of h, at once if that has come.
func (h *Hold) observedBy(o *observation) {
	if before := h.observed.Swap(o); before != nil {
		h.tellEnd(EventLost, before.early.reason, before.early.err)
	}
}

// tellLoss reports that h was lost, now or as soon as the call that acquired it was reported. It must not
// be called with a mutex locked.
func (h *Hold) tellLoss(why *ending) {
	if !h.observed.CompareAndSwap(nil, &observation{early: why}) {
		h.tellEnd(EventLost, why.reason, why.err)
	}
}

// tellEnd reports, once, that h was lost or released. It must not be called with a mutex locked.
func (h *Hold) tellEnd(t EventType, reason string, err error) {
	o := h.observed.Load()
	if o == nil || o.early != nil || !h.observed.CompareAndSwap(o, nil) {
		return
	}
	switch {
	case errors.Is(err, ErrReleased): // in a way of its kind, such as that of a member that leaves
		t, err = EventReleased, nil
	case t == EventReleased && (errors.Is(err, ErrLost) || errors.Is(err, ErrClosed)): // its release was the first to notice
		t, reason = EventLost, reasonOf(err)
	}
	e := o.event(t)
	e.Owner, e.Token, e.Held, e.Err = h.Owner(), h.Token(), time.Since(o.held), err
	o.client.tell(e)
	if o.how != HowReentered {
		o.client.recorder.note(o, &e, reason)
	}
}

// call returns the number of the call that has acquired l, and 0 if nobody observes it.
func (l *Lease) call() uint64 {
	l.mu.Lock()
	h := l.holds
	for h != nil && h.next != nil {
		h = h.next
	}
	l.mu.Unlock()
	if h == nil {
		return 0
	}
	if up := HoldFrom(h.parent); up != nil && up.has(l) {
		h = up // of the composite that l is a part of
	}
	if o := h.observed.Load(); o != nil {
		return o.call
	}
	return 0
}

// reasonOf returns the reason of a loss as the history has it.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ErrClosed):
		return endClosed.reason
	case errors.Is(err, ErrLost):
		return "lost"
	}
	return endReleased.reason
}

// renewed reports the outcome of one renewal of several leases. margins is for how long each was
// trusted without it, and nil if there is no observer.
func (c *Client) renewed(leases []*watchdog.Lease, answers []watchdog.Answer, margins []time.Duration) {
	var good, bad Event
	for i, w := range leases {
		l, e := w.Of.(*Lease), &good
		switch answers[i].State {
		case watchdog.Renewed:
			c.counters.renewed.Add(1)
		case watchdog.Failed:
			c.counters.failed.Add(1)
			e = &bad
			e.Err = Meaning(noReply(answers[i].Err))
		default:
			continue // its loss is reported
		}
		if e.Leases++; margins != nil && (e.Leases == 1 || margins[i] < e.Margin) {
			e.Lock, e.Kind, e.Owner, e.Margin = l.Name(), l.traits.Kind, l.id, margins[i]
		}
	}
	good.Type, bad.Type = EventRenewed, EventRenewalFailing
	for _, e := range [...]Event{bad, good} {
		if e.Leases > 0 {
			c.tell(e)
		}
	}
}

// margins returns for how long leases are still trusted, and nil if there is no observer.
func (c *Client) margins(leases []*watchdog.Lease) []time.Duration {
	if c.config.Observe == nil {
		return nil
	}
	left := make([]time.Duration, len(leases))
	for i, w := range leases {
		left[i] = time.Until(c.watchdog.Until(w))
	}
	return left
}
