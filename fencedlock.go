package mortise

import (
	"context"

	"github.com/mortise-go/mortise/internal/lockmgr"
	"github.com/mortise-go/mortise/internal/script"
)

// FencedLock is a [Lock] that numbers its holders, the counterpart of
// Redisson's RFencedLock: every acquisition, by Go or Java, and every re-entry
// draws a token that is larger than all earlier ones, see [Hold.Token]. A
// resource that refuses a token older than the newest it has seen is safe even
// from a holder that was frozen and finishes its write after its lease was over.
// Package fencing provides this check.
//
// Tokens rise with gaps: an acquisition whose reply was lost may have drawn a
// token that no holder uses. The counter survives release, loss and
// [FencedLock.ForceUnlock]. Its key in Redis has no TTL, and mortise never
// deletes it; the next acquisition by mortise removes a TTL that Redisson's
// expire() has set.
//
// What it does not guarantee: that tokens continue to rise after Redis has lost
// them, by a restart or failover without the newest writes, by eviction, or by
// Redisson's delete(). If a token is not above the highest that the client has
// seen of the lock, the acquisition fails with [ErrFenceRegressed]. A client
// remembers the tokens of the ten thousand fenced locks that it used last. It
// cannot detect the loss of tokens that it has not seen. Acquisitions of the
// same name as a plain Lock draw no token.
type FencedLock struct {
	locker
	script script.FencedLock
}

// FencedLock returns the fenced lock called name; see [Client.Lock] for names.
// It does no I/O.
func (c *Client) FencedLock(name string) *FencedLock {
	o := c.core.Object(name)
	k := &FencedLock{script: c.core.Conn().FencedLock(o.Key())}
	k.lock.Init(o, &fencedTraits, &k.script)
	return k
}

var fencedTraits = lockmgr.Traits{Use: usePlain, Turns: true, HandsOff: true, Keeps: true, Numbered: true}

// With returns a handle to the same lock that acquires it with these options.
func (k *FencedLock) With(options LockOptions) *FencedLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// CurrentToken returns the newest token that was drawn, or 0 if none was. It
// reads from the master and blocks for one round trip; the result may be out of
// date when it arrives.
//
// Errors: [ErrWrongKind] if the token's key holds no token, and those of every
// method; see the package documentation.
func (k *FencedLock) CurrentToken(ctx context.Context) (token int64, err error) {
	err = k.operate(ctx, "current token", func(ctx context.Context, _ script.Publish) (err error) {
		token, err = script.FencedToken(ctx, k.lock.Client().Config().Driver, k.lock.Key())
		return err
	})
	if err == nil {
		k.lock.NoteToken(token)
	}
	return token, err
}
