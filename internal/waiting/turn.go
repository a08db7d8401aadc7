package waiting

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
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
// Client.Mu.
type turn struct {
	listener *hub.Listener // for the client's own channel
	id       string        // of the lease that a grant makes, drawn at random; empty if none
	entry    script.Entry  // that it may have in Redis; empty if none
	seen     time.Time     // when an attempt began that showed that id did not have the lock
	phase    phase
	streak   int       // number of grants in a row, up to that one
	heard    time.Time // when the listener was last known to work
	notified bool      // the lock was left to Redisson's threads, and no waiter here has asked since
}

// phase is how far a turn has come.
type phase uint8

const (
	turnNone          phase = iota // there is no id, or no attempt was refused with it
	turnUnsure                     // an earlier grant may have been missed, so that seen is not certain
	turnGranted                    // Redis has granted the lock to id
	turnGrantedUnsure              // the same, after turnUnsure
)

const (
	// nearTurn is how many clients listen for the release by a holder that
	// notifies no particular client. These pass the lock on to the others.
	nearTurn = 2
)

// takesTurns reports whether clients that wait for the lock take turns.
func takesTurns(k *lease.Lock) bool { return k.Traits().Turns && k.Client().Conn().TurnCommand() != "" }

// relies reports whether a waiter of k can rely on a grant of Redis', and extend its lease later.
// Else it asks first: for a token, a durability, or a lease that is not renewed or is shorter.
func relies(k *lease.Lock) bool {
	return k.Traits().Grantable && k.Options().Grantable() && k.TTL() >= script.GivenLease
}

// prepareTurn prepares r, of the head of its queue, for an attempt on behalf of the client: w
// is busy from here on. It reports false if w is not the head any more. The attempt
// requests a turn only if the client already listens.
//
// Only one request at a time asks with the id of a turn, and only a grant by Redis names
// it. So a message with the id means that the client has the lock.
func (r *request) prepareTurn(w *Waiter) bool {
	k := r.Lock
	c := r.queues()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	q := w.in
	if q == nil || q.head != w {
		return false
	}
	w.ask()
	r.waiter, r.entry, r.turn = w, "", ""
	if !takesTurns(k) {
		if SiteOf(k).Claims() {
			q.prepareClaim()
		}
		return true
	}
	t := &q.turn
	q.own()
	entry := script.ToGiveBriefly
	if relies(k) {
		entry = script.ToGive
	}
	if t.entry != "" && t.entry != entry(t.id) {
		// The first waiter was another one, and asked in another way. A turn has
		// one entry, and ends when that is removed.
		SiteOf(k).declineLater(t.id)
		t.finish()
	}
	if t.id == "" {
		t.id, t.seen = newTurnID(c.ID()), time.Time{}
	}
	if r.notified, t.notified = t.notified, false; t.listener.Confirmed() {
		t.entry = entry(t.id)
		r.entry = t.entry
	}
	r.turn = t.id
	r.useID(t.id)
	return true
}

// useID makes r ask with id. If an attempt with its former id is in doubt, it abandons
// that one. It must be called with Client.Mu held.
func (r *request) useID(id string) {
	if former, k := r.ID, r.Lock; id != former && r.Doubt {
		k.Client().Spawn(func(context.Context) { k.Client().Abandon(k, former, k.TTL()) })
		r.Doubt = false
	}
	r.ID = id
}

// grantedBefore returns how often in a row the lock was granted, if it had been granted to r before the attempt that has got it: a
// message of something else made r ask at the same moment. A row that ends there would never be long enough for Redisson's threads.
func (r *request) grantedBefore() uint16 {
	c := r.queues()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if q := SiteOf(r.Lock).queue(); q != nil && r.turn != "" && q.turn.id == r.turn && q.turn.phase >= turnGranted {
		return uint16(min(max(q.turn.streak, 1), math.MaxUint16))
	}
	if r.entry != "" && r.at.Came {
		return 1
	}
	return 0
}

// turnAnswered notes the outcome of an attempt by the head of the queue. If another waiter
// was put in front meanwhile, the turn may belong to that waiter. Then it removes
// the entry that this attempt has made.
func (r *request) turnAnswered(refused bool) {
	c, at, id := r.queues(), SiteOf(r.Lock), r.turn
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case at.Claims():
		c.sharing.permits(sharedAs(r.Lock), !refused)
	case refused:
		c.heldBy(r.Lock, &r.refused.By)
		at.meetHolder(r.refused.By.Owner)
	}
	q := at.queue()
	switch {
	case id == "":
	case q == nil || q.turn.id != id:
		if refused && r.entry != "" {
			at.declineLater(id)
		}
	case !refused:
		if r.at.Came && !r.Doubt && !q.turn.seen.IsZero() {
			q.missed()
		}
		q.turn.finish()
	case r.entry != "":
		if !q.turn.seen.IsZero() && r.at.New {
			q.turn.doubt()
			q.missed()
		}
		q.turn.seen = r.Start
	}
}

