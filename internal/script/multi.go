package script

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	multiAcquire = load("multi_acquire", "turns")
	multiRelease = load("multi_release", "redissons", "turns", "pass")
)

// errNoLock is [ErrKind] for a key of any type.
var errNoLock = &driver.Error{Class: driver.WrongType, Err: noLock{}}

type noLock struct{}

func (noLock) Error() string        { return "the key is not that of a lock" }
func (noLock) Is(target error) bool { return target == error(ErrKind) }

// MultiAcquire acquires all of the locks, or none, for owner, which must not have
// held any of them before. If none, it returns the index of one that is held, and its
// holder. The keys share a slot. With yields set, that is nobody, with the count 0, if the lock is free and
// left to Redisson's threads. With [ErrKind], at is the index of the key of another kind.
func MultiAcquire(ctx context.Context, d driver.Driver, keys []string, owner string, lease time.Duration, yields bool) (ok bool, at int, by Holder, err error) {
	call := driver.Call{Script: multiAcquire, Keys: slices.Clip(keys), Args: []string{owner, millis(lease)}}
	if yields {
		for _, key := range keys {
			call.Keys = append(call.Keys, keyspace.Turns(key))
		}
		call.Args = append(call.Args, "yields")
	}
	v, err := d.Eval(ctx, call)
	if yields && err != nil && driver.ClassOf(err) == driver.Denied { // a user without rights to the turns can acquire the locks
		return MultiAcquire(ctx, d, keys, owner, lease, false)
	}
	if err != nil {
		return false, 0, Holder{}, err
	}
	at = int(v.At(1).Int()) - 1
	switch {
	case v.At(0).Int() == 1 && is(v, "i"):
		return true, 0, Holder{}, nil
	case v.Len() < 2 || at < 0 || at >= len(keys):
	case v.At(0).Int() == -1:
		return false, at, Holder{}, errNoLock
	case v.At(0).Int() == 0 && is(v, "iiiss"):
		return false, at, holder(v.At(2), v.At(3), v.At(4)), nil
	}
	return false, 0, Holder{}, unexpected(multiAcquire, v)
}

// Release is one lock to release.
type Release struct {
	Key, Owner, Channel string
	Turns               Turns // their command is that of all
}

// MultiRelease releases all of the locks entirely. It reports for each whether
// its owner held it. The keys share a slot. If only the waiters could not be notified,
// err says so, with class Denied, in addition to the answers.
func MultiRelease(ctx context.Context, d driver.Driver, locks []Release, p Publish) (released []Released, err error) {
	released, err = multiReleased(ctx, d, locks, p, locks[0].Turns.Command)
	if released == nil && locks[0].Turns.denied(err) {
		why := err
		released, err = multiReleased(ctx, d, locks, p, "")
		if slices.ContainsFunc(released, func(r Released) bool { return r != NotHeld }) {
			err = turnless(why)
		}
	}
	return released, err
}

// multiReleased is MultiRelease, which fails without the right to the turns.
func multiReleased(ctx context.Context, d driver.Driver, locks []Release, p Publish, command string) (released []Released, err error) {
	call := driver.Call{Script: multiRelease}
	for _, l := range locks {
		turns := l.Key // not read
		if command != "" {
			turns = keyspace.Turns(l.Key)
		}
		call.Keys = append(call.Keys, l.Key, turns)
		call.Args = append(call.Args, l.Owner, command, l.Channel, keyspace.TurnChannel(l.Key, ""), strconv.Itoa(l.Turns.Row), l.Turns.with())
	}
	call.Args = append(call.Args, p.commands()...)
	v, err := d.Eval(ctx, call)
	if err != nil {
		return nil, err
	}
	n := len(locks)
	if v.Kind() != driver.Array || v.Len() != n && (v.Len() != n+1 || v.At(n).Kind() != driver.String) {
		return nil, unexpected(multiRelease, v)
	}
	released = make([]Released, n)
	for i := range released {
		if s := v.At(i); s.Kind() != driver.Int || s.Int() < int64(NotHeld) || s.Int() > int64(ReleasedGranted) {
			return nil, unexpected(multiRelease, v)
		}
		released[i] = Released(v.At(i).Int())
	}
	return released, unheard(v.At(n).Str())
}
