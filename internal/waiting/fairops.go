package waiting

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// fairOps are the scripts of a fair lock for one waiter, which queues if it is refused.
type fairOps struct {
	*script.FairLock
	lock    *lease.Lock
	w       *fairWaiter
	contact contact
	refusal script.FairRefusal // the reply to the last attempt; zero without one
	since   queueing           // from the last refusal that queued the waiter
}

// contact is what Redis knows of a waiter's attempts.
type contact uint8

const (
	unasked    contact = iota // there was no attempt
	unsent                    // no attempt has reached Redis; ends with one that may have
	unanswered                // an attempt may have reached Redis, but the last one has no reply
	answered                  // the last attempt has a reply
)

func (o *fairOps) Acquire(ctx context.Context, a script.Attempt) (script.Grant, error) {
	mode := script.FairAgain
	if o.contact == unasked {
		mode = script.FairQueue
	}
	ok, why, err := script.FairAcquire(ctx, o.lock.Client().Driver(), o.Fair(), o.drawPlace(), a.Lease, mode)
	switch {
	case err == nil:
		o.contact = answered
		o.replied()
	case driver.ClassOf(err) == driver.NotSent && o.contact <= unsent:
		o.contact = unsent
	default:
		o.contact = unanswered
	}
	if o.refusal = why; why.Since != 0 {
		o.since = queueing{why.Since, why.Queued}
	}
	return script.Grant{OK: ok, By: why.Holder}, err
}

// drawPlace returns the place that the waiter sends with its next attempt. Messages sent
// before that attempt, and forged ones, do not name the new nonce, so a message that does
// is true from the attempt on. A repeated attempt keeps the nonce. Until Redis answers, it
// may still have the former nonce.
func (o *fairOps) drawPlace() script.FairPlace {
	nonce := ""
	if relies(o.lock) {
		nonce = rand.Text()
	}
	c, w := o.lock.Client(), o.w
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case o.contact == unasked, o.contact == answered:
		w.former, w.nonce = w.nonce, nonce
	case w.nonce == "":
		w.nonce = nonce
	}
	return w.place((w.in.length-1)/heartbeatPage, time.Now())
}

// replied notes that Redis has answered the attempt that sent the waiter's nonce. A
// message with the former nonce was sent before that, and the reply is newer.
func (o *fairOps) replied() {
	c, w := o.lock.Client(), o.w
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if w.former = ""; w.grant == grantedEarly {
		w.grant = ungranted
	}
}
