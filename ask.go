package mortise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/recorder"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/survey"
)

// RevokedError says that a holder was asked to release its lock, and by whom. It matches
// [ErrRevoked]. The hold lasts on until Unlock, and is renewed: nobody else has the lock yet.
type RevokedError struct {
	By     string // who asked, as they said
	Reason string // why, as they said; may be empty
}

// Error says by whom the holder was asked, and why.
func (e *RevokedError) Error() string {
	text := ErrRevoked.Error() + " by " + readable(e.By)
	if e.Reason != "" {
		text += ": " + readable(e.Reason)
	}
	return text
}

// Is makes a RevokedError match ErrRevoked.
func (e *RevokedError) Is(target error) bool { return target == ErrRevoked }

// AskedHolder is a holder that was asked to release its lock, or could not be.
type AskedHolder struct {
	Holder
	// Asked is true if the holder's client will see the request: within about a second, if it
	// is connected; within ten on a cluster with classic messages. It is false for Redisson's threads, for clients that hide their identity,
	// and for holders that have had the lock for less than about a quarter of a second.
	Asked bool
}

// Ask asks the holders of a name to release it, and returns them. It blocks only for Redis'
// replies: to learn whether they do, watch the lock with [Client.Inspect]. The reason, of at
// most 200 bytes, is shown to the holder, with the host and the process of this client.
//
// Of more than a thousand holders, it asks those that [Client.Inspect] lists: any thousand.
//
// What a holder does is its own decision: by default the context of its holds ends, with a
// cause that matches [ErrRevoked]; [Options.OnAsk] replaces that. The lock is renewed until
// Unlock. Nothing is guaranteed: a holder that ignores its context keeps the lock.
//
// Errors: [ErrInvalid] if the reason is too long, [ErrDenied] if there are more than a thousand holders and the user cannot list
// some of them, and those of every method; see the package
// documentation. A holder whose record lies on a server of a cluster that does not answer cannot be asked; the others are. Then the
// error is an [UnlistedError] beside the holders, of which Asked says who was.
func (c *Client) Ask(ctx context.Context, name, reason string) ([]AskedHolder, error) {
	const op = "ask"
	state, err := c.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	o := c.object(name)
	if err := nameless(state); err != nil {
		return nil, o.fail(op, err)
	}
	if len(reason) > longestReason {
		return nil, o.fail(op, outcome.Invalid("the reason has %d bytes; at most %d are allowed", len(reason), longestReason))
	}
	asked, missing := make([]AskedHolder, 0, len(state.Holders)), survey.Missing{}
	for _, h := range state.Holders {
		one := AskedHolder{Holder: h}
		if record := keyspace.ClientRecord(c.core.Config().Prefix, script.ClientOf(h.Owner)); script.IsMortise(h.Owner) && !survey.Misses(c.core, missing, record) {
			one.Asked, err = recorder.Of(c.core).Ask(ctx, h.Owner, h.Since, reason)
			if err = survey.Miss(ctx, c.core, missing, record, err); err != nil {
				return asked, o.fail(op, c.core.Because(ctx, err))
			}
		}
		asked = append(asked, one)
	}
	if err = missing.And(nil); err != nil {
		return asked, o.fail(op, unlisted(c.core.Because(ctx, err)))
	}
	return asked, nil
}

const longestReason = 200

// DeadlockPolicy says what a waiter does that waits in a cycle.
type DeadlockPolicy int

const (
	// DeadlockTell reports the cycle to observers, with [EventDeadlock], and waits on.
	DeadlockTell DeadlockPolicy = iota
	// DeadlockFail also ends the wait with [ErrDeadlock], if it is the youngest of those
	// waits in the cycle that have this policy.
	DeadlockFail
)

// DeadlockError names the waiters of a cycle. It matches [ErrDeadlock].
//
// A cycle consists of waits for locks under a hold: each waits with a context of a hold (that
// of [Lock.Lock] or [Lock.Do]) of the lock that the one before it waits for. It is reported
// only after each client in it has confirmed its wait and its hold again, so that all of them
// existed at one moment. Waits with a context of [Detach] are under no hold, and a hold under
// which several goroutines wait, of which one may get on, is in no cycle. Redisson's threads
// do not publish what they wait for, and are in no cycle either, nor are Redlocks, GroupLocks and semaphores. Of more than 64 waits of a client only the oldest are looked at.
type DeadlockError struct {
	Waits []DeadlockWait // each is blocked by the next, and the last one by the first
}

// DeadlockWait is one wait of a cycle.
type DeadlockWait struct {
	Lock   string // that it waits for
	Client ClientInfo
	Since  time.Time // by Redis' clock
}

// Error names the locks and the processes.
func (e *DeadlockError) Error() string {
	text := ErrDeadlock.Error() + ": "
	for i := range e.Waits {
		w := &e.Waits[i]
		if i > 0 {
			text += ", which waits for "
		}
		next := e.Waits[(i+1)%len(e.Waits)]
		if i == 0 {
			text += w.Client.String() + " waits for "
		}
		text += fmt.Sprintf("%q, held by %v", w.Lock, &next.Client)
	}
	return text
}

// Is makes a DeadlockError match ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

func (publicErrors) Revoked(by, reason string) error { return &RevokedError{By: by, Reason: reason} }

func (publicErrors) Deadlock(cycle []record.CycleWait) error {
	e := &DeadlockError{}
	for _, w := range cycle {
		e.Waits = append(e.Waits, DeadlockWait{Lock: w.Name, Client: *clientInfo(w.Record), Since: record.Time(w.Since)})
	}
	return e
}

// Identify adds to a HeldError what is known of the holder, once: from then on, an observer may have it too.
func (publicErrors) Identify(err error, client string, known func(owner string) *record.Client) {
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Owner == "" || held.identified {
		return
	}
	held.identified = true
	held.Own = script.ClientOf(held.Owner) == client && held.Count != 0 && !held.Kept()
	if held.Client != nil {
		return
	}
	if r := known(held.Owner); r != nil {
		held.Client = clientInfo(r)
		held.Since, held.now = r.Since(held.Owner), r.Now.Add(time.Since(r.Read))
	}
}
