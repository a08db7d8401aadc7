package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Clients that wait for a plain lock take turns. The head of each client's queue asks for
// all waiters in it; in Redis the client has an entry, and a channel of its own. The
// release script grants the lock to the first of these clients, and notifies only that
// one. A client that does not listen is passed over; a frozen one holds the lock for
// [script.GivenLease] and no longer.
//
// Redisson's threads wait for the announcement of a release. So do mortise's clients where
// messages of one server do not reach another. While threads listen, a lock is not granted
// to a client but left to them; see sharing.

// turn is a client's turn at one lock, on behalf of its queue. It is guarded by
// Client.mu.
type turn struct {
	ear    *hub.Listener // for the client's channel
	id     string        // of the lease that a grant makes, drawn at random; empty if none
	entry  script.Entry  // that it may have in Redis; empty if none
	seen   time.Time     // when an attempt began that showed that id did not have the lock
	unsure bool          // id may have been granted the lock before that; no message is certain
	given  bool          // Redis has granted the lock to id
	row    int           // number of grants in a row, up to that one
	heard  time.Time     // when the ear was last known to work
	told   bool          // the lock is free, and no waiter here has asked since

	// Of a fair lock:
	waits map[string]*waiter // the queue, by id
	first int                // number of waiters that ask for the first time
	pace  pacer              // of the attempts of all waiters
	mixed bool               // Redisson's threads hold the lock or wait for it
	tick  *time.Timer        // makes a tick due
	next  time.Time          // when that is
	due   bool               // a tick is due; the head of the queue does its work
	ticks int
}

const (
	// earKept is how long a client goes on listening after the last of its
	// goroutines has stopped waiting for a lock: another one is likely to wait.
	earKept = time.Second
	// nearTurn is how many clients listen for the release by a holder that
	// notifies no particular client. These pass the lock on to the others.
	nearTurn = 2
)

// turns returns how a release of the lock passes it to the next client. row is how often
// in a row the lock was granted.
func (k *locker) turns(row int) script.Turns {
	t := script.Turns{Command: k.client.conn.TurnCommand(), Row: row}
	t.Shared, t.Keep = k.client.shares(k)
	return t
}

// takesTurns reports whether clients that wait for the lock take turns.
func (k *locker) takesTurns() bool { return k.traits.turns && k.client.conn.TurnCommand() != "" }

// takesGiven reports whether the lock can be granted to a waiter of k: only a usual lease
// can.
func (k *locker) takesGiven() bool {
	return k.traits.grantable && k.options.usual() && k.ttl() >= script.GivenLease
}

// stand prepares r, of the head of its queue, for an attempt on behalf of the client: w
// is busy from here on. It reports false if w is not the head any more. The attempt
// requests a turn only if the client already listens.
//
// Only one request at a time asks with the id of a turn, and only a grant by Redis names
// it. So a message with the id means that the client has the lock.
func (r *request) stand(w *waiter) bool {
	k := r.lock
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := w.in
	if q == nil || q.head != w {
		return false
	}
	w.busy = true
	r.as, r.entry, r.turn = w, "", ""
	if !k.takesTurns() {
		return true
	}
	t := &q.turn
	if t.ear == nil {
		t.ear = c.ear(k.place)
	}
	gives := k.takesGiven()
	entry := script.ToTell
	if gives {
		entry = script.ToGive
	}
	if t.entry != "" && t.entry != entry(t.id) {
		// The first waiter was another one, and asked in another way. A turn has
		// one entry, and ends when that is removed.
		c.forgo(k.place, t.id)
		t.over()
	}
	if t.id == "" {
		t.id, t.seen = c.newTurnID(), time.Time{}
	}
	if r.told, t.told = t.told, false; t.ear.Confirmed() {
		t.entry = entry(t.id)
		r.entry = t.entry
	}
	if r.turn = t.id; gives {
		r.become(t.id)
	}
	return true
}

// become makes r ask with id. If an attempt with its former id is in doubt, it abandons
// that one. It must be called with Client.mu held.
func (r *request) become(id string) {
	if former, k := r.id, r.lock; id != former && r.doubt {
		k.client.spawn(func(context.Context) { k.client.abandon(k, former, k.ttl()) })
		r.doubt = false
	}
	r.id = id
}

// answered notes the outcome of an attempt by the head of the queue. If another waiter
// was put in front meanwhile, the turn may belong to that waiter. Then answered removes
// the entry that this attempt has made.
func (r *request) answered(refused bool) {
	c, p, id := r.lock.client, r.lock.place, r.turn
	c.mu.Lock()
	defer c.mu.Unlock()
	if by, held := r.held.(*HeldError); refused && held {
		c.heldBy(r.lock, by.Owner)
	}
	q := c.queues[p]
	switch {
	case id == "":
	case q == nil || q.turn.id != id:
		if refused && r.entry != "" {
			c.forgo(p, id)
		}
	case !refused:
		if r.at.Came && !r.doubt && !q.turn.seen.IsZero() {
			c.missed(p, &q.turn)
		}
		q.turn.over()
	case r.entry != "":
		if !q.turn.seen.IsZero() && r.at.New {
			q.turn.unsure = true
			c.missed(p, &q.turn)
		}
		q.turn.seen = r.start
	}
}

