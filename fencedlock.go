package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// FencedLock is a [Lock] that numbers its holders, the counterpart of
// Redisson's RFencedLock: every acquisition, by Go or Java, and every re-entry
// draws a token that is larger than all before, see [Hold.Token]. A resource
// that refuses a token older than the newest it has seen is safe even from a
// holder that was frozen and finishes its write after its lease was over.
// Package fencing has what a resource needs for that.
//
// Tokens rise with gaps: an acquisition whose reply was lost may have drawn one
// that nobody gets to know. They outlast everything: release, loss,
// [FencedLock.ForceUnlock]. Their key in Redis has no TTL, and mortise never
// deletes it; a TTL that Redisson's expire() has set is taken off with the next
// acquisition by mortise.
//
// What it does not guarantee: that tokens go on rising after Redis has lost
// them, by a restart or failover without the newest writes, by eviction, or by
// Redisson's delete(). A client notices if a token is not above the highest that
// it has seen of the lock, and fails with [ErrFenceRegressed] instead of giving
// it to anybody; it remembers the tokens of the ten thousand fenced locks that
// it used last. A client that has seen none of those that were lost cannot know.
// Acquisitions of the same name as a plain Lock draw no token.
type FencedLock struct{ locker }

// FencedLock returns the fenced lock called name; see [Client.Lock] for names.
// It does no I/O.
func (c *Client) FencedLock(name string) *FencedLock {
	k := new(FencedLock)
	k.init(object{c, name}, &fencedTraits)
	k.kind = k
	return k
}

var fencedTraits = traits{use: usePlain, turns: true, handsOff: true, numbered: true}

// With returns the same lock, to be taken with these options.
func (k *FencedLock) With(options LockOptions) *FencedLock {
	k = k.client.FencedLock(k.name)
	k.options = &options
	return k
}

// CurrentToken returns the newest token that anybody has drawn, and 0 if nobody
// has. It reads from the master and blocks for one round trip; the answer may
// be out of date when it arrives.
//
// Errors: [ErrWrongKind] if what lies there is no token, [ErrUnreachable],
// [ErrDenied], [ErrInvalid], [ErrClosed], the error of ctx.
func (k *FencedLock) CurrentToken(ctx context.Context) (token int64, err error) {
	err = k.operate(ctx, "current token", func(ctx context.Context, _ script.Publish) (err error) {
		token, err = script.FencedToken(ctx, k.client.driver, k.name)
		return err
	})
	if err == nil {
		k.client.tokens.Note(k.counter(), token)
	}
	return token, err
}

// counter is the key that counts the tokens.
func (k *locker) counter() string { return keyspace.Token(k.name) }

// seen returns the highest token that the client has seen of the lock, 0 of a
// kind that has none. It is asked before a token is drawn: of several that are
// drawn at once, the answers may come in any order.
func (k *locker) seen() int64 {
	if k.traits.numbered {
		return k.client.tokens.Seen(k.counter())
	}
	return 0
}

// regressed notes a token, and returns an error if it is not above the one that
// was the highest before it was drawn.
func (k *locker) regressed(seen, token int64) error {
	if !k.traits.numbered {
		return nil
	}
	if token <= seen {
		return &FenceError{Key: k.counter(), Seen: seen, Drawn: token}
	}
	k.client.tokens.Note(k.counter(), token)
	return nil
}

// What follows makes FencedLock a primitive. All but the token is as in Lock.

func (k *FencedLock) channel() string { return keyspace.LockChannel(k.name) }

func (k *FencedLock) acquire(ctx context.Context, id string, lease time.Duration) (grant, error) {
	got, _, err := k.await(ctx, id, lease, "")
	return got, err
}

func (k *FencedLock) await(ctx context.Context, id string, lease time.Duration, entry script.Entry) (got grant, at script.Standing, err error) {
	token, by, at, err := script.FencedAcquire(ctx, k.client.driver, k.name, id, lease, entry)
	return grant{ok: token > 0, by: by, token: token}, at, err
}

func (k *FencedLock) reenter(ctx context.Context, id string, count int, lease time.Duration) (grant, error) {
	token, err := script.FencedReenter(ctx, k.client.driver, k.name, id, count, lease)
	return grant{ok: token > 0, token: token}, err
}

func (k *FencedLock) leave(ctx context.Context, id string, count int) (bool, error) {
	return script.LockLeave(ctx, k.client.driver, k.name, id, count)
}

func (k *FencedLock) release(ctx context.Context, id string) (bool, error) {
	return k.yield(ctx, id, 0)
}

func (k *FencedLock) yield(ctx context.Context, id string, row int) (bool, error) {
	became, err := script.LockRelease(ctx, k.client.driver, k.name, id, k.channel(), k.speaking(), k.turns(row))
	return k.released(became), err
}

func (k *FencedLock) renewal(id string, ttl time.Duration) script.Renewal {
	return script.LockRenewal(k.name, id, ttl)
}
