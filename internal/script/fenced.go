package script

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	fencedAcquire = load("fenced_acquire", "fenced", "turns")
	fencedReenter = load("fenced_reenter", "fenced")
	fencedToken   = load("fenced_token")
)

// ErrToken is returned if the key that counts the tokens of a fenced lock, or the terms of an election,
// holds something that cannot be counted further.
var ErrToken = &driver.Error{Class: driver.WrongType, Err: errors.New("the key of the fencing token, or of the last term, holds no number to count from")}

// FencedLock is the operations of a lock that numbers its holders.
type FencedLock struct{ Lock }

// FencedLock returns the operations of the lock called name.
func (c *Conn) FencedLock(name string) FencedLock { return FencedLock{c.Lock(name)} }

// Acquire acquires the lock, as [FencedAcquire] does.
func (k *FencedLock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.Token, g.By, g.At, err = fencedAcquired(ctx, k.driver(), k.name, a)
	g.OK = g.Token > 0
	return g, err
}

// Reentry sets the count of a lock that id holds, as [FencedReentry] does.
func (k *FencedLock) Reentry(id string, count int, lease time.Duration) Reentry {
	return FencedReentry(k.name, id, count, lease)
}

// FencedAcquire acquires the lock name for owner, which must not have held it
// before, and draws a token. Otherwise it works like [LockAcquire].
func FencedAcquire(ctx context.Context, d driver.Driver, name, owner string, lease time.Duration, entry Entry) (token int64, by Holder, at Standing, err error) {
	return fencedAcquired(ctx, d, name, Attempt{ID: owner, Lease: lease, Entry: entry})
}

// fencedAcquired is FencedAcquire with all that an attempt says.
func fencedAcquired(ctx context.Context, d driver.Driver, name string, a Attempt) (token int64, by Holder, at Standing, err error) {
	call := driver.Call{Script: fencedAcquire, Keys: fencedKeys(name), Args: []string{a.ID, millis(a.Lease)}}
	a.addEntry(&call, name)
	v, err := d.Eval(ctx, call)
	if err != nil {
		return 0, Holder{}, at, err
	}
	switch n := v.At(0).Int(); {
	case (n == 1 || n == 2) && v.At(1).Int() > 0 && is(v, "ii"):
		return v.At(1).Int(), Holder{}, Standing{Came: n == 2}, nil
	case n == -1:
		return 0, Holder{}, at, ErrKind
	case n == -2:
		return 0, Holder{}, at, ErrToken
	case n == 0 && (is(v, "iiss") || is(v, "iissii")):
		return 0, holder(v.At(1), v.At(2), v.At(3)), standing(v), nil
	}
	return 0, Holder{}, at, unexpected(fencedAcquire, v)
}

// FencedReentry sets the count of a lock that owner holds, extends its lease
// and draws a token.
func FencedReentry(name, owner string, count int, lease time.Duration) Reentry {
	return Reentry{driver.Call{
		Script: fencedReenter, Keys: fencedKeys(name),
		Args: []string{owner, strconv.Itoa(count), millis(lease)},
	}, func(v driver.Value) (Grant, error) {
		switch n := v.At(0).Int(); {
		case n == 1 && v.At(1).Int() > 0 && is(v, "ii"):
			return Grant{OK: true, Token: v.At(1).Int()}, nil
		case n == -2:
			return Grant{}, ErrToken
		case n == 0 && is(v, "i"):
			return Grant{}, nil
		}
		return Grant{}, unexpected(fencedReenter, v)
	}}
}

// FencedToken returns the last token drawn for the lock name, 0 if there is none.
func FencedToken(ctx context.Context, d driver.Driver, name string) (int64, error) {
	v, err := d.Eval(ctx, driver.Call{Script: fencedToken, Keys: []string{keyspace.Token(name)}})
	if err != nil {
		return 0, err
	}
	if !is(v, "s") {
		return 0, unexpected(fencedToken, v)
	}
	token, err := strconv.ParseInt(v.At(0).Str(), 10, 64)
	if err != nil {
		return 0, ErrToken
	}
	return token, nil
}

func fencedKeys(name string) []string { return []string{name, keyspace.Token(name)} }
