package mortise

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/survey"
	"github.com/mortise-go/mortise/internal/terms"
)

// FencedLock is a [Lock] that numbers its holders, the counterpart of
// Redisson's RFencedLock: every acquisition, by Go or Java, and every re-entry
// draws a token that is larger than all earlier ones, see [Hold.Token]. A
// resource that refuses a token older than the newest it has seen is safe even
// from a holder that was frozen and finishes its write after its lease was over.
// Package fencing provides this check.
//
// Tokens rise with gaps: an acquisition whose reply was lost may have drawn a
// token that no holder uses, [FencedLock.ForceUnlock] draws one that nobody gets, and an
// acquisition with a Durability draws two.
// The counter survives release and loss. Its key in Redis has no TTL, and mortise never
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

var fencedTraits = lease.Traits{Use: usePlain, Kind: "fencedlock", Turns: true, HandsOff: true, Keeps: true, Numbered: true}

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

// TokenUse says for how long the counter of a name's fencing tokens was not used. The
// counter of a [FencedLock], or of an [Election], stays in Redis forever, as
// Redisson's does, and so does the fence of a fencing guard: a lock for each order, say,
// leaves one or two keys for each.
type TokenUse struct {
	Name    string
	Idle    time.Duration // at least; since the last use of the counter or the fence, in seconds
	Counter bool          // there is a counter
	Fence   bool          // there is a fence of a fencing guard, whose resource has that name
	InUse   bool          // the lock is held or waited for
	// TTL is how long it takes until one of them expires; -1 if it does not.
	TTL time.Duration
}

