package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Term is a term of office, from the election on. Its methods are safe for
// concurrent use.
type Term struct {
	election *Election
	hold     *Hold
	turn     chan struct{} // held while the value is being changed; guards edition
	edition  int           // how often it was
}

// Token returns the number of the term. It is higher than that of every earlier
// term of the election, so that a resource which remembers the highest number
// it was shown can refuse a leader whose term is over.
func (t *Term) Token() int64 { return t.hold.Token() }

// Owner returns the leader as it stands in Redis: the client's UUID, a colon and
// a number.
func (t *Term) Owner() string { return t.hold.Owner() }

// Until returns the instant at which the lease stops being trusted, as
// [Hold.Until] does.
func (t *Term) Until() time.Time { return t.hold.Until() }

// Valid reports whether the term goes on, as far as this process can know
// without asking Redis; see [Hold.Valid].
func (t *Term) Valid() bool { return t.hold.Valid() }

// Resign ends the term, and wakes those who campaign. The context of the term
// ends first. It takes no context, blocks and fails like [Hold.Unlock].
func (t *Term) Resign() error {
	if err := t.hold.of.unlock(t.hold); err != nil {
		return &Error{Op: "resign", Name: t.election.lock.name, Err: err}
	}
	return nil
}

// Proclaim changes the value of the term, and tells those who observe. Of
// several calls at a time, one is made after the other. It blocks for one round
// trip.
//
// Errors: [ErrLost] if the term was lost, [ErrReleased] if the leader has
// resigned; [ErrDenied] if Redis refused the change, or made it but did not
// allow telling others, as the text says; the error of ctx, or [ErrUnreachable]
// after [Options.RetryFor], in which case the value may have been changed or
// not; [ErrInvalid], [ErrClosed].
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
