package script

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// For each kind of lock there is a type with its operations: Channel, Acquire,
// Reenter, Leave, Release and Renewal. The interface is the root package's.

// Attempt is what a lock is asked for with.
type Attempt struct {
	ID    string // of the lease, which never had the lock before
	Lease time.Duration
	Entry Entry // of the client in the turns, where there are some
	Claim bool  // if refused, others are to leave to it what it wants, where they can
}

// Grant is the answer to an attempt, or to a re-entry.
type Grant struct {
	OK    bool
	By    Holder         // that is in the way, if not
	Lack  *PermitRefusal // what is in the way, where it is no holder in particular
	At    Standing       // of the entry
	Token int64          // that was drawn, of a kind that has them
}

// Freed is what came of a release.
type Freed struct {
	Released
	Again time.Duration // as in [FairRelease]
}

// freed is what came of a release that tells no more than whether it was one.
func freed(ok bool, err error) (Freed, error) {
	if ok {
		return Freed{Released: ReleasedNow}, err
	}
	return Freed{}, err
}

// hash is a lock that is a hash with a field for its owner, as most kinds are.
type hash struct {
	conn *Conn
	name string
}

func (k *hash) driver() driver.Driver { return k.conn.driver }

// Reenter sets the count of a lock that id has, and extends its lease.
func (k *hash) Reenter(ctx context.Context, id string, count int, lease time.Duration) (g Grant, err error) {
	g.OK, err = LockReenter(ctx, k.driver(), k.name, id, count, lease)
	return g, err
}

// Leave sets the count of a lock that id has and keeps.
func (k *hash) Leave(ctx context.Context, id string, count int) (bool, error) {
	return LockLeave(ctx, k.driver(), k.name, id, count)
}

// Renewal extends the lease of id.
func (k *hash) Renewal(id string, lease time.Duration) Renewal {
	return LockRenewal(k.name, id, lease)
}

// single is a lock whose leases nobody re-enters.
type single struct{}

// Reenter is not called.
func (single) Reenter(context.Context, string, int, time.Duration) (Grant, error) {
	return Grant{}, nil
}

// Leave is not called.
func (single) Leave(context.Context, string, int) (bool, error) { return false, nil }
