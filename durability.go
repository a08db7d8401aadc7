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

// Durability says how many replicas must have a lease before it counts: when a
// lock is taken, when it is re-entered, and when its lease is renewed. A master
// answers before its replicas know; if it dies then, the replica that takes its
// place has never heard of the lock.
//
// A lock that was granted and not acknowledged in time is given back, and the
// call that wanted it fails with [ErrNotDurable]. A renewal that was not
// acknowledged does not count: it is tried again, and if none counts until the
// lease is over, the lock is lost. Releasing waits for nobody: a release that
// a failover forgets leaves the lock taken until its lease is over, and does no
// other harm. Who finds the lock taken does not wait for replicas either.
//
// It costs a round trip more for each lock that is taken, and the time that
// replicas need. What it buys depends on which replica is promoted, see
// docs/guarantees.md; WAIT is no consensus.
//
// It needs a driver that can do it, as those of mortise can, and the rights to
// WAIT or WAITAOF, and for AcksMajority and AcksAll to INFO.
type Durability struct {
	// Acks is the number of replicas that must have the lease, or one of
	// AcksMajority and AcksAll. Default 0: none. Redisson asks for one, if any
	// replica is connected.
	Acks Acks

	// AOF demands that those replicas, and the master, have synced the lease
	// to their append-only files, so that it outlives a loss of power. It
	// needs Redis 7.2 or Valkey, and a master with such a file; elsewhere the
	// lock is refused with ErrInvalid, before anything is written.
	AOF bool

	// Timeout is how long to wait for the replicas. If the lease is trusted
	// for less than that, it is cut to three quarters of what is left. At
	// least 1 ms; default 1 s.
	Timeout time.Duration
}

// Acks is a number of replicas.
type Acks int

const (
	// AcksMajority is as many replicas as make more than half of all servers
	// together with the master, of those that are connected to it at that
	// time: 1 replica of 1 or 2, 2 of 3 or 4. Of no replicas it is none, so it
	// lets a master go on that has lost them all; who knows how many there are
	// names a number.
	AcksMajority Acks = -1
	// AcksAll is all replicas that are connected to the master at that time,
	// those that are still being filled included. A replica that has lost its
	// connection does not count; the master notices that of a silent one after
	// repl-timeout, a minute by default. Of no replicas it is none, as above.
	AcksAll Acks = -2
)

const defaultAckTimeout = time.Second

// String says it in words.
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

// NotDurableError says how many replicas acknowledged a lock, and how many had
// to. It matches [ErrNotDurable].
type NotDurableError struct {
	Wanted       int
	Acknowledged int
	// Unsynced is true if the master itself had not synced its append-only
	// file in time, and that was asked for.
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

// Unwrap returns why Redis has not answered.
func (e *NotDurableError) Unwrap() error { return e.Err }

// Is makes a NotDurableError match ErrNotDurable.
func (e *NotDurableError) Is(target error) bool { return target == ErrNotDurable }

func (d Durability) none() bool { return d.Acks == 0 && !d.AOF }

// like reports whether both demand the same, be it with another timeout.
func (d Durability) like(other Durability) bool { return d.Acks == other.Acks && d.AOF == other.AOF }

// counts reports whether the number of replicas matters.
func (d Durability) counts() bool { return d.Acks < 0 }

// wanted is how many of a master's replicas must acknowledge.
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

// ability is something that a master can be able to do.
type ability struct {
	shard  string
	aof    bool
	counts bool
}

func (c *Client) ability(key string, d Durability) ability {
	return ability{c.driver.Shard(key), d.AOF, d.counts()}
}

// replicas returns how many a master had when it was last asked.
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

// canWait fails if locks cannot have this durability, before one is taken. It
// asks each master once.
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

// renewAndWait renews leases, all of one shard and with the same durability. A
// result without error was acknowledged as demanded.
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
	if end, ok := ctx.Deadline(); ok { // the answer must come before it
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
				// Redis looks for those that have waited long enough ten
				// times a second only, which may be too late.
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
			more = more || wanted > wait.Replicas // it has more replicas than it had
		}
		if !more || !time.Now().Before(limit) || ctx.Err() != nil {
			return results
		}
	}
}

// confirm waits until as many replicas as demanded have the lease id. It reports
// false if there is no such lease any more.
func (k *locker) confirm(ctx context.Context, id string, d Durability) (bool, error) {
	// No lease is so short that this would make it longer: it only looks.
	r := k.client.renewAndWait(ctx, d, [][]script.Renewal{{k.ops.Renewal(id, time.Millisecond)}})[0]
	if errors.Is(r.Err, ErrNotDurable) {
		return false, final(r.Err)
	}
	return r.Err == nil && r.States[0] == script.Renewed, r.Err
}

// secure makes a lease that was granted durable, or gives it back.
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
		r.doubt = true // it may still stand in Redis
	}
	return err
}

// secure makes a re-entry durable. It reports false if the lease is gone.
func (l *lease) secure(ctx context.Context) (bool, error) {
	if l.options.Durability.none() {
		return true, nil
	}
	trusted, cancel := context.WithDeadline(ctx, l.until())
	defer cancel()
	return l.confirm(trusted, l.id, l.options.Durability)
}

// shard groups leases for the watchdog: by server, and by what it takes to renew
// them, so that waiting for replicas holds up nobody else.
func (c *Client) shard(w *watchdog.Lease) string {
	l := w.Of.(*lease)
	shard := c.driver.Shard(l.name)
	if d := l.options.Durability; !d.none() {
		shard += " " + d.String()
	}
	return shard
}