// unanswered notes that an attempt by the head of the queue has failed. If the client was
// notified that the lock is free, the next waiter has to ask, or else the next client.
func (r *request) unanswered() {
	c := r.lock.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[r.lock.place]; q != nil && r.told {
		q.turn.told = true
	}
}

// over ends the turn: the next attempt has another id.
func (t *turn) over() { t.id, t.entry, t.given, t.unsure = "", "", false, false }

// come returns a hold of the lock that was granted to the client; w is busy from here
// on. If the grant cannot be trusted, come asks Redis. If the lock has another owner
// again, the id stays with r and not with the turn: others know it now, so no further
// message with it can be believed.
func (r *request) come(ctx context.Context, w *waiter) (hold *Hold, err error) {
	k := r.lock
	c := k.client
	c.mu.Lock()
	q := w.in
	if q == nil || q.head != w || !q.turn.given {
		c.mu.Unlock()
		return nil, errNoHold
	}
	t := &q.turn
	id, seen, row := t.id, t.seen, t.row
	if t.unsure {
		seen = time.Time{}
	}
	t.over()
	if !k.traits.turns { // it asks in another way
		c.forgo(k.place, id)
		c.mu.Unlock()
		return nil, errNoHold
	}
	w.busy = true
	r.become(id)
	c.mu.Unlock()
	r.entry, r.turn, r.row = "", "", row
	if hold, err = r.given(ctx, seen); hold == nil {
		r.row = 0
	}
	return hold, err
}

// given returns a hold of the lock that Redis has granted to r. seen is when r was last
// known not to have it. If that is too long ago for trust, or not certain, given asks
// Redis.
func (r *request) given(ctx context.Context, seen time.Time) (*Hold, error) {
	if r.lock.takesGiven() && !r.doubt && time.Until(seen.Add(script.GivenLease)) > script.GivenLease/3 {
		r.start = seen
		return r.granted(ctx, 0, script.GivenLease)
	}
	hold, err := r.attempt(ctx)
	if err != nil && err != errNoHold {
		r.doubt = true // r had the lock, and may still have it
	}
	return hold, err
}

// hear returns the notifications for the head of the queue: those on the client's own
// channel, and those on the channel of all. It subscribes to the latter where clients
// take no turns. It also does so for a holder that notifies no particular client, if few
// clients come first.
func (r *request) hear() (own, all <-chan struct{}, err error) {
	k := r.lock
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[k.place]
	if q == nil {
		return nil, nil, nil // the waiter was handed a lease just now
	}
	takes := k.takesTurns()
	if takes {
		if q.turn.ear == nil {
			q.turn.ear = c.ear(k.place)
		}
		own, err = q.turn.ear.Hints(), q.turn.ear.Refused()
	}
	by, held := r.held.(*HeldError)
	theirs := held && !script.IsMortise(by.Owner) || c.shared(k.sharedAs()) != nil
	if q.listener == nil && (!takes || theirs && r.at.Before < nearTurn) {
		q.listener, q.heeds = k.overhear(func(message string) bool { c.announced(k.sharedAs(), message); return true }, nil)
	}
	if q.listener != nil && err == nil {
		all, err = q.listener.Hints(), q.listener.Refused()
	}
	return own, all, err
}

// overhear listens to the channel on which Redisson announces releases of the lock, with
// heard and changed as in [hub.Hub.ListenFor]. heeds shows others that the subscriber is
// not one of Redisson's.
func (k *locker) overhear(heard func(string) bool, changed func()) (all, heeds *hub.Listener) {
	c, channel, kind := k.client, k.ops.Channel(), k.hearing()
	heeds = c.hub.ListenFor(keyspace.Heeds(channel), kind, func(string) bool { return false }, nil)
	return c.hub.ListenFor(channel, kind, heard, changed), heeds
}

// ear returns a listener on the client's channel for p, and reuses an idle one. It must be
// called with c.mu held.
func (c *Client) ear(p place) *hub.Listener {
	if e, ok := c.ears[p]; ok {
		delete(c.ears, p)
		if e.listener.Refused() == nil {
			return e.listener
		}
		e.listener.Close()
	}
	if ear := classes[p.use].ear; ear != nil {
		return ear(c, p)
	}
	return c.hub.ListenFor(keyspace.TurnChannel(p.name, c.id), c.ownHearing(), func(message string) bool { return c.called(p, message) }, func() { c.opened(p) })
}

// ownHearing returns how the client subscribes to its own channels.
func (c *Client) ownHearing() hub.Kind {
	return hub.Kind{Classic: !c.conn.Cluster(), Sharded: c.conn.Cluster()}
}