// TokenUses iterates over the names that have a counter of fencing tokens or a fence. It
// uses SCAN, so it does not block the server; a name may come more than once. It
// does not count as a use. Nor does [Client.Locks]; a look at one name does, such as
// [Client.Inspect].
//
// Redis knows for how long a key was not used unless its maxmemory-policy is an LFU one:
// then the error matches [ErrInvalid]. It forgets it when it restarts, and a replica that
// becomes the master knows only of writes. Many versions store a number below 10,000
// once for all keys, unless maxmemory is set with an LRU policy: then Idle is the time
// since any key with the same number was used, so it may be too short, but never too
// long. The user needs the right to run SCAN and OBJECT IDLETIME.
//
// Do not close the client inside the loop: Close waits for the iteration. An error ends
// the iteration and comes with a zero TokenUse. Errors: those of every method; see the
// package documentation. If some servers of a cluster could not be read, the error is an
// [UnlistedError], and comes after what the others have.
func (c *Client) TokenUses(ctx context.Context) iter.Seq2[TokenUse, error] {
	needContext(ctx)
	return func(yield func(TokenUse, error) bool) {
		err := c.core.Run(func() error {
			return survey.Run(ctx, c.core, func(ctx context.Context, w *survey.Walk) error { return c.scanTokens(ctx, w, yield) })
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(TokenUse{}, &Error{Op: "list tokens", Err: unlisted(outcome.Meaning(err))})
		}
	}
}

func (c *Client) scanTokens(ctx context.Context, w *survey.Walk, yield func(TokenUse, error) bool) error {
	scanner, ok := c.core.Config().Driver.(driver.Scanner)
	if !ok {
		return errors.New("this driver cannot list keys")
	}
	missing := make(survey.Missing)
	return missing.And(scanner.Scan(ctx, keyspace.TokenPattern, func(page []string) error {
		w.Answered()
		page = slices.DeleteFunc(page, func(key string) bool { return !keyspace.CountsTokens(key) })
		if len(page) == 0 || survey.Misses(c.core, missing, page[0]) {
			return nil
		}
		var uses []TokenUse
		var err error
		w.Aside(func() { uses, err = c.usesOf(ctx, page) })
		more := true
		w.Aside(func() {
			for i := 0; more && i < len(uses); i++ {
				more = yield(uses[i], nil)
			}
		})
		if !more {
			return errStop
		}
		return survey.Miss(ctx, c.core, missing, page[0], err)
	}))
}

// usesOf returns what the keys of a page are, as far as the server has answered. It waits for the server as a walk does, whatever other
// servers do.
func (c *Client) usesOf(ctx context.Context, page []string) (uses []TokenUse, err error) {
	err = survey.Run(ctx, c.core, func(ctx context.Context, w *survey.Walk) error {
		for keys := range slices.Chunk(page, script.InspectBatch) {
			var names [][]string
			var fences []bool
			for _, key := range keys {
				if shared, fence := keyspace.CountedNames(key); c.own(shared) != "" {
					names, fences = append(names, shared), append(fences, fence)
				}
			}
			for i, result := range script.InspectTokens(ctx, c.core.Config().Driver, 0, 0, names...) {
				use, err := c.tokenUse(ctx, names[i], result)
				if err != nil {
					return err
				}
				w.Answered()
				if use.Idle >= 0 && (!fences[i] || !use.Counter) { // else it is gone, or listed with its counter
					uses = append(uses, use)
				}
			}
		}
		return nil
	})
	return uses, err
}

// own returns the first of the names that begins with the client's prefix, without the prefix;
// empty if none does.
func (c *Client) own(names []string) string {
	for _, name := range names {
		if short, ok := strings.CutPrefix(name, c.core.Config().Prefix); ok && short != "" {
			return short
		}
	}
	return ""
}

// tokenUse returns what a script has found, and asks again while Redis cannot serve.
func (c *Client) tokenUse(ctx context.Context, names []string, r script.TokensResult) (TokenUse, error) {
	first := true
	err := c.core.Retry(ctx, func(ctx context.Context) error {
		if !first {
			r = script.InspectTokens(ctx, c.core.Config().Driver, 0, 0, names)[0]
		}
		first = false
		return r.Err
	})
	return useOf(c.own(names), r.Tokens), err
}

func useOf(name string, t script.Tokens) TokenUse {
	return TokenUse{Name: name, Idle: t.Idle, Counter: t.Counter, Fence: t.Fences > 0, InUse: t.Held || t.Awaited, TTL: t.TTL}
}

// ExpireTokens makes the counter of a name's fencing tokens, and its fence, expire after
// the given time, if neither was used for idle and the lock is neither held nor waited
// for. It reports whether they expire now. If the name is used before that, they stay: a
// mortise client that draws a token, or a guard that checks one, removes the TTL. So where
// Redis does not know how long keys were not used, an idle of 0 and a long time after
// which they expire have the same effect.
//
// After they have expired, the tokens begin at 1 again. A resource that still
// remembers an old token, outside Redis or under another name, then refuses all new
// holders; and a holder from before, as one that is frozen since, is admitted again by
// a guard that has forgotten the newer ones. A client that has seen the old tokens
// returns [ErrFenceRegressed]. So idle and after together must be longer than any process
// that used the lock can live, or stay frozen. Redisson's threads do not remove the TTL when they draw
// a token: where they use the name, ExpireTokens is not safe at all.
//
// idle must not be negative, and after at least a second. Errors: [ErrInvalid] also if Redis does not
// know for how long keys were not used, see [Client.TokenUses], and those of every
// method; see the package documentation.
func (c *Client) ExpireTokens(ctx context.Context, name string, idle, after time.Duration) (bool, error) {
	const op = "expire tokens"
	o := c.object(name)
	if idle < 0 || after < time.Second || after > terms.LongestLease {
		return false, o.fail(op, outcome.Invalid("tokens that were not used for %v would expire after %v; the first must not be negative, the second between a second and a year", idle, after))
	}
	var r script.TokensResult
	err := o.operate(ctx, op, func(ctx context.Context, _ script.Publish) error {
		names, _ := keyspace.CountedNames(keyspace.Token(o.core.Key()))
		if len(names) == 0 { // a name that only works on a single server
			names = []string{o.core.Key()}
		}
		r = script.InspectTokens(ctx, c.core.Config().Driver, idle, after, names)[0]
		return r.Err
	})
	return err == nil && r.Tokens.TTL >= 0, err
}
