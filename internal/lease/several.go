package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// several are locks that one script can acquire or release, all of which are together.
type several []*Lock

// Together reports whether one script can acquire or release both locks: plain ones of one client, and on a cluster of one slot.
func (k *Lock) Together(other *Lock) bool {
	return k.traits.Batched && other.traits.Batched && k.client == other.client &&
		(!k.client.conn.Cluster() || keyspace.Slot(k.name) == keyspace.Slot(other.name))
}

// AcquireSeveral acquires locks that are together with one script, without waiting: all of them or none. If yields is true, it leaves
// them to Redisson's threads where it is their turn. If it fails, at is the index of the lock that is to blame, and the holds are of
// those before that it could use all the same.
func AcquireSeveral(ctx context.Context, locks []*Lock, o *Owner, yields bool) (holds []*Hold, at int, err error) {
	client, ttl := locks[0].client, locks[0].TTL()
	if err := client.Begin(); err != nil {
		return nil, 0, err
	}
	defer client.running.done()
	if ctx.Err() != nil {
		return nil, 0, outcome.ContextError(ctx)
	}
	var keys []string
	for _, k := range locks {
		keys = append(keys, k.name)
	}
	r := Request{Owner: o, ID: client.NewID()}
	var got bool
	var by script.Holder
	r.Doubt, err = client.Call(ctx, client.config.RetryFor, func(ctx context.Context) (err error) {
		r.Start = time.Now()
		got, at, by, err = script.MultiAcquire(ctx, client.driver, keys, r.ID, ttl, yields)
		return err
	})
	if got && err == nil {
		return several(locks).granted(ctx, r)
	}
	if r.Doubt {
		several(locks).abandon(r.ID)
	}
	switch {
	case errors.Is(err, script.ErrKind):
		return nil, at, fmt.Errorf("%q: %w", locks[at].Name(), err)
	case err != nil:
		return nil, 0, err
	}
	return nil, at, (&outcome.Refusal{By: by}).AsError(client.errors)
}

// granted returns holds of the locks, which Redis has granted to r.
func (s several) granted(ctx context.Context, r Request) (holds []*Hold, at int, err error) {
	for i, k := range s {
		one := r
		one.Lock = k
		hold, err := one.Take(ctx, 0, k.TTL())
		if err != nil {
			s[i:].abandon(r.ID)
			return holds, i, err
		}
		holds = append(holds, hold)
	}
	return holds, 0, nil
}

// abandon makes sure that none of the locks stays in Redis with that id.
func (s several) abandon(id string) {
	c := s[0].client
	select {
	case <-c.done:
		_, _ = s.Release(c.lingerer, id) // Close waits a moment for this
	default:
		c.janitor.abandon(s, id, s[0].TTL())
	}
}

// Release releases those of the locks that id holds, and reports whether it held any.
func (s several) Release(ctx context.Context, id string) (bool, error) {
	c := s[0].client
	var locks []script.Release
	for _, k := range s {
		locks = append(locks, script.Release{Key: k.name, Owner: id, Channel: k.ops.Channel(), Turns: k.turns(0)})
	}
	released, err := script.MultiRelease(ctx, c.driver, locks, c.conn.Publish())
	return slices.ContainsFunc(released, func(r script.Released) bool { return r != script.NotHeld }), err
}

// UnlockSeveral releases holds of locks that are together, and returns the error of each. It locks the
// counts of all leases, in their order, until Redis has answered: two holds of
// one owner share the same leases, and each of them would otherwise wait for a count that
// the other has locked.
func UnlockSeveral(holds []*Hold) []error {
	errs := make([]error, len(holds))
	var last []*Lease // those whose last hold this is
	var at []int      // their indexes
	var end time.Time
	for i, h := range holds {
		l := h.Lease()
		left, err := l.removeHold(h)
		if err != nil {
			errs[i] = err
			continue
		}
		defer l.UnlockCount()
		if end = Latest(end, l.Until()); left > 0 {
			errs[i] = l.decrementCount(left, time.Time{})
		} else if err := l.stopRenewal(); err != nil {
			errs[i] = err
		} else {
			last, at = append(last, l), append(at, i)
		}
	}
	for j, err := range releaseStopped(last, end) {
		errs[at[j]] = err
	}
	return errs
}

// releaseStopped releases leases that are not renewed any more, with one script, and returns the
// error of each. It tries until end.
func releaseStopped(leases []*Lease, end time.Time) []error {
	if len(leases) == 0 {
		return nil
	}
	c := leases[0].client
	var locks []script.Release
	for _, l := range leases {
		locks = append(locks, script.Release{Key: l.name, Owner: l.id, Channel: l.ops.Channel(), Turns: l.turns(int(l.row))})
	}
	ctx := driver.Until(end)
	defer ctx.Stop()
	var released []script.Released
	doubt, err := c.Call(ctx, -1, func(ctx context.Context) (err error) {
		released, err = script.MultiRelease(ctx, c.driver, locks, c.conn.Publish())
		return err
	})
	errs := make([]error, len(leases))
	for i, l := range leases {
		became := script.NotHeld
		if released != nil {
			became = released[i]
		}
		c.waiters.Passed(l.Lock, script.Freed{Released: became})
		errs[i] = l.finishRelease(became != script.NotHeld, doubt, err)
	}
	return errs
}
