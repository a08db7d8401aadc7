package mortise

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// DoubleBarrier lets a number of parties, in any processes, begin a piece of
// work together and end it together: none returns from Enter before all are
// inside, and none from Leave before all have left. It is what Curator calls a
// distributed double barrier; Redisson has no counterpart.
//
// A party inside has a lease, which the watchdog renews. So the death of a party is
// known when its lease ends, and the others wait for it no longer. If
// that happens before all were inside, its place is free for another party, and
// the waiting ones keep waiting. If it happens afterwards, Leave returns
// [ErrBroken] to the others, because the work of that party may not be done.
//
// When all have left, the next round can begin. A party that arrives while others
// are inside waits for that.
//
// A DoubleBarrier holds no resources. Its methods are safe for concurrent use.
// Each call of Enter is a party of its own.
//
// What it does not guarantee: that a party which is frozen, or ignores its context,
// has stopped when the others learn that it is gone.
type DoubleBarrier struct{ meeting }

// DoubleBarrier returns the double barrier called name for that many parties, from
// 1 to 1000; see [Client.Lock] for names. All must agree on the number. It does
// no I/O.
func (c *Client) DoubleBarrier(name string, parties int) *DoubleBarrier {
	return &DoubleBarrier{meeting{object: c.object(name), parties: parties}}
}

// With returns the same double barrier, with these options for [DoubleBarrier.Enter] and
// [Member.Leave]: each waits that long at most.
func (b *DoubleBarrier) With(options WaitOptions) *DoubleBarrier {
	return &DoubleBarrier{meeting{b.object, b.parties, options}}
}

// Member is a party that is inside a [DoubleBarrier]. Its methods are safe for
// concurrent use.
type Member struct {
	of    *DoubleBarrier
	hold  *lease.Hold
	lease *lease.Lease

	mu      sync.Mutex // guards leaving
	leaving bool
}

// Enter blocks until all parties are inside, ctx ends, or [WaitOptions.Wait] is over. The
// returned context is derived from ctx, and ends when the party begins to leave, or when
// its lease is lost, with cause [ErrLost], before the others can regard it as gone. The
// work inside should use it. In case of an error it is ctx itself, and the party is not
// inside.
//
// The end of ctx does not let the party leave; only [Member.Leave] does.
//
// A party that gives up is out before Enter returns, so that no party that enters after that is
// let in with it. This takes one round trip after the end of ctx or of Wait. While Redis does not
// answer, Enter blocks for [Options.UnlockFor] longer, or for a lease if that is shorter; then this
// party goes in the background, for as long as its lease may last. Until Redis
// has answered, it counts as inside for parties of other clients; those of the same client wait
// for that answer.
//
// While it waits, a party asks Redis about once a second, or three times in a
// lease if that is more often, besides receiving notifications.
//
// Errors: [ErrMissing] if parties were missing for all of the wait, with a [MissingError]
// that says how many, and [ErrLocked] if there was no place for this one;
// [ErrUnreachable] if Redis did not answer; each of them with the error of ctx, if that has
// ended the wait; [ErrLost] if the lease was lost while waiting; [ErrWrongKind] if the name
// holds no double barrier, or one for another number of parties; [ErrUnreachable]
// after [Options.RetryFor], and those of every method; see the package documentation.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Member, context.Context, error) {
	const op = "enter"
	var m *Member
	held := ctx
	err := b.core.Client().Run(func() (err error) {
		if err = b.check(ctx); err == nil {
			m, held, err = b.enter(ctx)
		}
		return err
	})
	if err != nil {
		return nil, ctx, b.fail(op, err)
	}
	return m, held, nil
}

// enter acquires a place inside, and blocks until all places are taken.
func (b *DoubleBarrier) enter(ctx context.Context) (*Member, context.Context, error) {
	c := b.core.Client()
	s := &seat{DoubleBarrier: c.Conn().DoubleBarrier(b.script(script.Silent)), of: b, driver: c.Config().Driver, part: c.NewID()}
	var k lease.Lock
	k.Init(b.core.Object, &barrierTraits, s)
	ctx, cancel := outcome.Within(ctx, b.options.Wait)
	defer cancel()
	if err := b.core.TakenBack(ctx); err != nil { // a former party of this client must not be counted with this one
		return nil, nil, err
	}
	hold, err := waiting.Acquire(ctx, &k, true)
	if err != nil {
		err = c.Because(ctx, err) // before vacate, during which ctx may end
		s.vacate()
		return nil, nil, err
	}
	m, held := &Member{of: b, hold: hold, lease: hold.Lease()}, hold.Context()
	if s.open {
		return m, held, nil
	}
	if err = m.awaitOthers(ctx, s.inside); err != nil {
		if over := m.lease.Err(); over != nil && ctx.Err() == nil {
			err = over // the caller's context has not ended: only that of the hold has
		}
		m.drop(b.depart)
		return nil, nil, err
	}
	return m, held, nil
}

