package script

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	fairAcquire = loadAround("fair_acquire", "judge", "fair_head", "foreign", "fair")
	fairRelease = loadAround("fair_release", "judge", "fair_head", "foreign", "fair")
	fairTend    = loadAround("fair_tend", "judge", "fair_head", "foreign", "fair")
	fairInspect = load("fair_inspect")
)

// fairStep is how much later the deadline of a Redisson waiter is than that of
// the waiter before it: Redisson's fairLockWaitTimeout.
const fairStep = 300 * time.Second

// FairLock is the operations of a fair lock.
type FairLock struct {
	hash
	keys FairKeys
}

// FairLock returns the operations of the lock called name.
func (c *Conn) FairLock(name string) FairLock { return FairLock{hash{c, name}, NewFairKeys(name)} }

// Fair returns the lock, with its ways to publish.
func (k *FairLock) Fair() Fair {
	return Fair{FairKeys: k.keys, Publish: k.conn.Publish(), Cluster: k.conn.Cluster(), Turns: k.conn.TurnCommand(), Step: k.conn.fair, passed: k.conn.passed}
}

// Channel is empty: each waiter has its own.
func (k *FairLock) Channel() string { return "" }

// Acquire acquires the lock if it is free and has no waiters.
func (k *FairLock) Acquire(ctx context.Context, a Attempt) (Grant, error) {
	ok, why, err := FairAcquire(ctx, k.driver(), k.Fair(), FairPlace{Owner: a.ID}, a.Lease, FairOnce)
	return Grant{OK: ok, By: why.Holder}, err
}

// Release releases the lock entirely, as [FairRelease] does.
func (k *FairLock) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	ok, again, err := FairRelease(ctx, k.driver(), k.Fair(), id)
	f, err := freed(ok, err)
	f.Again = again
	return f, err
}

// Force releases the lock and moves its fence, as [LockForce] does, and then wakes the next waiter of the
// queue. If that fails, or is lost, the waiter looks by itself a moment later.
func (k *FairLock) Force(ctx context.Context, id string, t Turns) (Freed, error) {
	became, err := LockForce(ctx, k.driver(), k.name, id, k.conn.Publish(), t)
	if became == NotHeld {
		return Freed{Released: became}, err
	}
	f, failed := k.Release(ctx, id, t)
	f.Released = became
	return f, cmp.Or(err, failed)
}

// Fair is a fair lock and the ways to publish for it.
type Fair struct {
	FairKeys
	Publish Publish
	// Cluster means that subscribers may be on other servers than the lock.
	Cluster bool
	// Turns is the command that notifies mortise's clients; it is empty if each of their
	// waiters has a channel of its own.
	Turns string
	// Step is how much later the deadline of a Redisson waiter is than that of the one
	// before it, in ms; empty for the default.
	Step string

	passed func(lock string, n int) // is called when dead waiters were dropped; may be nil
}

// tell tells how many dead waiters a script has dropped.
func (f *Fair) tell(v driver.Value) {
	if n := v.Int(); n > 0 && f.passed != nil {
		f.passed(f.keys[0], int(n))
	}
}

// FairKeys are the keys of a fair lock, and the prefixes of its channels.
type FairKeys struct {
	keys             []string
	waiters, clients string
}

// NewFairKeys returns the keys of the fair lock name.
func NewFairKeys(name string) FairKeys {
	return FairKeys{
		keys: []string{
			name, keyspace.FairQueue(name), keyspace.FairDeadlines(name), keyspace.FairOurs(name), keyspace.FairSigns(name),
		},
		waiters: keyspace.FairChannel(name, ""), clients: keyspace.FairTurnChannel(name, ""),
	}
}

var fairStepText = millis(fairStep)

func (f Fair) call(s *driver.Script, args ...string) driver.Call {
	all := make([]string, 0, 6+len(args))
	all = append(all, f.waiters, f.probes(), f.speech(), cmp.Or(f.Step, fairStepText), f.clients, f.Turns)
	return driver.Call{Script: s, Keys: f.keys, Args: append(all, args...)}
}