// turnFailed notes that an attempt by the head of the queue has failed. If the client was
// notified that the lock was left open, the next waiter has to ask, or else the next client.
func (r *request) turnFailed() {
	c := r.queues()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if q := SiteOf(r.Lock).queue(); q != nil && r.notified {
		q.turn.notified = true
	}
}

// finish ends the turn: the next attempt has another id.
func (t *turn) finish() { t.id, t.entry, t.phase = "", "", turnNone }

// acceptGrant returns a hold of the lock that was granted to the client; w is busy from here
// on. If the grant cannot be trusted, acceptGrant asks Redis. The turn is over either way:
// others know its id now, so no further message with it can be believed.
func (r *request) acceptGrant(ctx context.Context, w *Waiter) (hold *lease.Hold, err error) {
	k := r.Lock
	c := r.queues()
	c.Mu.Lock()
	q := w.in
	if q == nil || q.head != w || q.turn.phase < turnGranted {
		c.Mu.Unlock()
		return nil, lease.ErrNoHold
	}
	t := &q.turn
	id, seen, streak := t.id, t.seen, t.streak
	r.entry, r.turn = "", ""
	if t.entry != script.ToGive(id) {
		seen = time.Time{} // a waiter that asks first made the entry: the grant lasts only until the client has asked
	}
	if t.phase == turnGrantedUnsure {
		// An attempt may have made the entry again after the grant had removed it. This
		// one removes it, if it acquires the lock.
		r.entry, seen = t.entry, time.Time{}
	}
	t.finish()
	if !k.Traits().Turns { // it asks in another way
		q.site().declineLater(id)
		c.Mu.Unlock()
		return nil, lease.ErrNoHold
	}
	w.ask()
	r.useID(id)
	c.Mu.Unlock()
	r.Streak = uint16(min(streak, math.MaxUint16))
	if hold, err = r.confirmGrant(ctx, seen); hold == nil {
		r.Streak = 0
	} else {
		r.Call.Came(outcome.HowGranted)
		c.Counters.Granted.Add(1)
	}
	if r.entry != "" && errors.Is(err, lease.ErrNoHold) {
		c.Mu.Lock()
		SiteOf(k).declineLater(id)
		r.useID("") // the next attempt draws another
		c.Mu.Unlock()
	}
	return hold, err
}

// confirmGrant returns a hold of the lock that Redis has granted to r. seen is when r was last
// known not to have it. If that is too long ago for trust, or not certain, it asks
// Redis.
func (r *request) confirmGrant(ctx context.Context, seen time.Time) (*lease.Hold, error) {
	if relies(r.Lock) && !r.Doubt && time.Until(seen.Add(script.GivenLease)) > script.GivenLease/3 {
		r.Start, r.Streak = seen, max(r.Streak, 1)
		return r.newHold(ctx, 0, script.GivenLease)
	}
	hold, err := r.attempt(ctx)
	if err != nil && !errors.Is(err, lease.ErrNoHold) {
		r.Doubt = true // r had the lock, and may still have it
	}
	return hold, err
}

// subscribe returns the notifications for the head of the queue: those on the client's own
// channel, and those on the common channel. It subscribes to the latter where clients
// take no turns. It also does so for a holder that notifies no particular client, if few
// clients come first.
func (r *request) subscribe() (own, all <-chan struct{}, err error) {
	k := r.Lock
	if at := SiteOf(k); at.Claims() {
		return at.ListenForPermits(k.Ops().Channel())
	}
	c := r.queues()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	q := SiteOf(k).queue()
	if q == nil {
		return nil, nil, nil // the waiter was handed a lease just now
	}
	takes := takesTurns(k)
	if takes {
		l := q.own()
		own, err = l.Hints(), l.Refused()
	}
	theirs := r.refused != nil && r.refused.Lack == nil && !script.IsMortise(r.refused.By.Owner) || c.sharing.shared(sharedAs(k)) != nil
	if q.listener == nil && (!takes || theirs && (r.at.Before < nearTurn || q.turn.notified)) {
		q.listener, q.heeds = c.HearReleases(k.Ops().Channel(), func(message string) bool { c.sharing.announced(sharedAs(k), message); return true }, nil)
	}
	if q.listener != nil && err == nil {
		all, err = q.listener.Hints(), q.listener.Refused()
	}
	return own, all, err
}

