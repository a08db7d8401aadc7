package script

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	permitAcquire = load("permit_acquire", "claims", "permit")
	permitRelease = load("permit_release", "redissons", "claims", "freed", "permit")
	permitRenew   = load("permit_renew")
	permitSet     = load("permit_set", "claims", "permit")
	permitExtend  = load("permit_extend", "claims", "permit")
	permitInspect = load("permit_inspect", "claims", "permit")
	permitDelete  = load("permit_delete", "claims", "permit")
)

// ErrTooMany is returned if a semaphore would have more permits than Java
// can count.
var ErrTooMany = &driver.Error{Class: driver.Other, Err: errors.New("there would be more permits than Redisson can count")}

// Permits is a permit semaphore and the ways to publish for it. The ids of permits
// are 32 hex digits.
type Permits struct {
	Name    string
	Publish Publish
	Turn    string // as [Conn.TurnCommand]
	Serial  int64  // [Conn.NextRelease] for a release; 0 if the permits are not to be left to Redisson's threads
}

// Permits returns the permit semaphore called name.
func (c *Conn) Permits(name string) Permits { return Permits{name, c.Publish(), c.TurnCommand(), 0} }

// PermitSemaphore is the operations of a semaphore whose permits have leases. The id of
// a lease is the comma-separated ids of its permits.
type PermitSemaphore struct {
	single
	conn *Conn
	name string
}

// PermitSemaphore returns the operations of the semaphore called name.
func (c *Conn) PermitSemaphore(name string) PermitSemaphore {
	return PermitSemaphore{conn: c, name: name}
}

// PermitIDs returns the ids of the permits of a lease.
func PermitIDs(lease string) []string { return strings.Split(lease, ",") }

// Channel returns the channel on which releases are announced.
func (k *PermitSemaphore) Channel() string { return keyspace.SemaphoreChannel(k.name) }

// Acquire acquires the permits, as [PermitAcquire] does.
func (k *PermitSemaphore) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	var why PermitRefusal
	g.OK, why, err = PermitAcquire(ctx, k.conn.driver, k.conn.Permits(k.name), PermitIDs(a.ID), a.Lease, a.Claim, a.Client)
	if g.OK {
		g.Spare = why.Available
	} else {
		g.Lack = &why
	}
	return g, err
}

// Release gives the permits back. It reports [NotHeld] if any of them was gone or over.
func (k *PermitSemaphore) Release(ctx context.Context, id string, t Turns) (Freed, error) {
	ids, p := PermitIDs(id), k.conn.Permits(k.name)
	if !t.Keep {
		p.Serial = k.conn.NextRelease()
	}
	n, left, err := PermitRelease(ctx, k.conn.driver, p, "", ids)
	if n == len(ids) && left {
		return Freed{Released: ReleasedLeft}, err
	}
	return freed(n == len(ids), err)
}

// Reentry extends the lease of the permits: each is held once.
func (k *PermitSemaphore) Reentry(id string, _ int, lease time.Duration) Reentry {
	call := Renewals([][]Renewal{{k.Renewal(id, lease)}})[0]
	return Reentry{call, func(v driver.Value) (g Grant, err error) {
		r := RenewalAnswer(call, driver.Result{Value: v})
		return Grant{OK: r.Err == nil && r.States[0] == Renewed}, r.Err
	}}
}

// Renewal extends the lease of the permits.
func (k *PermitSemaphore) Renewal(id string, lease time.Duration) Renewal {
	return PermitRenewal(k.name, PermitIDs(id), lease)
}

// call runs a script. Operation, if not empty, is its id: a repeat changes
// nothing.
func (p Permits) call(ctx context.Context, d driver.Driver, s *driver.Script, operation string, args ...string) (driver.Value, error) {
	keys := []string{p.Name, keyspace.PermitExpiries(p.Name), keyspace.Claims(p.Name)}
	if operation != "" {
		keys = append(keys, keyspace.Operation(p.Name, operation))
	}
	v, err := d.Eval(ctx, driver.Call{
		Script: s, Keys: keys,
		Args: append([]string{keyspace.SemaphoreChannel(p.Name), strings.Join(p.Publish.commands(), " "), millis(Remembered)}, args...),
	})
	switch {
	case err != nil:
		return driver.Value{}, err
	case v.Kind() != driver.Array || v.At(0).Kind() != driver.Int:
		return driver.Value{}, unexpected(s, v)
	case v.At(0).Int() == -1 && is(v, "i"):
		return driver.Value{}, ErrNumber
	}
	return v, nil
}

// ClaimLife is how long a claim to permits lasts unless its waiter renews it; see claims.lua.
const ClaimLife = 3 * time.Second

// PermitRefusal is why permits were not acquired.
type PermitRefusal struct {
	Wanted    int
	Available int
	Left      int           // how many of them are reserved for other waiters
	Next      time.Duration // after what time the first permit ends; -1 if none does
	Unset     bool          // there is no semaphore
}

// permitRefusal reads the reply of a refusal.
func permitRefusal(v driver.Value, wanted int, next time.Duration) PermitRefusal {
	return PermitRefusal{
		Wanted: wanted, Available: int(v.At(1).Int()), Left: int(v.At(2).Int()), Next: next,
		Unset: v.At(1).Kind() == driver.Nil,
	}
}