// awaitOthers blocks until all parties are inside, for a member that has entered with ctx.
// inside is how many were then.
func (m *Member) awaitOthers(ctx context.Context, inside int) error {
	b, c := m.of, m.of.core.Client()
	held, cancel := outcome.Rejoin(ctx, m.hold.Context())
	defer cancel()
	missing := func() error { return b.missing(b.parties-inside, false) }
	return permits.Follow(held, &b.core.Object, b.channel(), missing, func() (time.Duration, error) {
		now, open := 0, false
		err := b.core.Operate(held, func(ctx context.Context, p script.Publish) (err error) {
			now, open, _, err = script.DoubleEnter(ctx, c.Config().Driver, b.script(p), m.lease.ID(), true)
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case open:
			return -1, nil
		case now == 0:
			m.lease.EndGone()
			return 0, m.lease.Err()
		}
		inside = now
		return b.tick(), nil
	})
}

// drop takes out a member that does not leave normally. depart is how.
func (m *Member) drop(depart func(script func(ctx context.Context) error)) {
	m.lease.EndReleased()
	depart(func(ctx context.Context) error { return m.of.quit(ctx, m.lease.ID()) })
}

// quit runs the script that takes out a party that does not leave normally.
func (b *DoubleBarrier) quit(ctx context.Context, party string) error {
	c := b.core.Client()
	_, err := script.DoubleQuit(ctx, c.Config().Driver, b.script(c.Conn().Publish()), party)
	return err
}

// Leave ends the party's part in the work, and blocks until all others have left
// as well, ctx ends, or [WaitOptions.Wait] is over. The context of the member ends first. The party leaves
// even if Leave does not wait to the end; call it again to keep waiting. If Redis has not
// answered by then, Leave returns all the same, and the party leaves in the background, for as
// long as its lease may last; until then, the others wait for it.
//
// Errors: [ErrBroken] if all are out, but one of them gave up or died inside, or
// if Redis has no record of this party any more; [ErrLost] if the lease was lost
// before; [ErrMissing] if others had not left when the wait was over, also with the error
// of ctx; [ErrUnreachable] after [Options.RetryFor], and those of every method; see the
// package documentation.
func (m *Member) Leave(ctx context.Context) error {
	needContext(ctx)
	const op = "leave"
	var fate script.Fate
	err := m.of.core.Client().Run(func() (err error) {
		fate, err = m.leave(ctx)
		return err
	})
	if err != nil {
		return m.of.fail(op, err)
	}
	return m.of.outcome(op, fate)
}

// leave takes the party out, and blocks until the fate of all is known.
func (m *Member) leave(ctx context.Context) (fate script.Fate, err error) {
	b, c := m.of, m.of.core.Client()
	m.mu.Lock()
	lost := m.lease.Err()
	first := !m.leaving
	m.leaving = true
	m.mu.Unlock()
	if lost != nil && !errors.Is(lost, ErrReleased) {
		if first {
			m.drop(b.departLater) // its work has stopped now
		}
		return fate, lost
	}
	m.lease.EndReleased()
	leave := func(ctx context.Context, p script.Publish) (script.Fate, error) {
		return script.DoubleLeave(ctx, c.Config().Driver, b.script(p), m.lease.ID())
	}
	ctx, cancel := outcome.Within(ctx, b.options.Wait)
	defer cancel()
	left, inside := false, 0
	missing := func() error { return b.missing(inside, true) }
	err = permits.Follow(ctx, &b.core.Object, b.channel(), missing, func() (time.Duration, error) {
		err := b.core.Operate(ctx, func(ctx context.Context, p script.Publish) (err error) {
			fate, err = leave(ctx, p)
			if err == nil {
				left, inside = true, fate.There
			}
			return err
		})
		if fate.Over {
			return -1, err
		}
		return b.tick(), err
	})
	if err != nil && !left {
		b.departLater(func(ctx context.Context) error {
			_, err := leave(ctx, c.Conn().Publish())
			return err
		})
	}
	return fate, err
}

// barrierTraits are those of a party's place inside, which nothing else contends for.
var barrierTraits = lease.Traits{Use: lease.NewUse(lease.Class{}), Kind: "doublebarrier", Parted: true, Leave: "Member.Leave"}

// seat is the scripts of a party's place in a double barrier.
type seat struct {
	script.DoubleBarrier
	of     *DoubleBarrier
	driver driver.Driver
	part   string
	inside int         // how many were inside after the last attempt
	open   bool        // whether all were
	doubt  doubt.Doubt // since the last answer
	taken  []string    // ids under which an attempt has entered, or may have
}

// Part is that of no other request in the process, so nothing re-enters it.
func (s *seat) Part() string { return s.part }

// Acquire lets the party in. A copy whose reply was lost may have let it in already.
func (s *seat) Acquire(ctx context.Context, a script.Attempt) (script.Grant, error) {
	var by script.Holder
	err := s.doubt.Try(func() (err error) {
		s.inside, s.open, by, err = script.DoubleEnter(ctx, s.driver, s.Barrier(), a.ID, s.doubt.Longer(remembered))
		return err
	})
	if (s.inside > 0 || s.doubt.Err() != nil) && !slices.Contains(s.taken, a.ID) {
		s.taken = append(s.taken, a.ID)
	}
	if err == nil {
		s.doubt = doubt.Doubt{}
		if s.inside == 0 && by.Owner == "" {
			// An earlier copy let it in, and it was regarded as dead since.
			err = outcome.Final(&LostError{Reason: LostExpired})
		}
	}
	return script.Grant{OK: s.inside > 0, By: by}, err
}

// vacate takes out what attempts may have let in, after all of them have failed. The janitor
// would do it as well, but not before Enter returns.
func (s *seat) vacate() {
	if len(s.taken) == 0 {
		return
	}
	ids := s.taken // one function for all, so that the caller is blocked once
	s.of.depart(func(ctx context.Context) error {
		for _, id := range ids {
			if err := s.of.quit(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}
