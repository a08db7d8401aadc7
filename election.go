package mortise

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Election gives a role to one of its candidates, for a term: until the leader
// resigns, or its lease is lost. Redisson has no counterpart.
//
// A term is a lease with a number and a value. The lease is renewed by the
// watchdog. The number rises with every term, however the one before ended; it
// is a fencing token. The value is what the leader publishes about itself, such
// as its address.
//
// An Election holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that there is always a leader; that a leader which
// is frozen, or ignores its context, has stopped when the next one is elected, which
// only the term's number shows to the services it commands; that candidates of
// different processes are elected in the order in which they arrived.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing acknowledged writes.
type Election struct {
	locker locker
	script script.Election // of a candidate without a value
}

// Election returns the election called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) Election(name string) *Election {
	o := c.core.Object(name)
	e := &Election{script: c.core.Conn().Election(o.Key(), "")}
	e.locker.lock.Init(o, &electionTraits, &e.script)
	e.locker.lock.SetOptions(terms.Options{NonReentrant: true})
	return e
}

var electionTraits = lease.Traits{Use: lease.NewUse(lease.Class{}), Kind: "election", Numbered: true}

// With returns the same election, with these options for campaigning. With a MaxHold a
// term ends at its end. NonReentrant makes no difference: an owner
// leads once or not at all.
func (e *Election) With(options LockOptions) *Election {
	with := *e
	options.NonReentrant = true
	with.locker.lock.SetOptions(options.core())
	return &with
}

// Name returns the name, without [Options.Prefix].
func (e *Election) Name() string { return e.locker.Name() }

// maxValue is the maximal length of the value of a term: each observer reads it
// about once a second.
const maxValue = 64 << 10

func checkValue(value string) error {
	if len(value) > maxValue {
		return outcome.Invalid("the value has %d bytes; at most %d are allowed", len(value), maxValue)
	}
	return nil
}

// Campaign blocks until it is elected, ctx ends, or [LockOptions.Wait] is over, and returns
// the term. The value
// may be any text of up to 64 KiB. Goroutines of one client are elected in the
// order in which they called.
//
// The returned context is derived from ctx. It ends when the term does: when the
// leader resigns, or when the lease is lost, with cause [ErrLost], before another
// can be elected. The leader's work should use it. In case of an error it is
// ctx itself. The end of ctx does not end the term; only [Term.Resign] does.
//
// Errors: [ErrLocked] if another led for all of the wait, and a [HeldError] names it;
// [ErrUnreachable] if Redis did not answer; either of them with the error of ctx, if that
// has ended the wait; [ErrReentry] if the owner that ctx
// carries leads already; [ErrLost] if it has led, was deposed and has not
// resigned; [ErrFenceRegressed] if the number of the term is not above that of an
// earlier one this client knows of; [ErrNotDurable] if it was elected and too few
// replicas acknowledged that in time, and those of every method; see the package
// documentation.
func (e *Election) Campaign(ctx context.Context, value string) (*Term, context.Context, error) {
	const op = "campaign"
	if err := checkValue(value); err != nil {
		return nil, ctx, e.locker.fail(op, err)
	}
	k, candidate := e.locker, e.locker.lock.Client().Conn().Election(e.locker.lock.Key(), value)
	k.lock.SetOps(&candidate)
	hold, held, err := k.enter(ctx, op, true)
	if err != nil {
		return nil, ctx, err
	}
	return &Term{election: e, hold: hold, turn: make(chan struct{}, 1)}, held, nil
}

// Lead campaigns, and calls f whenever it is elected, until ctx ends or f is done. The context that f gets is that of the
// term: it ends when the term is lost or another process asks for it, and f should return then. After that Lead resigns,
// and campaigns again. If f returns while its term lasts, with an error or without one, or panics, Lead
// resigns and returns what f has returned. While Redis cannot be reached, Lead goes on trying.
//
// Errors: that of f, and that of the resignation after it; the error of ctx if that has ended, unless f has returned
// another; and those of [Election.Campaign] other than [ErrUnreachable] and [ErrNotDurable], which pass.
func (e *Election) Lead(ctx context.Context, value string, f func(ctx context.Context, term *Term) error) error {
	needContext(ctx)
	if f == nil {
		panic("mortise: nil function")
	}
	for {
		term, held, err := e.Campaign(ctx, value)
		switch {
		case err == nil:
			switch over, err := term.lead(held, f); {
			case over:
				return err
			case ctx.Err() != nil:
				return cmp.Or(err, e.locker.fail("lead", outcome.ContextError(ctx)))
			}
		case ctx.Err() != nil || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNotDurable):
			return err
		}
		if err != nil {
			if err := rest(ctx, waiting.NextPoll()); err != nil {
				return e.locker.fail("lead", outcome.ContextError(ctx))
			}
		}
	}
}

// lead calls f and resigns. Over reports whether the term lasted until f returned.
func (t *Term) lead(held context.Context, f func(ctx context.Context, term *Term) error) (over bool, err error) {
	defer func() {
		rerr := t.Resign()
		if lost, ok := errors.AsType[*LostError](rerr); rerr != nil && (!ok || over && !errors.Is(err, lost)) {
			err = errors.Join(err, rerr)
		}
	}()
	err = f(held, t)
	return held.Err() == nil, err
}

