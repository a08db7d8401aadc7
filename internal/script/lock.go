package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	lockAcquire = load("lock_acquire", "turns")
	lockReenter = load("lock_reenter")
	lockLeave   = load("lock_leave")
	lockRelease = load("lock_release", "redissons", "turns", "pass")
	lockForce   = loadAround("lock_force", "release", "lock_release", "redissons", "turns", "pass")
	lockRenew   = load("lock_renew")
	lockKeep    = load("lock_keep")
)

// ErrKind is returned if a name holds a hash of another kind than the requested
// object.
var ErrKind = &driver.Error{Class: driver.WrongType, Err: errors.New("the key is a hash, but not that of this kind of object")}

// Holder is an owner's entry in a lock.
type Holder struct {
	Owner string
	Count int           // -1 if the entry is not a count
	TTL   time.Duration // -1 if the key has none
}

// Lock is the operations of a plain lock.
type Lock struct{ hash }

// Lock returns the operations of the lock called name.
func (c *Conn) Lock(name string) Lock { return Lock{hash{c, name}} }

// Channel returns the channel on which releases are announced.
func (k *Lock) Channel() string { return keyspace.LockChannel(k.name) }

// Acquire acquires the lock, as [LockAcquire] does.
func (k *Lock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.OK, g.By, g.At, err = lockAcquired(ctx, k.driver(), k.name, a)
	return g, err
}

// Release releases the lock entirely, as [LockRelease] does.
func (k *Lock) Release(ctx context.Context, id string, t Turns) (Freed, error) {
	became, err := LockRelease(ctx, k.driver(), k.name, id, k.conn.Publish(), t)
	return Freed{Released: became}, err
}

// Force releases the lock entirely, as [LockForce] does.
func (k *Lock) Force(ctx context.Context, id string, t Turns) (Freed, error) {
	became, err := LockForce(ctx, k.driver(), k.name, id, k.conn.Publish(), t)
	return Freed{Released: became}, err
}

// Keep releases the lock, but leaves it taken, as [LockKeep] does.
func (k *hash) Keep(ctx context.Context, id string, left time.Duration, longer bool) (Released, error) {
	return LockKeep(ctx, k.driver(), k.name, id, id+kept, left, longer)
}

// LockAcquire acquires the lock key for owner, which must not have held it
// before. If it does not, it returns the holder; with an entry owner then has a turn.
func LockAcquire(ctx context.Context, d driver.Driver, key, owner string, lease time.Duration, entry Entry) (ok bool, by Holder, at Standing, err error) {
	return lockAcquired(ctx, d, key, Attempt{ID: owner, Lease: lease, Entry: entry})
}

// lockAcquired is LockAcquire for a caller that may have room for the words.
func lockAcquired(ctx context.Context, d driver.Driver, key string, a Attempt) (ok bool, by Holder, at Standing, err error) {
	words := a.Room
	if words == nil {
		words = new([3]string)
	}
	*words = [3]string{key, a.ID, millis(a.Lease)}
	call := driver.Call{Script: lockAcquire, Keys: words[:1:1], Args: words[1:]}
	a.addEntry(&call, key)
	v, err := d.Eval(ctx, call)
	if err != nil {
		return false, Holder{}, at, err
	}
	switch {
	case v.Int() == 11 || v.Int() == 12:
		return true, Holder{}, Standing{Came: v.Int() == 12}, nil
	case v.Int() == -11:
		return false, Holder{}, at, ErrKind
	case v.At(0).Int() == 0 && (is(v, "iiss") || is(v, "iissii")):
		return false, holder(v.At(1), v.At(2), v.At(3)), standing(v), nil
	}
	return false, Holder{}, at, unexpected(lockAcquire, v)
}

// LockReentry sets the count of a lock that owner holds and extends its lease.
func LockReentry(key, owner string, count int, lease time.Duration) Reentry {
	return reentryOf(driver.Call{
		Script: lockReenter, Keys: []string{key},
		Args: []string{owner, strconv.Itoa(count), millis(lease)},
	})
}

// LockLeave sets the count of a lock that owner holds and keeps. It
// reports false if owner does not hold it.
func LockLeave(ctx context.Context, d driver.Driver, key, owner string, count int) (bool, error) {
	return flag(ctx, d, driver.Call{
		Script: lockLeave, Keys: []string{key},
		Args: []string{owner, strconv.Itoa(count)},
	})
}

// kept is the end of the name that takes the place of an owner, see [LockKeep].
const kept = ":kept"

// KeptBy returns the owner that has released a lock which is only kept, and false for any other owner.
func KeptBy(owner string) (former string, ok bool) {
	return strings.CutSuffix(strings.TrimSuffix(owner, ":write"), kept)
}

// LockKeep releases a lock of any kind that is a hash with a field for its owner, but leaves
// it taken for that long, under the name keeper: with longer set for no less than it would
// last anyway.
func LockKeep(ctx context.Context, d driver.Driver, key, owner, keeper string, left time.Duration, longer bool) (Released, error) {
	how := ""
	if longer {
		how = "longer"
	}
	return became(ctx, d, driver.Call{Script: lockKeep, Keys: []string{key}, Args: []string{owner, keeper, millis(left), how}})
}

// Released is the outcome of a release.
type Released int

// The outcomes of a release.
const (
	NotHeld         Released = iota // its owner did not hold it
	ReleasedNow                     // its owner held it until now
	ReleasedLeft                    // the same, and it was left to threads of Redisson's that listen
	ReleasedGranted                 // the same, and it was granted to the next turn
)

