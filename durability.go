package mortise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Durability is how many replicas must have a lease before it counts: when a
// lock is acquired, when it is re-entered, and when its lease is renewed. A
// master answers before its replicas have the lease; if it dies then, the
// promoted replica does not know the lock.
//
// A lock that is not acknowledged in time is released again, and the call that
// acquired it fails with [ErrNotDurable]. A renewal that is not acknowledged does
// not count: it is retried, and if none counts until the lease is over, the lock
// is lost. A release waits for no replicas: if a failover loses it, the lock
// stays held until its lease is over, which does no other harm. A refused request
// does not wait for replicas either.
//
// Durability costs an additional round trip for each acquisition, and the time
// that replicas need. What it guarantees depends on which replica is promoted,
// see docs/guarantees.md; WAIT is no consensus.
//
// It needs a driver that supports it, as those of mortise do, and the rights to
// WAIT or WAITAOF, and for AcksMajority and AcksAll to INFO.
type Durability struct {
	// Acks is the number of replicas that must have the lease, or one of
	// AcksMajority and AcksAll. Default 0: none. Redisson asks for one, if any
	// replica is connected.
	Acks Acks

	// AOF requires that those replicas, and the master, have synced the lease
	// to their append-only files, so that it survives a loss of power. It
	// needs Redis 7.2 or Valkey, and a master with such a file; elsewhere
	// acquiring fails with ErrInvalid, before anything is written.
	AOF bool

	// Timeout is how long to wait for the replicas. If the lease is trusted
	// for less than that, the timeout is three quarters of what is left. At
	// least 1 ms; default 1 s.
	Timeout time.Duration
}

// Acks is a number of replicas.
type Acks int

const (
	// AcksMajority is the number of replicas that, with the master, is more
	// than half of the master and the replicas connected to it at that time:
	// 1 replica of 1 or 2, 2 of 3 or 4. Without replicas it is 0, so a master
	// that has lost them all goes on. If the number of replicas is known,
	// prefer a fixed Acks.
	AcksMajority Acks = -1
	// AcksAll is all replicas that are connected to the master at that time,
	// including those that still receive their first copy of the data. A
	// disconnected replica does not count; the master notices that a silent
	// one is gone after repl-timeout, a minute by default. Without replicas it
	// is 0, as above.
	AcksAll Acks = -2
)

const defaultAckTimeout = time.Second

// String describes d in words.
func (d Durability) String() string {
	var text string
	switch {
	case d.none():
		return "none"
	case d.Acks == AcksMajority:
		text = "a majority"
	case d.Acks == AcksAll:
		text = "all replicas"
	default:
		text = fmt.Sprintf("at least %d replicas", d.Acks)
	}
	if d.AOF {
		text += ", synced"
	}
	return fmt.Sprintf("%s, within %v", text, d.timeout())
}

// NotDurableError says how many replicas acknowledged a lock, and how many were
// required. It matches [ErrNotDurable].
type NotDurableError struct {
	Wanted       int
	Acknowledged int
	// Unsynced is true if Durability.AOF was set, and the master itself did not
	// sync its append-only file in time.
	Unsynced bool
	// Err is set if the time was over before Redis answered at all.
	Err error
}