// PermitAcquire acquires permits, all or none, under ids that were never used
// before. With claim, if there are not enough, later requests of mortise leave that
// many for three seconds. why.Available and client are as with [SemaphoreAcquire].
func PermitAcquire(ctx context.Context, d driver.Driver, p Permits, ids []string, lease time.Duration, claim bool, client string) (ok bool, why PermitRefusal, err error) {
	mode := "once"
	if claim {
		mode = "claim" + client
	}
	v, err := p.call(ctx, d, permitAcquire, "", append([]string{millis(lease), mode}, ids...)...)
	switch {
	case err != nil:
		return false, PermitRefusal{}, err
	case v.At(0).Int() == 1 && is(v, "ii"):
		return true, PermitRefusal{Available: int(v.At(1).Int())}, nil
	case v.At(0).Int() == 0 && is(v, "inii"):
		return false, permitRefusal(v, len(ids), ttl(v.At(3))), nil
	}
	return false, PermitRefusal{}, unexpected(permitAcquire, v)
}

// PermitRelease gives back the permits that exist, and ends a claim under the
// first id. It reports how many of them had not expired, and whether they were left to Redisson's threads; as with
// [LockRelease] it may do so with an error. Operation may be empty.
func PermitRelease(ctx context.Context, d driver.Driver, p Permits, operation string, ids []string) (released int, left bool, err error) {
	v, err := p.call(ctx, d, permitRelease, operation, append([]string{keyspace.TurnChannel(p.Name, ""), p.Turn, strconv.FormatInt(p.Serial, 10)}, ids...)...)
	if err != nil {
		return 0, false, err
	}
	left = is(v, "ii") && v.At(1).Int() == int64(ReleasedLeft)
	if n := v.At(0).Int(); n < 0 || n > int64(len(ids)) || !left && !states(v, 0, n) {
		return 0, false, unexpected(permitRelease, v)
	}
	return int(v.At(0).Int()), left, unheard(v.At(1).Str())
}

// PermitRenewal extends the lease of permits, all or none.
func PermitRenewal(name string, ids []string, lease time.Duration) Renewal {
	return Renewal{
		Script: permitRenew, Key: keyspace.PermitExpiries(name),
		Args: append([]string{strconv.Itoa(len(ids)), millis(lease)}, ids...),
	}
}

// PermitChange says how [PermitSet] changes the number of permits.
type PermitChange string

// The ways to change the number of permits.
const (
	PermitTry PermitChange = "try" // set it unless the semaphore exists
	PermitAll PermitChange = "set" // set it, including permits in use
	PermitAdd PermitChange = "add" // add to it
)

// PermitSet changes how many permits there are. It reports false for
// [PermitTry] if the semaphore exists; as with [LockRelease] it may report true
// with an error.
func PermitSet(ctx context.Context, d driver.Driver, p Permits, operation string, how PermitChange, n int) (done bool, err error) {
	v, err := p.call(ctx, d, permitSet, operation, string(how), strconv.Itoa(n), strconv.Itoa(MaxNumber))
	if err != nil {
		return false, err
	}
	switch {
	case v.At(0).Int() == -2:
		return false, ErrTooMany
	case !states(v, 0, 1):
		return false, unexpected(permitSet, v)
	}
	return v.At(0).Int() == 1, unheard(v.At(1).Str())
}

// PermitExtend sets when a permit ends: after lease, or never if lease is negative.
// It reports false if the permit does not exist, or has expired.
func PermitExtend(ctx context.Context, d driver.Driver, p Permits, operation, id string, lease time.Duration) (bool, error) {
	left := millis(lease)
	if lease < 0 {
		left = "-1"
	}
	return p.flag(ctx, d, permitExtend, operation, id, left)
}

// PermitState is the numbers of permits.
type PermitState struct {
	Available, Given int
	List             []PermitGiven // the first of those in use
}

// PermitGiven is a permit in use.
type PermitGiven struct {
	ID   string
	Left time.Duration // -1 without limit
}

// PermitInspect reads the numbers of permits, and lists at most limit of those in
// use.
func PermitInspect(ctx context.Context, d driver.Driver, p Permits, limit int) (PermitState, error) {
	v, err := p.call(ctx, d, permitInspect, "", strconv.Itoa(limit))
	if err != nil {
		return PermitState{}, err
	}
	if v.Len()%2 != 0 || v.At(1).Kind() != driver.Int {
		return PermitState{}, unexpected(permitInspect, v)
	}
	s := PermitState{Available: int(v.At(0).Int()), Given: int(v.At(1).Int())}
	for i := 2; i < v.Len(); i += 2 {
		if v.At(i).Kind() != driver.String || v.At(i+1).Kind() != driver.Int {
			return PermitState{}, unexpected(permitInspect, v)
		}
		id := v.At(i).Str()
		if len(id) == 16 { // else it is text already, from Redisson up to 3.16
			id = hex.EncodeToString([]byte(id))
		}
		s.List = append(s.List, PermitGiven{ID: id, Left: ttl(v.At(i + 1))})
	}
	return s, nil
}

// PermitDelete deletes the semaphore with all its permits. It reports false if
// there was none.
func PermitDelete(ctx context.Context, d driver.Driver, p Permits, operation string) (bool, error) {
	return p.flag(ctx, d, permitDelete, operation)
}

// flag runs a script that answers {1} or {0}.
func (p Permits) flag(ctx context.Context, d driver.Driver, s *driver.Script, operation string, args ...string) (bool, error) {
	v, err := p.call(ctx, d, s, operation, args...)
	if err == nil && (!is(v, "i") || !states(v, 0, 1)) {
		err = unexpected(s, v)
	}
	return err == nil && v.At(0).Int() == 1, err
}
