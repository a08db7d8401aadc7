package mortise

import (
	"context"

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
type FencedLock struct {
	locker
	script script.FencedLock
}

// FencedLock returns the fenced lock called name; see [Client.Lock] for names.
// It does no I/O.
func (c *Client) FencedLock(name string) *FencedLock {
	k := &FencedLock{script: c.conn.FencedLock(name)}
	k.init(object{c, name}, &fencedTraits, &k.script)
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
