package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Term is a leader's term of office, which begins with its election. Its methods
// are safe for concurrent use.
type Term struct {
	election *Election
	hold     *Hold
	turn     chan struct{} // held while the value is changed; guards edition
	edition  int           // how often the value was changed
}

// Token returns the number of the term. It is higher than that of every earlier
// term of the election, so that a resource that remembers the highest number
// it has seen can refuse a leader whose term is over.
func (t *Term) Token() int64 { return t.hold.Token() }

// Owner returns the leader's id in Redis: the client's UUID, a colon and a number.
func (t *Term) Owner() string { return t.hold.Owner() }

// Until returns the time at which trust in the lease ends, as [Hold.Until] does.
func (t *Term) Until() time.Time { return t.hold.Until() }

// Valid reports whether the term still lasts, as far as this process can know
// without asking Redis; see [Hold.Valid].
func (t *Term) Valid() bool { return t.hold.Valid() }

// Resign ends the term, and wakes the waiting candidates. The context of the term
// ends first. Resign takes no context, and blocks and fails like [Hold.Unlock].
func (t *Term) Resign() error {
	if err := t.hold.of.unlock(t.hold); err != nil {
		return &Error{Op: "resign", Name: t.election.lock.name, Err: err}
	}
	return nil
}

// Proclaim changes the value of the term, and notifies observers. Concurrent
// calls run one after the other. Each blocks for one round trip.
//
// Errors: [ErrLost] if the term was lost, [ErrReleased] if the leader has
// resigned, [ErrDenied] also if Redis made the change but did not allow
// notifying observers, as the text says, and those of every method; see the
// package documentation. With [ErrUnreachable] or the error of ctx, the value
// may or may not have changed.
func (t *Term) Proclaim(ctx context.Context, value string) error {
	const op = "proclaim"
	e := t.election
	fail := func(err error) error { return &Error{Op: op, Name: e.lock.name, Err: err} }
	if err := checkValue(value); err != nil {
		return fail(err)
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return fail(contextError(ctx))
	case <-e.lock.client.done:
		return fail(ErrClosed)
	}
	defer func() { <-t.turn }()
	l := t.hold.of.(*lease)
	if err := l.state(); err != nil {
		return fail(err)
	}
	t.edition++
	done := false
	err := e.lock.operate(ctx, op, func(ctx context.Context, p script.Publish) (err error) {
		done, err = script.ElectionProclaim(ctx, e.lock.client.driver, e.lock.name, l.id, value, t.edition, p)
		return err
	})
	if err == nil && !done {
		l.end(l.over()) // no effect if the leader has resigned meanwhile
		err = fail(l.state())
	}
	return err
}