// idleEar is the client's channel for a lock that none of its goroutines waits for.
type idleEar struct {
	listener *hub.Listener
	since    time.Time
	owed     bool // the client may be notified that the lock is free, in place of the next one
}

// listens reports whether the client listens to its channel for a lock although none of
// its goroutines waits for it, or others have the first chance to acquire it.
func (c *Client) listens(k *locker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.ears[k.place]; ok && c.queues[k.place] == nil && e.listener.Confirmed() {
		return true
	}
	return len(c.sharing) > 0 && time.Now().Before(c.after(k))
}

// rest keeps the ear of a queue that has ended open for a while, unless Redis refuses the
// channel. It must be called with c.mu held.
func (c *Client) rest(p place, ear *hub.Listener, owed bool) {
	if c.closed || ear.Refused() != nil {
		ear.Close()
		return
	}
	c.ears[p] = idleEar{ear, time.Now(), owed}
	c.sweepWithin(earKept)
}

// sweepLeast is the shortest time between two sweeps: each goes through all that may
// be idle.
const sweepLeast = 100 * time.Millisecond

// sweepWithin schedules a sweep in d at the latest. It must be called with c.mu held.
func (c *Client) sweepWithin(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case c.closed:
	case c.sweeper == nil:
		c.sweeper = time.AfterFunc(d, c.sweep)
		c.swept = at
	case c.swept.IsZero() || at.Before(c.swept):
		c.sweeper.Reset(d)
		c.swept = at
	}
}

// sweep closes the ears that have been idle for long enough, and removes old records of
// sharing and deafness.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = time.Time{}
	now := time.Now()
	next := func(left time.Duration) { c.sweepWithin(max(left+1, sweepLeast)) }
	for p, e := range c.ears {
		if left := earKept - now.Sub(e.since); left > 0 {
			next(left)
			continue
		}
		delete(c.ears, p)
		e.listener.Close()
	}
	for as, s := range c.sharing {
		if left := s.lasts(now); left >= 0 {
			next(left)
			continue
		}
		delete(c.sharing, as)
	}
	for p, d := range c.deaf {
		if left := deafFor - now.Sub(d.missed); left >= 0 {
			next(left)
			continue
		}
		delete(c.deaf, p)
	}
}

// called handles a message to this client about p. It reports whether the head of the
// queue has to ask Redis.
//
// Any client with the right to publish can send a message. A message that names an id is
// believed if that is the id of the turn, which cannot be guessed. No message makes the
// client give anything back: it declines an id that it does not need any more by itself.
func (c *Client) called(p place, message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	c.hears(p, q)
	m := script.ParseTurn(message)
	switch {
	case m.Granted != "":
		if q != nil && q.turn.id == m.Granted {
			q.turn.given, q.turn.row = true, m.Row
			q.head.signal()
		}
		return false
	case q == nil:
		if e, ok := c.ears[p]; ok && e.owed { // the entry existed when the queue ended, and is gone now
			e.owed = false
			c.ears[p] = e
			c.spawn(func(context.Context) { c.handOver(p) })
		}
		return false
	}
	q.turn.told = true
	if m.Left {
		c.leaveOpen(keyspace.LockChannel(p.name))
		q.head.signal()
		return false
	}
	return true
}

// forgo declines the turn of id in the background. It must be called with c.mu
// held.
func (c *Client) forgo(p place, id string) {
	c.spawn(func(context.Context) { c.decline(p, id) })
}

// decline gives back the turn of id, which no waiter here needs, or the lock if it was
// granted already.
func (c *Client) decline(p place, id string) {
	k := c.Lock(p.name)
	_, _ = c.call(c.lingerer, c.options.RetryFor, func(ctx context.Context) error {
		_, err := k.release(ctx, id)
		return err
	})
}

// handOver wakes the next client, in place of a waiter here that would have asked for the
// lock: it acquires the lock if that is free, and releases it.
func (c *Client) handOver(p place) {
	k, id := c.Lock(p.name), c.newID()
	doubt, err := c.call(c.lingerer, c.options.RetryFor, func(ctx context.Context) error {
		got, err := k.ops.Acquire(ctx, script.Attempt{ID: id, Lease: script.GivenLease})
		if err == nil && got.OK {
			_, err = k.release(ctx, id)
		}
		return err
	})
	if doubt || err != nil {
		c.abandon(k, id, script.GivenLease)
	}
}

// dismissed closes the turn of a queue that has ended, and passes on what the queue owes
// to other clients. It must be called with c.mu held.
func (c *Client) dismissed(p place, t *turn) {
	if t.ear != nil {
		c.rest(p, t.ear, t.entry != "")
	}
	if t.tick != nil {
		t.tick.Stop()
	}
	if t.entry != "" || t.given {
		c.forgo(p, t.id)
	}
	if t.told { // its entry is gone, but the next client was not notified
		c.spawn(func(context.Context) { c.handOver(p) })
	}
}