// HearReleases listens to a channel on which Redisson announces releases, with
// heard and changed as in [hub.Hub.ListenFor]. heeds shows others that the subscriber is
// not one of Redisson's.
func (qs *Queues) HearReleases(channel string, heard func(string) bool, changed func()) (all, heeds *hub.Listener) {
	kind := SubscribeMode(qs.Conn())
	heeds = qs.Hub().ListenFor(keyspace.Heeds(channel), kind, func(string) bool { return false }, nil)
	return qs.Hub().ListenFor(channel, kind, heard, changed), heeds
}

// own returns the listener of the queue for the client's own channel, and opens it if necessary.
// It must be called with Client.Mu held.
func (q *queue) own() *hub.Listener {
	if q.turn.listener == nil {
		q.turn.listener = q.subscribe()
	}
	return q.turn.listener
}

// subscribe returns a listener on the client's channel for the place, and reuses an idle
// one. It must be called with Client.Mu held.
func (q *queue) subscribe() *hub.Listener {
	c, p := q.client, q.place
	if e, ok := c.idle[p]; ok {
		delete(c.idle, p)
		if e.own.Refused() == nil {
			return e.own
		}
		e.close()
	}
	if p.Use.Class().Queued {
		return fairChannel{q.site()}.listen()
	}
	at := q.site()
	if at.Claims() {
		channel := keyspace.SemaphoreChannel(p.Name)
		return c.Hub().ListenFor(keyspace.TurnChannel(p.Name, c.ID()), OwnSubscribeMode(c.Conn()), func(message string) bool { return at.calledForPermits(channel, message) }, nil)
	}
	return c.Hub().ListenFor(keyspace.TurnChannel(p.Name, c.ID()), OwnSubscribeMode(c.Conn()), at.called, at.opened)
}

// site returns the place that the queue is for.
func (q *queue) site() Site { return Site{q.client, q.place} }

// SubscribeMode returns how to subscribe to the channels of locks.
func SubscribeMode(conn *script.Conn) hub.Kind {
	p := conn.Publish()
	return hub.Kind{Classic: p != script.Sharded, Sharded: p != script.Classic}
}

// OwnSubscribeMode returns how a client subscribes to its own channels.
func OwnSubscribeMode(conn *script.Conn) hub.Kind {
	return hub.Kind{Classic: !conn.Cluster(), Sharded: conn.Cluster()}
}

// called handles a message to this client about the place. It reports whether the head of
// the queue has to ask Redis.
//
// Any client with the right to publish can send a message. A message that names an id is
// believed if that is the id of the turn, which cannot be guessed. No message makes the
// client give anything back: it declines an id that it does not need any more by itself.
func (s Site) called(message string) bool {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	q := s.queue()
	s.hears()
	m := script.ParseTurn(message)
	switch {
	case m.Granted != "":
		if q != nil && q.turn.id == m.Granted {
			s.meet()
			c.sharing.learn(keyspace.LockChannel(s.Name), &m)
			q.turn.grant(m.Row)
			q.head.Signal()
		}
		return false
	case q == nil:
		return false
	case m.Left:
		q.turn.notified = true
		c.sharing.learn(keyspace.LockChannel(s.Name), &m)
		c.sharing.leaveOpen(keyspace.LockChannel(s.Name), chance, m.Times)
		q.head.Signal()
		return false
	}
	return true
}

// grant notes that Redis has granted the lock to the id, streak times in a row.
func (t *turn) grant(streak int) {
	if t.streak = streak; t.phase == turnUnsure {
		t.phase = turnGrantedUnsure
	} else if t.phase == turnNone {
		t.phase = turnGranted
	}
}

// doubt notes that the id may have been granted the lock before an attempt that has not
// seen that.
func (t *turn) doubt() {
	switch t.phase {
	case turnNone:
		t.phase = turnUnsure
	case turnGranted:
		t.phase = turnGrantedUnsure
	}
}

// endTurn closes the turn of a queue that has ended, and passes on what the queue owes
// to other clients. It must be called with Client.Mu held.
func (q *queue) endTurn() {
	t, at := &q.turn, q.site()
	after := q.client.sharing.after(keyspace.LockChannel(q.place.Name))
	id, has, owes := t.id, t.entry != "" || t.phase >= turnGranted, t.notified
	if !has && !owes {
		return
	}
	q.client.Spawn(func(context.Context) {
		if has {
			at.decline(id)
		}
		if owes { // the lock may be free, and the next client was not notified; that is no longer this one
			at.wakeNext(after)
		}
	})
}

// newTurnID returns the id of a lease that Redis may grant to a client. The id
// cannot be guessed, so a notification that names it is genuine.
func newTurnID(client string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return client + ":" + strconv.FormatUint(binary.BigEndian.Uint64(b[:])>>1, 10)
}
