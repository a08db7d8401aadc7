package mortise

import (
	"context"
	"iter"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Election gives a role to one of those who campaign for it, for a term: until
// the leader resigns, or its lease is lost. Redisson has nothing like it.
//
// A term is a lease with a number and a value. The lease is renewed by the
// watchdog. The number rises with every term, however the one before ended; it
// is a fencing token. The value is what the leader wants others to know, such
// as its address.
//
// An Election holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that there is always a leader; that a leader which
// is frozen, or does not look at its context, has stopped when the next one is
// elected, which only the term's number shows to those whom it commands; that
// candidates of different processes are elected in the order in which they came.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing what it has acknowledged.
type Election struct {
	lock   locker
	script script.Election // of a candidate without a value
}

// Election returns the election called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) Election(name string) *Election {
	e := &Election{script: c.conn.Election(name, "")}
	e.lock.init(object{c, name}, &electionTraits, &e.script)
	e.lock.options = &LockOptions{NonReentrant: true}
	return e
}

var useElection = newUse(class{})

var electionTraits = traits{use: useElection, numbered: true}

// With returns the same election, to campaign in with these options. With a
// Lease a term ends when that time is over; it is not renewed. NonReentrant
// makes no difference: an owner leads once or not at all.
func (e *Election) With(options LockOptions) *Election {
	e = e.lock.client.Election(e.lock.name)
	options.NonReentrant = true
	e.lock.options = &options
	return e
}

// Name returns the name in Redis.
func (e *Election) Name() string { return e.lock.name }

// maxValue is how long the value of a term may be: all who observe read it
// about once a second.
const maxValue = 64 << 10

func checkValue(value string) error {
	if len(value) > maxValue {
		return invalid("the value has %d bytes; at most %d are allowed", len(value), maxValue)
	}
	return nil
}

// Campaign waits until ctx ends to be elected, and returns the term. The value
// may be any text of up to 64 KiB. Goroutines of one client are elected in the
// order in which they came.
//
// The returned context is derived from ctx. It ends when the term does: when the
// leader resigns, or when the lease is lost, with cause [ErrLost], before another
// can be elected. What the leader does should use it. In case of an error it is
// ctx itself. The end of ctx does not end the term; only [Term.Resign] does.
//
// Errors: the error of ctx, which also matches [ErrLocked] if somebody was seen
// to lead, and then [HeldError] says who; [ErrReentry] if the owner that ctx
// carries leads already; [ErrLost] if it has led, was deposed and has not
// resigned; [ErrFenceRegressed] if the number of the term is not above that of an
// earlier one this client knows of; [ErrNotDurable] if it was elected and too few
// replicas knew in time;
// [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
func (e *Election) Campaign(ctx context.Context, value string) (*Term, context.Context, error) {
	const op = "campaign"
	if err := checkValue(value); err != nil {
		return nil, ctx, &Error{Op: op, Name: e.lock.name, Err: err}
	}
	k, candidate := e.lock, e.lock.client.conn.Election(e.lock.name, value)
	k.ops = &candidate
	hold, held, err := k.enter(ctx, op, true)
	if err != nil {
		return nil, ctx, err
	}
	return &Term{election: e, hold: hold, turn: make(chan struct{}, 1)}, held, nil
}

// Leader is who leads. The zero value means nobody.
type Leader struct {
	Value string
	Owner string // the client's UUID, a colon and a number
	Term  int64
	TTL   time.Duration // how long the term lasts unless renewed; -1 without limit
}

func leader(l script.Leader) Leader {
	return Leader{Value: l.Value, Owner: l.Owner, Term: l.Term, TTL: l.TTL}
}

// Leader returns who leads, as the master knows it. It blocks for one round
// trip. The answer may be out of date when it arrives.
//
// Errors: [ErrNoLeader]; [ErrWrongKind], [ErrUnreachable], [ErrDenied],
// [ErrInvalid], [ErrClosed], the error of ctx.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	const op = "leader"
	l, ok, err := e.read(ctx, op)
	if err == nil && !ok {
		err = &Error{Op: op, Name: e.lock.name, Err: ErrNoLeader}
	}
	return leader(l), err
}

func (e *Election) read(ctx context.Context, op string) (l script.Leader, ok bool, err error) {
	err = e.lock.operate(ctx, op, func(ctx context.Context, _ script.Publish) (err error) {
		l, ok, err = script.ElectionRead(ctx, e.lock.client.driver, e.lock.name)
		return err
	})
	return l, ok, err
}

// Observe walks over who leads, for as long as the loop goes on: who does now,
// and then every change, of the leader or of its value. While nobody leads, that
// is the zero Leader. TTL is that of the moment.
//
// Changes that follow each other faster than the loop, or that happen while
// Redis cannot be reached, may be seen as one; the last state is always seen.
// Messages tell of a change at once. One that is lost is made up for within
// about a second, because each loop asks Redis so often by itself.
//
// An error ends the walk; it comes with a zero Leader, and there always is one
// unless the loop ends by itself: the error of ctx; [ErrClosed] when the client
// is closed; [ErrUnreachable] after [Options.RetryFor]; [ErrWrongKind],
// [ErrDenied], [ErrInvalid].
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	const op = "observe"
	return func(yield func(Leader, error) bool) {
		var last *script.Leader
		err := e.lock.follow(ctx, op, keyspace.ElectionNews(e.lock.name), func() (time.Duration, error) {
			now, ok, err := e.read(ctx, op)
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
				return min(jitter(poll), now.TTL+time.Millisecond), nil
			}
			return jitter(poll), nil
		})
		if err != nil {
			yield(Leader{}, err)
		}
	}
}

// Depose ends the term of whoever leads, and returns who that was. Those who
// campaign are woken. The leader is not asked and, unless it is one of this
// client, learns of it at its next renewal, within a third of its lease; with a
// fixed lease, which is not renewed, at its end. Until then two may believe
// that they lead; the numbers of their terms tell them apart.
//
// Errors: [ErrNoLeader]; [ErrUnknownOutcome] if the term that was seen has
// ended, but Redis' reply was lost, so that nobody can say what ended it;
// [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed], the
// error of ctx.
func (e *Election) Depose(ctx context.Context) (Leader, error) {
	const op = "depose"
	for {
		l, ok, err := e.read(ctx, op)
		if err != nil {
			return Leader{}, err
		}
		if !ok {
			return Leader{}, &Error{Op: op, Name: e.lock.name, Err: ErrNoLeader}
		}
		if freed, err := e.lock.free(ctx, op, l.Owner); freed || err != nil {
			return leader(l), err
		}
	}
}

// DeposeOwner ends the term of owner, as [Leader.Owner] shows it, if it still
// leads, and reports whether it did. Everything else is as with
// [Election.Depose].
func (e *Election) DeposeOwner(ctx context.Context, owner string) (bool, error) {
	const op = "depose owner"
	l, ok, err := e.read(ctx, op)
	if err != nil || !ok || l.Owner != owner {
		return false, err
	}
	return e.lock.free(ctx, op, owner)
}