// probes returns the command that counts subscribers. On a cluster only
// sharded subscriptions are known to be on the server of the lock.
func (f Fair) probes() string {
	switch {
	case !f.Cluster:
		return "numsub"
	case f.Publish == Sharded:
		return "shardnumsub"
	default:
		return ""
	}
}

func (f Fair) speech() string {
	switch f.Publish {
	case Sharded:
		return "spublish"
	case Both:
		return "publish spublish"
	default:
		return "publish"
	}
}

// FairMode says whether a refused acquirer of a fair lock queues.
type FairMode string

// The ways to ask for a fair lock.
const (
	FairOnce  FairMode = "once"  // it does not queue
	FairQueue FairMode = "queue" // it queues, if it has not yet
	FairAgain FairMode = "again" // it has queued before
)

// FairRefusal is why a fair lock was not acquired.
type FairRefusal struct {
	Holder               // the holder, or with count 0 the next one
	Again  time.Duration // after what time something may change without a message; 0 if not known
	Queued int           // the length of the queue
	// Since is the server's time in microseconds, if this call took the
	// place in the queue, and 0 otherwise.
	Since int64
	// Mixed means that a thread of Redisson's holds or waits for the lock.
	Mixed bool
	// Came means that the owner, which now holds the lock, was granted it or notified
	// before this call; or that an earlier copy of the call acquired it.
	Came bool
}

// FairPlace is a waiter's place in the queue, as the waiter describes it.
type FairPlace struct {
	Owner string
	// Nonce is in the message that grants the owner the lock; no other client
	// knows it before. Without one the lock cannot be granted to the owner.
	Nonce string
	// Ahead is how long Redisson waits for the owner once it is the first, unless it
	// gives another sign of life.
	Ahead time.Duration
}

// FairAcquire acquires the lock for the owner of a place, which must not have held
// it before, or takes the place in the queue.
func FairAcquire(ctx context.Context, d driver.Driver, f Fair, p FairPlace, lease time.Duration, mode FairMode) (ok bool, why FairRefusal, err error) {
	v, err := d.Eval(ctx, f.call(fairAcquire, p.Owner, millis(lease), string(mode), p.Nonce, p.ahead()))
	if err != nil {
		return false, FairRefusal{}, err
	}
	switch {
	case (v.At(0).Int() == 1 || v.At(0).Int() == 2) && is(v, "ii"):
		f.tell(v.At(1))
		return true, FairRefusal{Came: v.At(0).Int() == 2}, nil
	case v.At(0).Int() == -1:
		return false, FairRefusal{}, ErrKind
	case v.At(0).Int() == 0 && (is(v, "iisiii") || is(v, "iisiiiiii")):
		f.tell(v.At(8))
		by := Holder{Owner: v.At(2).Str(), Count: int(v.At(3).Int()), TTL: ttl(v.At(1))}
		again := span(v.At(6).Int())
		return false, FairRefusal{Holder: by, Again: again, Queued: int(v.At(4).Int()), Since: v.At(5).Int(), Mixed: v.At(7).Int() == 1}, nil
	}
	return false, FairRefusal{}, unexpected(fairAcquire, v)
}

func (p FairPlace) ahead() string { return strconv.FormatInt(p.Ahead.Milliseconds(), 10) }

// FairRelease releases the lock entirely, or takes owner out of the queue. It
// reports whether owner held the lock; as with [LockRelease] it may do so with
// an error. If again is not 0, the lock should be released once more after that time,
// for an owner that does not hold it: this wakes the next waiter that does not poll, if
// this one is gone.
func FairRelease(ctx context.Context, d driver.Driver, f Fair, owner string) (released bool, again time.Duration, err error) {
	released, again, _, err = fairReleaseAll(ctx, d, f, owner)
	return released, again, err
}

// FairLeaveMost is the maximal number of owners that [FairLeave] handles.
const FairLeaveMost = 100