// Error says how many replicas acknowledged.
func (e *NotDurableError) Error() string {
	text := fmt.Sprintf("%v: %d of %d in time", ErrNotDurable, e.Acknowledged, e.Wanted)
	if e.Unsynced {
		text += ", and the master has not synced it to its append-only file"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *NotDurableError) Unwrap() error { return e.Err }

// Is makes a NotDurableError match ErrNotDurable.
func (e *NotDurableError) Is(target error) bool { return target == ErrNotDurable }

func (d Durability) none() bool { return d.Acks == 0 && !d.AOF }

// like reports whether d and other are equal except for the timeout.
func (d Durability) like(other Durability) bool { return d.Acks == other.Acks && d.AOF == other.AOF }

// counts reports whether d depends on the number of connected replicas.
func (d Durability) counts() bool { return d.Acks < 0 }

// wanted returns how many of a master's replicas must acknowledge.
func (d Durability) wanted(replicas int) int {
	switch d.Acks {
	case AcksMajority:
		return (replicas + 1) / 2
	case AcksAll:
		return replicas
	}
	return int(d.Acks)
}

func (d Durability) timeout() time.Duration {
	if d.Timeout == 0 {
		return defaultAckTimeout
	}
	return d.Timeout
}

func (d Durability) validate() error {
	switch {
	case d.Acks < AcksAll:
		return invalid("Durability.Acks is %d; use a number of replicas, AcksMajority or AcksAll", d.Acks)
	case d.Timeout != 0 && (d.Timeout < time.Millisecond || d.Timeout > longestLease):
		return invalid("Durability.Timeout is %v; it must be between 1ms and a year", d.Timeout)
	}
	return nil
}

// ability identifies a kind of waiting that a master may support.
type ability struct {
	shard  string
	aof    bool
	counts bool
}

func (c *Client) ability(key string, d Durability) ability {
	return ability{c.driver.Shard(key), d.AOF, d.counts()}
}

// replicas returns the number of replicas that a master had when last asked.
func (c *Client) replicas(a ability) (n int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known = c.able[a]
	return n, known
}

func (c *Client) learn(a ability, replicas int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.able[a] = replicas
}

func (c *Client) waiter() (driver.Waiter, error) {
	if w, ok := c.driver.(driver.Waiter); ok {
		return w, nil
	}
	return nil, invalid("the driver is a %T, which cannot wait for replicas, so that there is no durability", c.driver)
}

// canWait returns an error if the master of key does not support d. It runs
// before a lock is acquired, and asks each master once.
func (c *Client) canWait(ctx context.Context, key string, d Durability) error {
	if d.none() {
		return nil
	}
	w, err := c.waiter()
	if err != nil {
		return err
	}
	a := c.ability(key, d)
	if _, known := c.replicas(a); known {
		return nil
	}
	var of int
	_, err = c.call(ctx, c.options.RetryFor, func(ctx context.Context) (err error) {
		of, err = script.TryWait(ctx, w, key, driver.Wait{Timeout: time.Millisecond, AOF: d.AOF, Count: d.counts()})
		return err
	})
	if err == nil {
		c.learn(a, of)
	} else if driver.ClassOf(err) == driver.Other {
		return fmt.Errorf("%w: the durability is %v, which Redis cannot give: %w", ErrInvalid, d, err)
	}
	return err
}

// renewAndWait renews leases, all of one shard and with durability d. A result
// without error was acknowledged as d requires.
func (c *Client) renewAndWait(ctx context.Context, d Durability, groups [][]script.Renewal) []script.RenewResult {
	results := make([]script.RenewResult, len(groups))
	w, err := c.waiter()
	if err != nil {
		for i := range results {
			results[i].Err = final(err)
		}
		return results
	}
	a := c.ability(groups[0][0].Key, d)
	limit := time.Now().Add(d.timeout())
	if end, ok := ctx.Deadline(); ok { // the reply must arrive before it
		if early := time.Now().Add(time.Until(end) * 3 / 4); early.Before(limit) {
			limit = early
		}
	}
	for {
		replicas, _ := c.replicas(a)
		wait := driver.Wait{Replicas: d.wanted(replicas), AOF: d.AOF, Count: d.counts(), Timeout: time.Until(limit)}
		more := false
		for i, r := range script.RenewAndWait(ctx, w, groups, wait) {
			results[i] = r.RenewResult
			if r.Err != nil {
				// Redis checks only ten times a second whether a WAIT has
				// timed out, which may be too late.
				if errors.Is(r.Err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
					results[i].Err = &NotDurableError{Wanted: wait.Replicas, Err: r.Err}
				}
				continue
			}
			if d.counts() {
				c.learn(a, r.Of)
			}
			wanted := d.wanted(r.Of)
			if r.Acks >= wanted && (r.Synced || !d.AOF) {
				continue
			}
			results[i].Err = &NotDurableError{Wanted: wanted, Acknowledged: r.Acks, Unsynced: d.AOF && !r.Synced}
			more = more || wanted > wait.Replicas // the master has more replicas than before
		}
		if !more || !time.Now().Before(limit) || ctx.Err() != nil {
			return results
		}
	}
}

// confirm waits until as many replicas as d requires have the lease id. It
// reports false if the lease is gone.
func (k *locker) confirm(ctx context.Context, id string, d Durability) (bool, error) {
	// No lease is so short that a millisecond extends it, so this only checks it.
	r := k.client.renewAndWait(ctx, d, [][]script.Renewal{{k.ops.Renewal(id, time.Millisecond)}})[0]
	if errors.Is(r.Err, ErrNotDurable) {
		return false, final(r.Err)
	}
	return r.Err == nil && r.States[0] == script.Renewed, r.Err
}

// secure waits until an acquired lease is durable, or releases it.
func (r *request) secure(ctx context.Context) error {
	k := r.lock
	d, c := k.options.Durability, k.client
	if d.none() {
		return nil
	}
	trusted, cancel := context.WithDeadline(ctx, r.start.Add(k.options.trust(k.ttl())))
	defer cancel()
	there := false
	_, err := c.call(trusted, c.options.RetryFor, func(ctx context.Context) (err error) {
		there, err = k.confirm(ctx, r.id, d)
		return err
	})
	if err == nil && there {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: it was gone before they could, as after a failover", ErrNotDurable)
	}
	if _, rerr := k.release(ctx, r.id); rerr != nil {
		r.doubt = true // Redis may still have the lease
	}
	return err
}

// secure waits until a re-entry is durable. It reports false if the lease is gone.
func (l *lease) secure(ctx context.Context) (bool, error) {
	if l.options.Durability.none() {
		return true, nil
	}
	trusted, cancel := context.WithDeadline(ctx, l.until())
	defer cancel()
	return l.confirm(trusted, l.id, l.options.Durability)
}

// shard groups leases for the watchdog by server and durability, so that waiting
// for replicas does not delay other renewals.
func (c *Client) shard(w *watchdog.Lease) string {
	l := w.Of.(*lease)
	shard := c.driver.Shard(l.name)
	if d := l.options.Durability; !d.none() {
		shard += " " + d.String()
	}
	return shard
}
