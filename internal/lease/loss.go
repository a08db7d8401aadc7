package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// ending is why a lease is over. It is not changed once it is made.
type ending struct {
	Err   error // for callers
	cause error // of the contexts of the holds; if nil, err is
	loss  bool  // the lease was not released in the usual way, but lost
	gone  bool  // it was lost because Redis does not have it any more

	reason string // for the history of the lock
}

// contextCause returns the cause of the contexts of the holds.
func (e *ending) contextCause() error {
	if e.cause != nil {
		return e.cause
	}
	return e.Err
}

var (
	endReleased = &ending{Err: outcome.ErrReleased, reason: "released"}
	EndClosed   = &ending{Err: outcome.ErrClosed, reason: "closed"}
)

// loss returns the ending of a lease that was lost.
func (l *Lease) loss(reason LostReason, err error) *ending {
	var since time.Time
	switch {
	case reason == LostUnreachable:
		since = l.confirmed()
	case reason == LostForced && err == nil && l.client.interruptedSince(l.confirmed()):
		err = errInterrupted
	}
	lost := l.client.errors.Lost(reason, since, noReply(err))
	return &ending{lost, l.LossCause(lost), true, reason == LostForced || reason == LostTaken, reason.String()}
}

// errInterrupted says more of a lease that Redis does not have.
var errInterrupted = errors.New("a subscription was interrupted since Redis confirmed it last, as in a restart or a failover")

// interruptedSince reports whether a subscription was interrupted after t.
func (c *Client) interruptedSince(t time.Time) bool {
	return time.Duration(c.lastGap.Load()) > max(0, c.Time(t))
}

// confirmed returns when the request began that Redis confirmed last. A lease that was granted had the
// length of a grant until then.
func (l *Lease) confirmed() time.Time {
	at := l.Until().Add(-l.watch.Terms.Trust)
	if l.streak == 0 {
		return at
	}
	l.mu.Lock()
	granted := l.client.born.Add(l.expiry - script.GivenLease)
	l.mu.Unlock()
	return Latest(at, granted)
}

// LossCause returns the cause of the context of a hold that has ended because of err. After a loss
// the work under that context goes on until it looks.
func (k *Lock) LossCause(err error) error {
	if errors.Is(err, outcome.ErrLost) {
		err = fmt.Errorf("%w; stop the work that it protects, others may begin theirs", err)
	}
	return k.client.errors.Operation("hold", k.Name(), err)
}

// watchdogLoss returns the ending of a lease that the watchdog has lost.
func (l *Lease) watchdogLoss(reason watchdog.Reason, err error) *ending {
	switch reason {
	case watchdog.LostGone:
		return l.loss(LostForced, err)
	case watchdog.LostTaken:
		return l.loss(LostTaken, err)
	case watchdog.LostExpired:
		return l.loss(LostExpired, err)
	}
	return l.loss(LostUnreachable, err)
}

// unreportedLoss returns why a lease that the watchdog does not watch any more has ended,
// before the watchdog has reported it.
func (l *Lease) unreportedLoss() *ending {
	if time.Now().Before(l.Until()) {
		return l.loss(LostForced, nil)
	}
	return l.loss(LostUnreachable, nil)
}

// noReply is impersonal for a renewal. What it ran into is a time limit of the watchdog's or of
// the connection's, which says nothing to a caller but that Redis was silent.
func noReply(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return silent{outcome.Foreign{Err: err}}
	}
	return err
}

// silent is a foreign error of a request without a reply.
type silent struct{ outcome.Foreign }

func (e silent) Error() string { return "no reply in time" }

func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Lose ends the context of a hold of several leases that was lost because of err, and reports that.
func (h *Hold) Lose(err error, reason string) {
	end := &ending{Err: err, loss: true, reason: reason}
	h.cancel(end)
	h.reportLoss(end)
}

// Conclude ends the context of a hold of several leases that is over without a loss: because of err, or released if that is nil.
func (h *Hold) Conclude(err error) {
	end := endReleased
	if err != nil {
		end = &ending{Err: err}
	}
	h.cancel(end)
}