// Leader is the leader of an election. The zero value means that there is none.
type Leader struct {
	Value string
	Owner string // the client's UUID, a colon and a number
	Term  int64
	TTL   time.Duration // how long the term lasts unless renewed; -1 without limit
}

func leader(l script.Leader) Leader {
	return Leader{Value: l.Value, Owner: l.Owner, Term: l.Term, TTL: l.TTL}
}

// Leader returns the leader, as the master knows it. It blocks for one round
// trip. The answer may be out of date when it arrives.
//
// Errors: [ErrNoLeader]; the error of ctx, and those of every method; see the package
// documentation.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	const op = "leader"
	l, ok, err := e.read(ctx)
	if err = e.locker.fail(op, err); err == nil && !ok {
		err = e.locker.fail(op, ErrNoLeader)
	}
	return leader(l), err
}

func (e *Election) read(ctx context.Context) (l script.Leader, ok bool, err error) {
	needContext(ctx)
	err = e.locker.lock.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		l, ok, err = script.ElectionRead(ctx, e.locker.lock.Client().Config().Driver, e.locker.lock.Key())
		return err
	})
	return l, ok, err
}

// Observe iterates over the leaders for as long as the loop runs: it yields the
// present one, and then every change of the leader or of its value. A zero Leader
// means that there is none. TTL is as of that moment.
//
// Changes that follow each other faster than the loop, or that happen while
// Redis cannot be reached, may be seen as one; the last state is always seen.
// Notifications report a change at once. If one is lost, the loop finds the change
// within about a second, because it asks Redis that often by itself.
//
// An error ends the iteration and comes with a zero Leader. Unless the caller ends the
// loop, there is always one: the error of ctx; [ErrClosed] when the client is closed;
// [ErrUnreachable] after [Options.RetryFor], and those of every method; see the
// package documentation.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	needContext(ctx)
	const op = "observe"
	return func(yield func(Leader, error) bool) {
		var last *script.Leader
		err := permits.Follow(ctx, &e.locker.lock.Object, keyspace.ElectionNews(e.locker.lock.Key()), nil, func() (time.Duration, error) {
			now, ok, err := e.read(ctx)
			if err != nil {
				return 0, err
			}
			seen := now
			seen.TTL = 0
			if last == nil || *last != seen {
				last = &seen
				if !yield(leader(now), nil) {
					return -1, nil
				}
			}
			if ok && now.TTL >= 0 {
				return min(waiting.NextPoll(), now.TTL+time.Millisecond), nil
			}
			return waiting.NextPoll(), nil
		})
		if err != nil {
			yield(Leader{}, e.locker.fail(op, err))
		}
	}
}

// Depose ends the term of the present leader, and returns that leader. It wakes the
// candidates. The leader is not asked and, unless it is one of this
// client, learns of it at its next renewal, within a third of its lease; with a
// fixed lease, which is not renewed, at its end. Until then two may believe
// that they lead; the numbers of their terms tell them apart.
//
// Errors: [ErrNoLeader]; [ErrUnknownOutcome] if the observed term has ended, but
// Redis' reply was lost, so that the cause of its end is unknown; the error of ctx, and
// those of every method; see the package documentation.
func (e *Election) Depose(ctx context.Context) (Leader, error) {
	const op = "depose"
	for {
		l, ok, err := e.read(ctx)
		if err != nil {
			return Leader{}, e.locker.fail(op, err)
		}
		if !ok {
			return Leader{}, e.locker.fail(op, ErrNoLeader)
		}
		if freed, err := e.locker.free(ctx, op, l.Owner); freed || err != nil {
			return leader(l), err
		}
	}
}

// DeposeOwner ends the term of owner, given as in [Leader.Owner], if it still
// leads, and reports whether it did. Everything else is as with
// [Election.Depose].
func (e *Election) DeposeOwner(ctx context.Context, owner string) (bool, error) {
	const op = "depose owner"
	l, ok, err := e.read(ctx)
	if err != nil || !ok || l.Owner != owner {
		return false, e.locker.fail(op, err)
	}
	return e.locker.free(ctx, op, owner)
}

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
	return t.election.locker.fail("resign", t.hold.core().Unlock())
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
	needContext(ctx)
	const op = "proclaim"
	e := t.election
	fail := func(err error) error { return e.locker.fail(op, err) }
	if err := checkValue(value); err != nil {
		return fail(err)
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return fail(outcome.ContextError(ctx))
	case <-e.locker.lock.Client().Done():
		return fail(ErrClosed)
	}
	defer func() { <-t.turn }()
	l := t.hold.core().Lease()
	if err := l.Err(); err != nil {
		return fail(err)
	}
	t.edition++
	done := false
	err := e.locker.operate(ctx, op, func(ctx context.Context, p script.Publish) (err error) {
		done, err = script.ElectionProclaim(ctx, e.locker.lock.Client().Config().Driver, e.locker.lock.Key(), l.ID(), value, t.edition, p)
		return err
	})
	if err == nil && !done {
		l.EndGone() // no effect if the leader has resigned meanwhile
		err = fail(l.Err())
	}
	return err
}