// LockRelease releases the lock key entirely, and grants it to the next turn, or
// takes owner out of the turns. If the lock was released, err may still say,
// with class Denied, that waiters could not be notified.
func LockRelease(ctx context.Context, d driver.Driver, key, owner string, p Publish, t Turns) (Released, error) {
	became, err := lockReleased(ctx, d, key, owner, p, t)
	if became == NotHeld && t.denied(err) {
		why := err
		if became, err = lockReleased(ctx, d, key, owner, p, Turns{}); became != NotHeld {
			err = turnless(why)
		}
	}
	return became, err
}

// LockForce releases the lock key entirely, as LockRelease does, and moves its fence: the counter of
// its tokens, if it has one, and the fence of the guarded resource of that name. Without the right
// to these the lock is released nevertheless, and err says so, with class Denied.
func LockForce(ctx context.Context, d driver.Driver, key, owner string, p Publish, t Turns) (Released, error) {
	became, err := releasedWith(ctx, d, lockForce, key, owner, p, t, keyspace.Token(key), keyspace.Fence(key))
	if became == NotHeld && driver.ClassOf(err) == driver.Denied {
		why := err
		if became, err = LockRelease(ctx, d, key, owner, p, t); became != NotHeld {
			err = &driver.Error{Class: driver.Denied, Err: fmt.Errorf("released, but its fence was not moved: %w", why)}
		}
	}
	return became, err
}

// lockReleased is LockRelease, which fails without the right to the turns.
func lockReleased(ctx context.Context, d driver.Driver, key, owner string, p Publish, t Turns) (Released, error) {
	return releasedWith(ctx, d, lockRelease, key, owner, p, t)
}

// releasedWith releases with a script that has the arguments and the replies of lock_release, and more
// keys.
func releasedWith(ctx context.Context, d driver.Driver, s *driver.Script, key, owner string, p Publish, t Turns, more ...string) (Released, error) {
	room := t.Room
	if room == nil {
		room = new(ReleaseRoom)
	}
	words := append(room[:0], key)
	channel, turns, clients := "", "", ""
	switch {
	case t.Command != "":
		channel, turns, clients = keyspace.ReleaseNames(key)
		words = append(words, turns)
	case p != Silent:
		channel = keyspace.LockChannel(key)
	}
	words = append(words, more...)
	keys := len(words)
	words = append(append(words, owner, t.Command, channel, clients, strconv.Itoa(t.Row), t.with()), p.commands()...)
	v, err := d.Eval(ctx, driver.Call{Script: s, Keys: words[:keys:keys], Args: words[keys:]})
	if err != nil {
		return NotHeld, err
	}
	switch {
	case v.Int() == 21:
		return ReleasedNow, nil
	case v.Int() == 22:
		return ReleasedLeft, nil
	case v.Int() == 23:
		return ReleasedGranted, nil
	case v.Int() == 20:
		return NotHeld, nil
	case v.At(0).Int() == 21 && is(v, "is"):
		return ReleasedNow, unheard(v.At(1).Str())
	}
	return NotHeld, unexpected(s, v)
}

// became runs a script that releases, and that answers {status} or {status, reason}.
func became(ctx context.Context, d driver.Driver, call driver.Call) (Released, error) {
	v, err := d.Eval(ctx, call)
	if err != nil {
		return NotHeld, err
	}
	if !states(v, int64(NotHeld), int64(ReleasedLeft)) {
		return NotHeld, unexpected(call.Script, v)
	}
	return Released(v.At(0).Int()), unheard(v.At(1).Str())
}

// LockRenewal extends the lease of a lock, of any kind that is a hash with a
// field for its owner.
func LockRenewal(key, owner string, lease time.Duration) Renewal {
	return Renewal{Script: lockRenew, Key: key, Args: []string{owner, millis(lease)}}
}

// unheard is the error for a release that Redis refused to publish.
func unheard(reason string) error {
	if reason == "" {
		return nil
	}
	err := fmt.Errorf("released, but Redis refused to notify waiters: %.500s", explained(reason))
	return &driver.Error{Class: driver.ClassifyReply(reason), Err: err}
}

// explained says in words why Redis did not publish, if the reason is that it has no SPUBLISH.
func explained(reason string) string {
	if strings.Contains(reason, "Unknown Redis command") || strings.Contains(reason, "Unknown command") { // Redis, Valkey
		return "it has no SPUBLISH, which came with Redis 7.0; PubSubAuto uses it only where it exists (" + reason + ")"
	}
	return reason
}

// holder reads who is in the way: with the count 0 nobody, as the lock is left to Redisson's threads.
func holder(left, owner, count driver.Value) Holder {
	h := Holder{Owner: owner.Str(), TTL: ttl(left)}
	if h.Owner != "" || count.Str() != "~" {
		h.Count = Count(count.Str())
	}
	return h
}

// Count reads how often a lock is held. Any other content, which only other programs
// write, reads as -1: the lock is held nevertheless.
func Count(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return -1
}

// flag runs a script that answers {1} or {0}.
func flag(ctx context.Context, d driver.Driver, call driver.Call) (bool, error) {
	v, err := d.Eval(ctx, call)
	if err != nil {
		return false, err
	}
	return flagged(call.Script, v)
}

// flagged reads such a reply.
func flagged(s *driver.Script, v driver.Value) (bool, error) {
	if !is(v, "i") || !states(v, 0, 1) {
		return false, unexpected(s, v)
	}
	return v.At(0).Int() == 1, nil
}
