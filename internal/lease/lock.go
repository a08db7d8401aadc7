package lease

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// Lock is a lock of some kind, as a client acquires it. Kinds differ in their scripts and
// their traits. A Lock is small, because every lease keeps the one that acquired it.
type Lock struct {
	Object
	ops     Ops
	options *terms.Options // must not be changed: most locks share them
	traits  *Traits        // the same
}

var defaultOptions terms.Options

// Init makes k the lock called o.name of the kind that has these traits and scripts. It
// works in place to keep the stacks of waiting goroutines small.
func (k *Lock) Init(o Object, t *Traits, s Ops) {
	k.Object, k.ops, k.options, k.traits = o, s, &defaultOptions, t
}

// parted is the operations of a lock on a part of what its name has. Locks on different parts
// do not contend inside the client.
type parted interface {
	// Part returns a name for the part, which no other part of any name has.
	Part() string
}

// Place returns what k contends for.
func (k *Lock) Place() Place {
	if k.traits.Parted {
		return Place{Use: k.traits.Use, Name: k.ops.(parted).Part()}
	}
	return Place{Use: k.traits.Use, Name: k.name}
}

// SetOptions makes k acquire the lock with these options. Only the caller that has made k
// may use it.
func (k *Lock) SetOptions(o terms.Options) { k.options = &o }

// SetTraits makes k have other traits than its kind. Only the caller that has made k may
// use it.
func (k *Lock) SetTraits(t *Traits) { k.traits = t }

// SetOps makes k use other scripts. Only the caller that has made k may use it.
func (k *Lock) SetOps(s Ops) { k.ops = s }

// SetFlaw makes k a lock that cannot be used. Only the caller that has made k may use it.
func (k *Lock) SetFlaw(err error) {
	t := *k.traits
	t.Flaw = err
	k.traits = &t
}

// Traits returns the traits of k, which must not be changed.
func (k *Lock) Traits() *Traits { return k.traits }

// Options returns the options of k, which must not be changed.
func (k *Lock) Options() *terms.Options { return k.options }

// Ops returns the scripts of k.
func (k *Lock) Ops() Ops { return k.ops }

// With returns a copy of k that acquires the lock with these options.
func (k *Lock) With(o *terms.Options) *Lock {
	with := *k
	with.options = o
	return &with
}

// Ops are the operations of one kind of lock; internal/script implements them for each
// kind. The code around them is the same for all kinds. Every script is safe to run twice
// with the same id.
type Ops interface {
	// Channel returns the channel that announces releases; empty if there is none.
	Channel() string
	// Acquire acquires the lock for an id that never had it before.
	Acquire(ctx context.Context, a script.Attempt) (script.Grant, error)
	// Reentry returns how to set the count of holds of a lock that id has, and extend its lease.
	Reentry(id string, count int, lease time.Duration) script.Reentry
	// Leave sets the count of holds of a lock that id has and keeps.
	Leave(ctx context.Context, id string, count int) (bool, error)
	// Release releases the lock, whatever its count, and wakes waiters. It may return an
	// error although it has released the lock: then Redis refused to announce that.
	Release(ctx context.Context, id string, t script.Turns) (script.Freed, error)
	// Renewal returns how the watchdog extends the lease of id. The script never shortens
	// a lease.
	Renewal(id string, ttl time.Duration) script.Renewal
}

// TTL is the TTL that k requests from Redis for a new lease.
func (k *Lock) TTL() time.Duration { return k.options.Lease(k.client.config.TTL) }

// renewedTTL is the TTL that a renewal sets.
func (k *Lock) renewedTTL() time.Duration { return cmp.Or(k.options.TTL, k.client.config.TTL) }

// Renewed reports whether the watchdog renews the lock.
func (k *Lock) Renewed() bool {
	return k.options.MaxHold == 0 || k.options.MaxHold > k.renewedTTL()
}

// forcer is the operations of a kind of lock whose fence moves on when it is freed by force.
type forcer interface {
	Force(ctx context.Context, id string, t script.Turns) (script.Freed, error)
}

// Free frees the lock of one owner, and moves its fence on if it has one. It may report true
// together with an error: then the lock is freed, but Redis refused to notify the waiters, or to
// move the fence.
func (k *Lock) Free(ctx context.Context, owner string, fenced bool) (freed bool, err error) {
	again := false // an earlier copy may have run
	err = k.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		freed, err = k.releaseAs(ctx, owner, k.turns(0), fenced)
		if err == nil && !freed && again {
			return &driver.Error{Class: driver.Other, Err: outcome.ErrUnknownOutcome}
		}
		again = again || (err != nil && driver.ClassOf(err) == driver.Unknown)
		return err
	})
	if freed || errors.Is(err, outcome.ErrUnknownOutcome) { // either way owner does not have the lock any more
		k.forced(owner)
	}
	return freed, err
}

// forced ends the lease of id at once if it belongs to this client.
func (k *Lock) forced(id string) {
	for _, at := range [...]Place{k.Place(), k.Place().Twin()} {
		if l := k.client.leaseOf(at, id); l != nil {
			l.end(l.loss(LostForced, nil))
			return
		}
	}
}

// Counter returns the key that counts the tokens.
func (k *Lock) Counter() string { return keyspace.Token(k.name) }

// NoteToken notes a token that was read.
func (k *Lock) NoteToken(token int64) { k.client.tokens.Note(k.Counter(), token) }

// Seen returns the highest token that the client has seen of the lock, and 0 for
// a kind without tokens. Call it before a token is drawn: the replies to
// concurrent acquisitions may arrive in any order.
func (k *Lock) Seen() int64 {
	if k.traits.Numbered {
		return k.client.tokens.Seen(k.Counter())
	}
	return 0
}

// regressed returns an error if a token is not above seen, the highest one before it was
// drawn. A token counts as seen only when it is that of a hold: one that replicas have not
// acknowledged is lost with its master, and nothing has had it.
func (k *Lock) regressed(seen, token int64) error {
	if !k.traits.Numbered {
		return nil
	}
	if token <= seen {
		return k.client.errors.FenceRegressed(k.Counter(), seen, token)
	}
	return nil
}

// noteToken records the token of a hold.
func (k *Lock) noteToken(token int64) {
	if k.traits.Numbered {
		k.NoteToken(token)
	}
}

// Sound checks the arguments. It sends nothing.
func (k *Lock) Sound() error {
	if err := k.checkName(); err != nil {
		return err
	}
	if k.traits.Flaw != nil {
		return k.traits.Flaw
	}
	if k.options.MinHold != 0 && !k.traits.Keeps {
		return ErrKeeps
	}
	return k.options.Validate(k.client.config.TTL)
}

// Ready asks Redis for what a request must know before it acquires a lock.
func (k *Lock) Ready(ctx context.Context) error {
	if _, err := k.learnTopology(ctx); err != nil {
		return err
	}
	return k.client.replicas.canWait(ctx, k.name, k.options.Durability)
}
