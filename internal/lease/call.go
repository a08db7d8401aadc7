package lease

import (
	"context"
	"errors"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Call is what is reported about one call and the hold that it has acquired: to the observer, and
// to the history of the lock.
type Call struct {
	client  *Client
	Name    string
	Kind    string
	Context context.Context
	Serial  uint64
	Start   time.Time // of the call
	Held    time.Time // since when it has the lock
	How     outcome.How
	queued  bool
	blocker string  // the owner that was in the way last
	early   *ending // set in place of the rest: why the hold was lost before its call was reported
}

// calls counts the calls that were reported to observers. The clients of a process share the numbers: they
// may share an observer, too, which distinguishes calls by them.
var calls atomic.Uint64

// observes reports whether somebody observes calls and holds.
func (c *Client) observes() bool { return c.config.Observe != nil || c.config.History > 0 }

// Observe returns the observation of a call, and nil if nobody observes it.
func (c *Client) Observe(ctx context.Context, name, kind string) *Call {
	if !c.observes() {
		return nil
	}
	return &Call{client: c, Name: name, Kind: kind, Context: outcome.Lasting(ctx), Serial: calls.Add(1), Start: time.Now()}
}

// event returns an event of the call.
func (o *Call) event(t outcome.EventType) outcome.Event {
	return outcome.Event{Type: t, How: o.How, Queued: o.queued, Lock: o.Name, Kind: o.Kind, Call: o.Serial, Context: o.Context}
}

// NoteWait reports, once, that the call has begun to wait, and labels its goroutine for profiles. o may be nil.
//
// It is small, so that it is inlined: an event takes much stack, and there may be many waiters.
func (c *Client) NoteWait(o *Call) {
	if o != nil && !o.queued {
		o.tellWaiting()
	}
}

func (o *Call) tellWaiting() {
	o.queued = true
	pprof.SetGoroutineLabels(pprof.WithLabels(o.Context, pprof.Labels("mortise_lock", o.Name, "mortise_kind", o.Kind)))
	o.client.Emit(o.event(outcome.EventWaiting))
}

// Came notes in which way the lock was acquired. o may be nil.
func (o *Call) Came(how outcome.How) {
	if o != nil {
		o.How = how
	}
}

// RefusedBy notes what was in the way. o may be nil.
func (o *Call) RefusedBy(why *outcome.Refusal) {
	if o != nil && why.Lack == nil {
		o.blocker = why.By.Owner
	}
}

// Concluded reports what became of a call: h is nil if it has failed with err. o may be nil.
func (c *Client) Concluded(o *Call, h *Hold, err error) {
	if o != nil {
		o.conclude(h, err)
	}
}

func (o *Call) conclude(h *Hold, err error) {
	c := o.client
	if o.queued {
		pprof.SetGoroutineLabels(o.Context)
	}
	o.Held = time.Now()
	e := o.event(outcome.EventRefused)
	if e.Waited = o.Held.Sub(o.Start); err != nil {
		e.Err = c.Because(o.Context, err)
	} else {
		e.Type = outcome.EventAcquired
	}
	if h != nil {
		e.Owner, e.Token = h.Owner(), h.Token()
	}
	if o.queued && o.blocker != "" {
		if r := c.recorder.Known(o.blocker); r != nil {
			e.Blocker = &outcome.Blocker{Owner: o.blocker, Record: r}
		}
	}
	c.Emit(e)
	if h != nil {
		h.observedBy(o)
	}
}

// observedBy makes o receive the end of h, at once if that has come.
func (h *Hold) observedBy(o *Call) {
	if before := h.observed.Swap(o); before != nil {
		h.reportEnd(outcome.EventLost, before.early.reason, before.early.Err)
	}
}

// reportLoss reports that h was lost, now or as soon as the call that acquired it was reported. It must not
// be called with a mutex locked.
func (h *Hold) reportLoss(why *ending) {
	if !h.observed.CompareAndSwap(nil, &Call{early: why}) {
		h.reportEnd(outcome.EventLost, why.reason, why.Err)
	}
}

// reportEnd reports, once, that h was lost or released. It must not be called with a mutex locked.
func (h *Hold) reportEnd(t outcome.EventType, reason string, err error) {
	o := h.observed.Load()
	if o == nil || o.early != nil || !h.observed.CompareAndSwap(o, nil) {
		return
	}
	switch {
	case errors.Is(err, outcome.ErrReleased): // in a way of its kind, such as that of a member that leaves
		t, err = outcome.EventReleased, nil
	case t == outcome.EventReleased && (errors.Is(err, outcome.ErrLost) || errors.Is(err, outcome.ErrClosed)): // its release was the first to notice
		t, reason = outcome.EventLost, ReasonOf(err)
	}
	e := o.event(t)
	e.Owner, e.Token, e.Held, e.Err = h.Owner(), h.Token(), time.Since(o.Held), err
	o.client.Emit(e)
	if o.How != outcome.HowReentered {
		o.client.recorder.Ended(o, e, reason)
	}
}

// CallSerial returns the number of the call that has acquired l, and 0 if nobody observes it.
func (l *Lease) CallSerial() uint64 {
	l.mu.Lock()
	h := l.holds
	for h != nil && h.next != nil {
		h = h.next
	}
	l.mu.Unlock()
	if h == nil {
		return 0
	}
	if up := HoldFrom(h.parent); up != nil && up.isPart(l) {
		h = up // of the composite that l is a part of
	}
	if o := h.observed.Load(); o != nil {
		return o.Serial
	}
	return 0
}

// ReasonOf returns the reason of a loss as the history has it.
func ReasonOf(err error) string {
	switch {
	case errors.Is(err, outcome.ErrClosed):
		return EndClosed.reason
	case errors.Is(err, outcome.ErrLost):
		return "lost"
	}
	return endReleased.reason
}

// renewed reports the outcome of one renewal of several leases. margins is for how long each was
// trusted without it, and nil if there is no observer.
func (c *Client) renewed(leases []*watchdog.Lease, answers []watchdog.Answer, margins []time.Duration) {
	var good, bad outcome.Event
	for i, w := range leases {
		l, e := w.Of.(*Lease), &good
		switch answers[i].State {
		case watchdog.Renewed:
			c.Counters.renewed.Add(1)
		case watchdog.Failed:
			c.Counters.failed.Add(1)
			e = &bad
			e.Err = outcome.Meaning(noReply(answers[i].Err))
		default:
			continue // its loss is reported
		}
		if e.Leases++; margins != nil && (e.Leases == 1 || margins[i] < e.Margin) {
			e.Lock, e.Kind, e.Owner, e.Margin = l.Name(), l.traits.Kind, l.id, margins[i]
		}
	}
	good.Type, bad.Type = outcome.EventRenewed, outcome.EventRenewalFailing
	for _, e := range [...]outcome.Event{bad, good} {
		if e.Leases > 0 {
			c.Emit(e)
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

// Settled counts, and reports, what became of a call.
func (c *Client) Settled(told *Call, hold *Hold, err error) (*Hold, error) {
	c.Counters.Count(err)
	c.Concluded(told, hold, err)
	return hold, err
}

// ReportReleased reports that h was released, with err if that has failed.
func (h *Hold) ReportReleased(err error) { h.reportEnd(outcome.EventReleased, endReleased.reason, err) }
