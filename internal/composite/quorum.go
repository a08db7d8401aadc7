package composite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/terms"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Quorum is a lock on several servers that are independent of each other: the owner that
// has it on more than half of them holds it.
type Quorum struct {
	name     string
	locks    []*lease.Lock // the lock of that name on each server
	majority int
}

// NewQuorum returns the lock that consists of locks, one on each server, which all have
// that name.
func NewQuorum(name string, locks []*lease.Lock) *Quorum {
	return &Quorum{name: name, locks: locks, majority: len(locks)/2 + 1}
}

// With returns the same lock with these options.
func (k *Quorum) With(o terms.Options) *Quorum {
	with := *k
	with.locks = make([]*lease.Lock, len(k.locks))
	for i, lock := range k.locks {
		with.locks[i] = lock.With(&o)
	}
	return &with
}

// Acquire acquires the lock. If wait is true, it blocks until it has it or ctx ends;
// otherwise it asks each server once.
func (k *Quorum) Acquire(ctx context.Context, wait bool) (*lease.Hold, error) {
	c := k.locks[0].Client()
	told := c.Observe(ctx, k.name, "redlock")
	h, err := k.acquire(ctx, wait, told)
	c.Concluded(told, h, err)
	return h, err
}

// acquire is Acquire for a caller that reports it.
func (k *Quorum) acquire(ctx context.Context, wait bool, told *lease.Call) (*lease.Hold, error) {
	if err := k.sound(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, outcome.ContextError(ctx)
	}
	r := newQuorumRequest(ctx, k)
	ctx, cancel := outcome.Within(ctx, k.locks[0].Options().Wait)
	defer cancel()
	if wait {
		r.told = told
		return r.wait(ctx)
	}
	hold, _, err := r.round(ctx)
	return hold, err
}

// sound checks the arguments, before anything is sent.
func (k *Quorum) sound() error {
	for _, lock := range k.locks {
		if lock.Client().Config().Invalid != nil {
			return lock.Client().Config().Invalid
		}
		if err := lock.Sound(); err != nil {
			return err
		}
		if lock.Options().MinHold != 0 {
			return lease.ErrKeeps
		}
	}
	return nil
}

// quorumError is the error for too few answers.
type quorumError struct {
	answered, total, majority int
	errs                      []error
}

func (e *quorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d of %d did, and %d are needed", outcome.ErrNoQuorum, e.answered, e.total, e.majority)
	for _, err := range e.errs {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

func (e *quorumError) Unwrap() []error { return append([]error{outcome.ErrNoQuorum}, e.errs...) }

// serverError adds to an error the server that it comes from.
func (k *Quorum) serverError(nth int, err error) error {
	return fmt.Errorf("%s: %w", k.server(nth), err)
}

// server names a server for errors.
func (k *Quorum) server(nth int) string {
	return fmt.Sprintf("server %d of %d", nth+1, len(k.locks))
}

// tolerance is how many servers may fail.
func (k *Quorum) tolerance() int { return len(k.locks) - k.majority }

// timeout is how long to wait for the answer of a server.
func (k *Quorum) timeout() time.Duration {
	const shortest, longest = 50 * time.Millisecond, 2 * time.Second
	ttl := k.locks[0].TTL()
	for _, lock := range k.locks {
		ttl = min(ttl, lock.TTL())
	}
	return min(max(ttl/20, shortest), longest)
}

// retryFor is how long to retry while too few servers answer; negative means without
// limit.
func (k *Quorum) retryFor() (d time.Duration) {
	for _, lock := range k.locks {
		if lock.Client().Config().RetryFor < 0 {
			return -1
		}
		d = max(d, lock.Client().Config().RetryFor)
	}
	return d
}

// closed counts the clients that were closed.
func (k *Quorum) closed() (n int) {
	for _, lock := range k.locks {
		select {
		case <-lock.Client().Done():
			n++
		default:
		}
	}
	return n
}

// acquireOn asks one server for m, and makes m a member of c if it grants that. A server
// that is reached after the end of c is not asked: its lock would obstruct the next holder
// until it is released.
func (k *Quorum) acquireOn(m *member, c *composite) error {
	lock, timeout := m.of, k.timeout()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.hold.Context()), timeout)
	defer cancel()
	err := lock.Ready(ctx)
	if c.over() {
		return outcome.ErrReleased
	}
	var hold *lease.Hold
	if err == nil {
		hold, err = waiting.AcquirePart(ctx, lock, false)
	}
	switch {
	case err == nil:
		return c.add(m, hold)
	case ctx.Err() != nil:
		if why := outcome.FailedBefore(err); why != nil {
			return why
		}
		return fmt.Errorf("%w: no answer within %v", outcome.ErrUnreachable, timeout)
	}
	return outcome.Meaning(lock.Client().OrClosed(err))
}

// rejoin asks a missing server until it is a member of c that counts, or c is over. Others
// may have lost the lock as well, which this process learns at their next renewals only:
// then another owner may have had a majority meanwhile. So the new member counts only when
// a majority that never was missing turns out to have stood while it joined; until then, a
// further loss ends the hold. A fixed lease does not rejoin, because it must end; one with a
// limit does for what is left of that.
func (k *Quorum) rejoin(nth int, c *composite) {
	lock := k.locks[nth]
	if !lock.Renewed() {
		return
	}
	const first = 100 * time.Millisecond
	var joined *member
	for n := 0; ; n++ {
		timer := time.NewTimer(min(waiting.Jitter(first<<min(n, 10)), lock.TTL()/3))
		select {
		case <-timer.C:
		case <-lock.Client().Done():
		case <-c.hold.Context().Done():
		}
		timer.Stop()
		if c.hold.Context().Err() != nil {
			c.drop(joined)
			return
		}
		if joined == nil {
			m := &member{of: lock.Within(c.limit()), nth: nth, late: true}
			if k.acquireOn(m, c) == nil {
				joined, n = m, -1
			}
		}
		if joined != nil && k.confirm(joined, c) {
			return
		}
		select {
		case <-lock.Client().Done():
			return
		default:
		}
	}
}

// confirm makes m, a late member, count if enough of the members that count are still on
// their servers. It reports false if that is not known, so that it must be tried again, and
// true as well if m cannot count any more.
func (k *Quorum) confirm(m *member, c *composite) bool {
	if !c.awaits(m) {
		c.drop(m)
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.hold.Context()), k.timeout())
	defer cancel()
	others := c.needed()
	stand := make(chan bool, len(others))
	for _, other := range others {
		l := other.lease()
		if !l.Client().Background(func(context.Context) { stand <- l.Stands(ctx) }) {
			stand <- false
		}
	}
	n := 0
	for range others {
		if <-stand {
			n++
		}
	}
	return n >= k.majority && c.count(m)
}

// useQuorum is the use of a name by a Quorum, on all its servers. It has only a queue in
// this process; nothing in Redis has that use.
var useQuorum = lease.NewUse(lease.Class{Kind: "redlock"})

// site is where the waiters of a process queue. Only the first one asks; several would
// split the votes among themselves.
func (k *Quorum) site() waiting.Site {
	return waiting.Site{Queues: waiting.QueuesOf(k.locks[0].Client()), Place: lease.Place{Use: useQuorum, Name: k.name}}
}