// FairLeave releases the lock for whichever of the owners holds it, and takes the
// others out of the queue. They must be in the order of the queue: then the
// next one is found at its head. It handles the first ones, and returns their number.
// Again is as with [FairRelease].
func FairLeave(ctx context.Context, d driver.Driver, f Fair, owners []string) (done int, again time.Duration, err error) {
	_, again, done, err = fairReleaseAll(ctx, d, f, owners...)
	return done, again, err
}

func fairReleaseAll(ctx context.Context, d driver.Driver, f Fair, owners ...string) (released bool, again time.Duration, done int, err error) {
	v, err := d.Eval(ctx, f.call(fairRelease, owners...))
	if err != nil {
		return false, 0, 0, err
	}
	if v.Int() == 31 {
		return true, 0, 1, nil
	}
	done = int(v.At(2).Int())
	if !is(v, "iiii") && !is(v, "iiiis") || done < 1 || done > len(owners) || v.At(0).Int()&^1 != 0 {
		return false, 0, 0, unexpected(fairRelease, v)
	}
	f.tell(v.At(3))
	return v.At(0).Int() == 1, span(v.At(1).Int()), done, unheard(v.At(4).Str())
}

// FairTend keeps waiters of one client in the queue, and returns what is new to them. Again and
// Mixed are as in [FairRefusal].
func FairTend(ctx context.Context, d driver.Driver, f Fair, client string, waiters []FairPlace) (news FairNews, err error) {
	args := make([]string, 0, 1+3*len(waiters))
	args = append(args, client)
	for _, w := range waiters {
		args = append(args, w.Owner, w.Nonce, w.ahead())
	}
	v, err := d.Eval(ctx, f.call(fairTend, args...))
	if err != nil {
		return news, err
	}
	if !begins(v, "iiisii") {
		return news, unexpected(fairTend, v)
	}
	f.tell(v.At(2))
	news.Again, news.Mixed = span(v.At(0).Int()), v.At(1).Int() == 1
	news.Holder = Holder{Owner: v.At(3).Str(), Count: int(v.At(4).Int()), TTL: span(v.At(5).Int())}
	for i := 6; i < v.Len(); i++ {
		if v.At(i).Kind() != driver.String {
			return FairNews{}, unexpected(fairTend, v)
		}
		news.Ask = append(news.Ask, v.At(i).Str())
	}
	return news, nil
}

// FairNews is what a client learns when it shows that it is alive.
type FairNews struct {
	Ask    []string      // the waiters that should ask for the lock
	Again  time.Duration // in what time something may change without a message; or 0
	Mixed  bool          // a thread of Redisson's holds the lock or waits for it
	Holder Holder        // of the lock; without an owner if nobody has it, or several
}

// FairWaiter is one place in the queue of a fair lock.
type FairWaiter struct {
	Owner string
	// Left is how long Redisson waits for it as the head of the queue; negative
	// if it no longer does.
	Left time.Duration
}

// FairInspect reads at most limit places of the queue of a fair lock, beginning at its
// head.
func FairInspect(ctx context.Context, d driver.Driver, name string, limit int) ([]FairWaiter, error) {
	v, err := d.Eval(ctx, driver.Call{
		Script: fairInspect, Keys: []string{keyspace.FairQueue(name), keyspace.FairDeadlines(name)},
		Args: []string{strconv.Itoa(limit)},
	})
	if err != nil {
		return nil, err
	}
	if v.At(0).Kind() != driver.Int || v.Len()%2 != 1 {
		return nil, unexpected(fairInspect, v)
	}
	var queue []FairWaiter
	for i := 1; i < v.Len(); i += 2 {
		if v.At(i).Kind() != driver.String || v.At(i+1).Kind() != driver.String {
			return nil, unexpected(fairInspect, v)
		}
		w := FairWaiter{Owner: v.At(i).Str(), Left: -1}
		if deadline, err := strconv.ParseInt(v.At(i+1).Str(), 10, 64); err == nil {
			w.Left = span(deadline) - span(v.At(0).Int())
		}
		queue = append(queue, w)
	}
	return queue, nil
}
