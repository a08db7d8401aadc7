package script

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Each kind of lock has a type with its operations: Channel, Acquire,
// Reentry, Leave, Release and Renewal. Package lease defines the interface.

// Attempt is the arguments of an acquisition.
type Attempt struct {
	ID    string // of the lease; the id must not have had the lock before
	Lease time.Duration
	Entry Entry // the client's entry in the turns, if the kind has turns
	Claim bool  // if refused, later requests must leave it what it wants, if the kind supports that

	Yields bool // with an entry: it is refused while the lock is left to Redisson's threads

	Client string // that claims, if it listens to a channel of its own

	Room *[3]string // for the words of one call, as [ReleaseRoom]; may be nil
}

// Grant is the answer to an attempt, or to a re-entry.
type Grant struct {
	OK    bool
	By    Holder         // the holder, if refused
	Lack  *PermitRefusal // why it was refused, if not because of one holder
	At    Standing       // the state of the entry
	Token int64          // the token drawn, if the kind has tokens
	Spare int            // how many permits others may acquire without a claim
}

// Reentry is a script that sets the count of a lock that an id holds, or leaves it as it is for a count of
// 0, extends its lease, and draws a token if the kind has tokens. So what a lock consists of is there after
// it, also if only an older state was there before, as after a failover.
type Reentry struct {
	driver.Call
	read func(driver.Value) (Grant, error)
}

// Run runs the script.
func (r Reentry) Run(ctx context.Context, d driver.Driver) (Grant, error) {
	v, err := d.Eval(ctx, r.Call)
	return r.Answer(driver.Result{Value: v, Err: err})
}

// Answer reads the reply to the script.
func (r Reentry) Answer(reply driver.Result) (Grant, error) {
	if reply.Err != nil {
		return Grant{}, reply.Err
	}
	return r.read(reply.Value)
}

// reentryOf returns the Reentry of a script that replies {1} or, if the owner does not hold the lock, {0}.
func reentryOf(call driver.Call) Reentry {
	return Reentry{call, func(v driver.Value) (g Grant, err error) {
		g.OK, err = flagged(call.Script, v)
		return g, err
	}}
}

// Freed is the outcome of a release.
type Freed struct {
	Released
	Again time.Duration // as in [FairRelease]
}

// freed makes a Freed of a release that only reports whether the lock was held.
func freed(ok bool, err error) (Freed, error) {
	if ok {
		return Freed{Released: ReleasedNow}, err
	}
	return Freed{}, err
}

// hash is a lock that is a hash with a field for its owner, like most kinds.
type hash struct {
	conn *Conn
	name string
}

func (k *hash) driver() driver.Driver { return k.conn.driver }

// Reentry sets the count of a lock that id holds, and extends its lease.
func (k *hash) Reentry(id string, count int, lease time.Duration) Reentry {
	return LockReentry(k.name, id, count, lease)
}

// Leave sets the count of a lock that id holds and keeps.
func (k *hash) Leave(ctx context.Context, id string, count int) (bool, error) {
	return LockLeave(ctx, k.driver(), k.name, id, count)
}

// Renewal extends the lease of id.
func (k *hash) Renewal(id string, lease time.Duration) Renewal {
	return LockRenewal(k.name, id, lease)
}

// single is a lock whose leases are never re-entered.
type single struct{}

// Reentry is not called.
func (single) Reentry(string, int, time.Duration) Reentry { return Reentry{} }

// Leave is not called.
func (single) Leave(context.Context, string, int) (bool, error) { return false, nil }
