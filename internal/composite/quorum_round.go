package composite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// serverState is what a quorumRequest knows of one server.
type serverState struct {
	pending  atomic.Bool // it was asked and has not replied yet
	answer   answer      // in the last round
	holder   string      // in its last answer; empty if it granted the lock
	err      error       // the last failure, if it has not answered since
	failures int         // in a row
	retryAt  time.Time   // when it is asked again after a failure
}

// answer is how a server has answered in a round.
type answer uint8

const (
	notRefused   answer = iota // it has not answered, or not named a holder
	refusedAnew                // it named another holder than in its answer before
	refusedAgain               // it named the same one
)

// refused reports whether the server refused in the last round.
func (s *serverState) refused() bool { return s.answer != notRefused }

// ready reports whether the server can be asked.
func (s *serverState) ready() bool { return !s.pending.Load() && !time.Now().Before(s.retryAt) }

// failed records a failure. The server is not asked again at once: another attempt
// would probably cost the same time.
func (s *serverState) failed(err error) {
	const first, longest = 100 * time.Millisecond, 2 * time.Second
	s.err = err
	s.retryAt = time.Now().Add(waiting.Jitter(min(longest, first<<min(s.failures, 10))))
	s.failures++
}

// answered records an answer, and the holder that it named.
func (s *serverState) answered(holder string) {
	switch holder {
	case "":
		s.answer = notRefused
	case s.holder:
		s.answer = refusedAgain
	default:
		s.answer = refusedAnew
	}
	s.failures, s.err, s.holder = 0, nil, holder
}

// quorumRound is one attempt of a quorumRequest to acquire the lock: it asks all servers
// at the same time, counts their replies until the outcome is decided, and concludes.
type quorumRound struct {
	*quorumRequest
	composite *composite    // of what the servers grant
	replies   chan reply    // has room for all replies
	concluded chan struct{} // closed when the round is over

	granted, refused int // the numbers of servers that did
	failed           int // and of those that are not waited for: failed, skipped or suspect
	skipped          []int
	suspect          map[int]bool // asked, although it failed the last time
}

// reply is what came of asking a server. err is nil if it granted the lock.
type reply struct {
	nth int
	err error
}

// round asks all servers at the same time. If it fails, split reports that some had
// granted the lock, and more than half are not known to be another owner's. A competing
// request has then released what it was granted, and asks again with another id.
func (r *quorumRequest) round(ctx context.Context) (hold *lease.Hold, split bool, err error) {
	q := r.newRound(ctx)
	defer close(q.concluded)
	q.askAll()
	err = q.count(ctx)
	if err == nil {
		err = q.outcome()
	}
	if err != nil {
		switch {
		case outcome.IsWaitError(err):
		case errors.Is(err, outcome.ErrLocked):
			r.site().Note(q.refusal, nil)
		case errors.Is(err, outcome.ErrNoQuorum):
			r.site().Note(nil, err)
		}
		q.undo(ctx, err)
		return nil, q.granted > 0 && !r.heldElsewhere(), err
	}
	for _, i := range q.skipped {
		r.locks[i].Client().Background(func(context.Context) { r.rejoin(i, q.composite) })
	}
	r.wakeOwner()
	return q.composite.hold, false, nil
}

func (r *quorumRequest) newRound(ctx context.Context) *quorumRound {
	k, c := r.Quorum, newComposite(ctx, r.name, len(r.locks), r.majority)
	c.owner = r.owner
	c.replace = func(m *member) {
		m.of.Client().Background(func(context.Context) {
			c.remove(m)
			k.rejoin(m.nth, c)
		})
	}
	return &quorumRound{
		quorumRequest: r, composite: c,
		replies: make(chan reply, len(r.locks)), concluded: make(chan struct{}),
		suspect: make(map[int]bool),
	}
}

// askAll asks the servers that can be asked.
func (q *quorumRound) askAll() {
	for i := range q.servers {
		s := &q.servers[i]
		s.answer = notRefused
		if !s.ready() {
			q.failed++
			q.skipped = append(q.skipped, i)
			continue
		}
		if s.err != nil {
			q.suspect[i] = true
		}
		q.ask(i)
	}
	if len(q.locks)-q.failed-len(q.suspect) < q.majority {
		clear(q.suspect) // the outcome depends on them
	}
	q.failed += len(q.suspect) // they are not waited for, but may answer in time
}

// ask asks a server in the background. If that fails, the server is asked again after the
// round, as long as there is a hold that it can join.
func (q *quorumRound) ask(nth int) {
	k, c, s, replies, concluded := q.Quorum, q.composite, &q.servers[nth], q.replies, q.concluded
	s.pending.Store(true)
	if !k.locks[nth].Client().Background(func(context.Context) {
		err := k.acquireOn(&member{of: k.locks[nth], nth: nth}, c)
		s.pending.Store(false)
		replies <- reply{nth, err}
		if <-concluded; err != nil {
			k.rejoin(nth, c)
		}
	}) {
		s.pending.Store(false)
		replies <- reply{nth, outcome.ErrClosed}
	}
}

// count counts replies until the outcome is decided. It fails if the round cannot go on.
func (q *quorumRound) count(ctx context.Context) error {
	for !q.decided() {
		select {
		case <-ctx.Done():
			return q.interrupted(ctx)
		case got := <-q.replies:
			if err := q.record(got); err != nil {
				return err
			}
		}
	}
	return nil
}

// interrupted returns the error of a round that ended with ctx: for what the last round has
// found, or else for what is known of this one.
func (q *quorumRound) interrupted(ctx context.Context) error {
	known := q.site().Obstacle(0)
	if known == nil {
		known = q.refusedWith()
	}
	if known == nil {
		known = fmt.Errorf("%w: %w", outcome.ErrUnreachable, q.noQuorum(q.granted+q.refused))
	}
	return outcome.GaveUp(ctx, known, nil)
}

// decided reports whether the missing replies cannot change the outcome.
func (q *quorumRound) decided() bool {
	return q.granted >= q.majority || q.failed > q.tolerance() ||
		// The lock is not available. Has a majority said so?
		q.refused+q.failed > q.tolerance() && q.granted+q.refused >= q.majority
}

// record counts a reply. It fails if the owner must not acquire the lock.
func (q *quorumRound) record(got reply) error {
	s := &q.servers[got.nth]
	if q.suspect[got.nth] {
		q.failed--
	}
	var refused *outcome.RefusedError
	switch {
	case got.err == nil:
		q.granted++
		s.answered("")
	case errors.As(got.err, &refused):
		q.refused++
		q.refusal = &outcome.Refusal{By: refused.By, Server: q.server(got.nth)}
		s.answered(refused.By.Owner)
	case errors.Is(got.err, outcome.ErrReentry):
		return outcome.ErrReentry
	default:
		q.failed++
		s.failed(got.err)
	}
	return nil
}

// outcome completes the hold of a decided round, or returns why there is none.
func (q *quorumRound) outcome() error {
	switch {
	case q.granted >= q.majority:
		return q.composite.complete()
	case q.failed > q.tolerance():
		return q.noQuorum(len(q.locks) - q.failed)
	}
	return q.refusedWith()
}

// undo releases what was granted in a failed round. It waits for that, but not for a
// server that has stopped answering.
func (q *quorumRound) undo(ctx context.Context, why error) {
	members, _, _ := q.composite.finish(why)
	ctx, cancel := context.WithTimeout(ctx, q.timeout())
	defer cancel()
	releaseAndWait(ctx, members, nil)
}
