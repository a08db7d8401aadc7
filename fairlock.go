package mortise

import (
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// FairLock is a lock that waiters acquire in the order in which they asked: all
// goroutines and threads of all processes, those of Redisson's FairLock included.
// In everything else it is like [Lock].
//
// Waiters queue in Redis. A waiter keeps its position as long as it waits and its
// client is alive. A waiter that gives up leaves at once. A waiter that dies
// delays the next one by about a second when its turn comes, or by ten if its
// connection stays open, as when the process is frozen. A client that shows no
// sign of life for that long loses the positions of its waiters; if it recovers,
// they queue again at the end.
//
// [FairLock.TryLock] does not queue, and is refused while others do, even if
// the lock is free.
//
// What it does not guarantee, in addition to Lock: that a Redisson waiter keeps
// its position. Redisson's clients drop a waiter whose deadline has passed, five
// minutes for each position in the queue by default, and use their own clocks. Do
// not use a fair lock and a plain one under the same name: plain locks do not
// queue, and neither kind wakes the other. Even so, the owner of one kind
// re-enters it as the other, see [FairLock.Lock].
type FairLock struct {
	locker
	script script.FairLock
}

// FairLock returns the fair lock called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) FairLock(name string) *FairLock {
	k := &FairLock{script: c.conn.FairLock(name)}
	k.init(object{c, name}, &fairTraits, &k.script)
	return k
}

// useFair is the use of FairLock: the hash of a Lock, and a queue.
var useFair = newUse(class{ear: fairEar}).twinOf(usePlain)

var fairTraits = traits{use: useFair, grantable: true, wait: waitFair}

// With returns a handle to the same lock that acquires it with these options.
func (k *FairLock) With(options LockOptions) *FairLock {
	k = k.client.FairLock(k.name)
	k.options = &options
	return k
}

// Waiter is an entry of a queue in Redis.
type Waiter struct {
	Owner string // as in [Holder]
	// Left is how long Redisson's clients will wait for this waiter when it is
	// the next one; negative if they no longer do.
	Left time.Duration
}

// Queue returns the waiters for the lock, the next one first, at most a thousand.
// It reads from the master, changes nothing, and blocks for one round trip.
//
// Errors: those of every method; see the package documentation.
func (k *FairLock) Queue(ctx context.Context) (queue []Waiter, err error) {
	err = k.operate(ctx, "queue", func(ctx context.Context, _ script.Publish) error {
		waiters, err := script.FairInspect(ctx, k.client.driver, k.name, 1000)
		queue = nil
		for _, w := range waiters {
			queue = append(queue, Waiter(w))
		}
		return err
	})
	return queue, err
}

// lookIn makes the client check the lock, which was just released, again after d:
// the next waiter may be dead, and Redisson's threads behind it do not check.
func (k *locker) lookIn(d time.Duration) {
	c, due := k.client, time.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, soon := c.looks[k.place]; c.closed || soon && !due.Before(at) {
		return
	}
	c.looks[k.place] = due
	c.spawn(func(ctx context.Context) {
		if !c.pause(ctx, d) {
			return
		}
		c.mu.Lock()
		mine := c.looks[k.place].Equal(due)
		if mine {
			delete(c.looks, k.place)
		}
		c.mu.Unlock()
		if mine {
			_, _ = k.release(ctx, c.id) // c.id holds nothing
		}
	})
}

// fairWaiter runs the scripts of a fair lock for one waiter, which queues if refused.
type fairWaiter struct {
	*script.FairLock
	lock     *locker
	waiter   *waiter
	mode     script.FairMode
	pending  bool          // Redis has not answered the attempt that sends the nonce
	tell     bool          // the lock cannot be granted to the waiter
	sent     bool          // an attempt may have reached Redis
	again    time.Duration // from the last refusal
	mixed    bool          // from the last refusal
	since    queueing      // from the last refusal that queued it
	requeued bool          // the last refusal queued it
	came     bool          // its turn came before the attempt that acquired the lock
}

func (f *fairWaiter) Acquire(ctx context.Context, a script.Attempt) (script.Grant, error) {
	c, mode := f.lock.client, f.mode
	f.mode = script.FairAgain // even if the reply is lost
	place := c.drawNonce(f.lock.place, f.waiter, f.tell, f.pending)
	ok, why, err := script.FairAcquire(ctx, c.driver, f.Fair(), place, a.Lease, mode)
	if f.pending = err != nil; !f.pending {
		c.brought(f.waiter)
	}
	f.sent = f.sent || err == nil || driver.ClassOf(err) != driver.NotSent
	f.again, f.mixed, f.came = why.Again, why.Mixed, why.Came
	if f.requeued = why.Since != 0; f.requeued {
		f.since = queueing{why.Since, why.Queued}
	}
	return script.Grant{OK: ok, By: why.Holder}, err
}

// queueing is when a waiter entered the queue in Redis: the server's time in
// microseconds, and the length of the queue then.
type queueing struct {
	at     int64
	behind int
}

func (q queueing) before(other queueing) bool {
	return q.at < other.at || q.at == other.at && q.behind < other.behind
}

const (
	// fairTick is how often a client refreshes the places of its waiters, and
	// checks whether the head of the queue is alive.
	fairTick = 800 * time.Millisecond
	// fairNear is how many of a client's waiters are subscribed, from the first
	// on. One would suffice, but the next must be ready when its turn comes.
	fairNear = 3
	// fairTended is the page size of a tick: each tick refreshes the first page of
	// a client's waiters, and the other pages in rotation.
	fairTended = 50
	// fairAtOnce is how many of a client's waiters may make their first attempt
	// concurrently. If many waiters are canceled, at most these have sent a script
	// that may still queue them.
	fairAtOnce = 64
	// fairAhead is how long Redisson's threads wait for a dead waiter of mortise.
	// It grows up to fairAheadMost for a waiter that lost its place while alive.
	fairAhead     = 10 * time.Second
	fairAheadMost = 5 * time.Minute
)

// drawNonce returns the place that w sends with its next attempt. Messages sent
// before that attempt, and forged ones, do not name the new nonce, so a message
// that does is true from the attempt on. A repeated attempt keeps the nonce. Until
// Redis answers, it may still have the former nonce.
func (c *Client) drawNonce(p place, w *waiter, tell, again bool) script.FairPlace {
	nonce := ""
	if !tell {
		nonce = rand.Text()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !again {
		w.former, w.nonce = w.nonce, nonce
	} else if w.nonce == "" {
		w.nonce = nonce
	}
	return w.place((c.queues[p].length-1)/fairTended, time.Now())
}

// brought records that Redis has answered the attempt that sent w's nonce. A
// message with the former nonce was sent before that, and the reply is newer.
func (c *Client) brought(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.early {
		w.called = false
	}
	w.former, w.early = "", false
}

// place returns what w tells Redis of its place; pages is how many pages of other
// waiters are refreshed in rotation with it. It must be called with Client.mu held.
func (w *waiter) place(pages int, now time.Time) script.FairPlace {
	// A live waiter that loses its place competes with clients whose clock is ahead.
	ahead := min(fairAhead<<min(w.dropped, 10), fairAheadMost) + time.Duration(2*pages)*fairTick
	if !w.until.IsZero() {
		ahead = max(min(ahead, w.until.Sub(now)), 0)
	}
	return script.FairPlace{Owner: w.id, Nonce: w.nonce, Ahead: ahead}
}

// fairQueue is a fair lock with the queue for it in Redis.
type fairQueue struct {
	*locker
	script *script.FairLock
}

// waitFair blocks until r holds the fair lock or gives up. Every waiter is in the queue in
// Redis; the first one of this client refreshes the places of all of them.
func waitFair(ctx context.Context, r *request) (*Hold, error) {
	k := fairQueue{r.lock, r.lock.ops.(*script.FairLock)}
	c := k.client
	ask := &fairWaiter{FairLock: k.script, lock: r.lock, mode: script.FairQueue}
	r.seek, r.id = ask, c.newID()
	ask.tell = !r.lock.takesGiven()

	w := c.await(ctx, k.place, r.owner, r.id) // before Redis can call it
	ask.waiter, r.as = w, w
	s := &fairContest{sleeper: sleeper{done: k.client.done, wake: w.wake}, request: r, lock: k, w: w, ask: ask}
	err := s.sleeper.run(ctx, s)
	if s.listen != nil {
		s.listen.Close()
	}
	c.passNext(k.place, w)
	c.unwait(k.place, w)
	c.leave(k.place, w)
	c.approach(k.place)
	if !r.used && ask.sent {
		k.quit(w, r.doubt)
		r.doubt = false // quit resolves it
	}
	return s.hold, r.unlessOver(ctx, err)
}

// ask makes an attempt for w, and records what a refusal says.
func (k fairQueue) ask(ctx context.Context, r *request, w *waiter, ask *fairWaiter) (*Hold, error) {
	hold, err := r.attempt(ctx)
	if err != nil && err != errNoHold {
		return nil, err
	}
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[k.place]
	if err == nil {
		if ask.came && !r.doubt && w.placed {
			c.missed(k.place, &q.turn)
		}
		return hold, nil
	}
	if !w.seen.IsZero() && ask.requeued {
		w.dropped++
	}
	w.seen = r.start
	q.mix(ask.mixed)
	c.tickWithin(k.place, q, c.nextTick(k.place, ask.again))
	return nil, errNoHold
}

// fairContest is a request that waits in a queue in Redis.
type fairContest struct {
	sleeper
	*request
	lock   fairQueue
	w      *waiter
	ask    *fairWaiter
	begun  bool          // it has made its first attempt
	listen *hub.Listener // the waiter's own channel; only for the first waiters
	hold   *Hold
}

// step performs all actions that are due for the waiter.
func (s *fairContest) step(ctx context.Context, why cause) (time.Duration, error) {
	if !s.begun {
		if err := s.begin(ctx, why); err != errNoHold || !s.begun {
			return poll, err
		}
		why = asked
	}
	for {
		if err := s.try(ctx, why); err != errNoHold {
			return 0, err
		}
		due, err := s.hear()
		if err != nil {
			return 0, err
		}
		if !due {
			return untilWoken, errNoHold
		}
		if err := s.lock.tend(ctx, s.w); err != nil {
			return 0, err
		}
		why = woken
	}
}

// begin makes the first attempt, once fewer than fairAtOnce waiters of the client
// are making theirs. If those get no reply for long, it does not wait for them:
// otherwise it would learn only after them that Redis is unreachable.
func (s *fairContest) begin(ctx context.Context, why cause) (err error) {
	c, p := s.lock.client, s.lock.place
	if why == elapsed {
		c.passBeside(p, s.w)
	}
	if !c.passed(s.w) {
		s.hold, err = s.reenter(ctx)
		return err
	}
	s.begun = true
	s.hold, err = s.lock.ask(ctx, s.request, s.w, s.ask)
	c.passNext(p, s.w)
	if errors.Is(err, errCome) {
		err = errNoHold
	}
	return err
}

// try makes an attempt if there is a reason to.
func (s *fairContest) try(ctx context.Context, why cause) (err error) {
	c, p := s.lock.client, s.lock.place
	if s.hold, err = s.reenter(ctx); err != errNoHold {
		return err
	}
	if seen, called := c.isCalled(s.w); called {
		s.hold, err = s.given(ctx, seen)
	} else if c.asks(s.w) || why == notified {
		if d := c.paceOf(p); d > 0 && !c.pause(ctx, d) {
			return errEnded
		}
		former := s.held
		s.hold, err = s.lock.ask(ctx, s.request, s.w, s.ask)
		if err == nil || changedHands(former, s.held) {
			c.genuine(p)
		}
	}
	if errors.Is(err, errCome) { // the next step handles the grant
		s.w.signal()
		err = errNoHold
	}
	return err
}

// hear subscribes to the channels that the waiter's place requires, and reports
// whether the waiter must refresh its client's places.
func (s *fairContest) hear() (due bool, err error) {
	at := s.lock.client.standing(s.lock.place, s.w, s.ask.since)
	// Without the client's channel, or with Redisson's threads, a waiter needs its own.
	if (at.ear == nil || at.mixed) && at.before < fairNear && s.listen == nil {
		s.listen = s.lock.client.hub.Listen(keyspace.FairChannel(s.lock.name, s.id), s.lock.hearing())
		s.own = s.listen.Hints()
	}
	for _, l := range [...]*hub.Listener{s.listen, at.ear} {
		if l == nil {
			continue
		}
		if err := l.Refused(); err != nil {
			return false, err
		}
	}
	return at.due, nil
}

// nextTick returns the time until the next tick. It must be called with c.mu held.
func (c *Client) nextTick(p place, again time.Duration) time.Duration {
	d := fairTick
	if c.isDeaf(p) {
		d = deafPoll
	}
	if d = jitter(d); again > 0 {
		d = min(d, again+time.Millisecond)
	}
	return d
}

// tickWithin makes the next tick due within d. It must be called with c.mu held.
func (c *Client) tickWithin(p place, q *queue, d time.Duration) {
	t := &q.turn
	next := time.Now().Add(d)
	switch {
	case t.due:
	case t.tick == nil:
		t.next = next
		t.tick = time.AfterFunc(d, func() { c.tick(p, q) })
	case t.next.IsZero() || next.Before(t.next):
		t.next = next
		t.tick.Reset(d)
	}
}

// tick wakes the head of q to do the work of a tick.
func (c *Client) tick(p place, q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queues[p] == q {
		q.turn.due = true
		q.head.signal()
	}
}

// tend refreshes the places of this client's waiters in Redis, and wakes those
// that Redis tells to ask for the lock.
func (k fairQueue) tend(ctx context.Context, w *waiter) error {
	c := k.client
	places := c.tended(k.place)
	var called []string
	var start time.Time
	var again time.Duration
	var mixed bool
	_, err := c.callFor(ctx, w, c.options.RetryFor, func(ctx context.Context) (err error) {
		if c.hasCome(w) {
			return errCome
		}
		start = time.Now()
		called, again, mixed, err = script.FairTend(ctx, c.driver, k.script.Fair(), c.id, places)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[k.place]
	q.turn.due, q.turn.next = false, time.Time{}
	c.tickWithin(k.place, q, c.nextTick(k.place, again))
	switch {
	case err == nil:
		q.mix(mixed)
		q.summon(places, called, start)
	case ctx.Err() != nil, errors.Is(err, errCome):
		return nil // the next step finds that the wait is over
	}
	return err
}

// leaver is a waiter that gave up.
type leaver struct {
	id    string
	since queueing
	doubt bool          // a copy of an attempt may still be in flight
	lease time.Duration // the lease of that attempt
}

// leavers is a heap in the order of the queue.
type leavers []leaver

func (s leavers) Len() int           { return len(s) }
func (s leavers) Less(i, j int) bool { return s[i].since.before(s[j].since) }
func (s leavers) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *leavers) Push(x any)        { *s = append(*s, x.(leaver)) }

func (s *leavers) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// quit removes a waiter that gave up from the queue in Redis, in the background so
// that the caller does not block. Waiters of a lock that give up meanwhile leave
// in one batch: if many left one by one, the next waiter would have to wait until
// Redis has searched the queue for each of them.
//
// If a copy of an attempt may still be in flight, or Redis does not answer, the
// client continues to remove it: nothing else would notice that the lock is
// granted to a waiter that is gone.
func (k fairQueue) quit(w *waiter, doubt bool) {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	since := w.since
	if since.at == 0 {
		since.at = math.MaxInt64 // unknown, so it sorts last
	}
	all := c.leaving[k.place]
	if all == nil {
		all = new(leavers)
		c.leaving[k.place] = all
		c.spawn(k.leaveAll) // even during Close, which waits for the caller's operation
	}
	heap.Push(all, leaver{w.id, since, doubt, k.ttl()})
}

// leaveAll removes the leavers from the queue in Redis, in its order, until there
// are none.
func (k fairQueue) leaveAll(ctx context.Context) {
	c := k.client
	for {
		c.mu.Lock()
		all := c.leaving[k.place]
		some := make([]leaver, min(all.Len(), script.FairLeaveMost))
		for i := range some {
			some[i] = heap.Pop(all).(leaver)
		}
		if len(some) == 0 {
			delete(c.leaving, k.place)
		}
		c.mu.Unlock()
		if len(some) == 0 {
			return
		}
		for len(some) > 0 {
			some = some[k.leaveSome(ctx, some):]
		}
	}
}

// leaveSome removes the first leavers from the queue in Redis, and returns how
// many it handled. It leaves to the janitor those that it cannot remove, and
// those that an attempt in flight may still queue.
func (k fairQueue) leaveSome(ctx context.Context, all []leaver) (done int) {
	c := k.client
	ids := make([]string, len(all))
	for i, l := range all {
		ids[i] = l.id
	}
	var again time.Duration
	_, err := c.call(ctx, c.options.RetryFor, func(ctx context.Context) (err error) {
		done, again, err = script.FairLeave(ctx, c.driver, k.script.Fair(), ids)
		return err
	})
	if again > 0 {
		k.lookIn(again)
	}
	if done == 0 {
		done = len(all)
	}
	for _, l := range all[:done] {
		switch {
		case err != nil:
			c.abandon(k.locker, l.id, l.lease)
		case l.doubt:
			c.lookFor(k.locker, l.id, l.lease, strayPause)
		}
	}
	return done
}

// await adds a waiter that asks with id, and waits until ctx is done, to the wait
// queue for p.
func (c *Client) await(ctx context.Context, p place, o *owner, id string) *waiter {
	w := &waiter{owner: o, wake: make(chan struct{}, 1), fairPlace: &fairPlace{id: id}}
	w.until, _ = ctx.Deadline()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(p, w, false)
	q := c.queues[p]
	t := &q.turn
	if t.waits == nil {
		t.waits = make(map[string]*waiter)
	}
	t.waits[id] = w
	switch {
	case t.first < fairAtOnce:
		q.pass(w)
	case q.gated == nil:
		q.gated = w
	}
	return w
}

// unwait stops the delivery of messages to w.
func (c *Client) unwait(p place, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues[p].turn.waits, w.id)
}

// passed reports whether w may make its first attempt.
func (c *Client) passed(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.busy
}

// passNext records that w has made its first attempt, or gives up, and lets the
// next waiter make its own. It has no effect if w was not making one.
func (c *Client) passNext(p place, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.busy {
		return
	}
	w.busy = false
	q := c.queues[p]
	q.turn.first--
	if next := q.gated; next != nil {
		q.pass(next)
		next.signal()
	}
}

// passBeside lets w make its first attempt, regardless of fairAtOnce.
func (c *Client) passBeside(p place, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.busy {
		return
	}
	q := c.queues[p]
	q.remove(w)
	before := q.tail
	if q.gated != nil {
		before = q.gated.prev
	}
	q.insert(w, before)
	w.busy = true
	q.turn.first++
}

// pass lets w, the first waiter that has not asked yet, make its first attempt. It
// must be called with Client.mu held.
func (q *queue) pass(w *waiter) {
	q.gated = w.next
	w.busy = true
	q.turn.first++
}

// fairStanding describes the position of a waiter.
type fairStanding struct {
	before int           // number of this client's waiters before it, counted up to fairNear
	ear    *hub.Listener // on the client's channel; nil if it has none
	mixed  bool          // Redisson's threads take part
	due    bool          // the waiter must do the work of a tick
}

// standing moves w to its position in Redis' order, and returns that.
func (c *Client) standing(p place, w *waiter, since queueing) (s fairStanding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	if q.turn.ear == nil && c.conn.TurnCommand() != "" {
		q.turn.ear = c.ear(p)
	}
	if w.since != since || !w.placed {
		w.since, w.placed = since, true
		q.arrange(w)
		if q.turn.due {
			q.head.signal() // the head may have changed
		}
		if w.unheard && q.head == w {
			w.asked = true
			w.signal()
		}
		w.unheard = false
	}
	for v := q.head; v != w && s.before < fairNear; v = v.next {
		s.before++
	}
	s.ear, s.mixed, s.due = q.turn.ear, q.turn.mixed, q.turn.due && s.before == 0
	return s
}

// mix records whether Redisson's threads take part. It must be called with
// Client.mu held.
func (q *queue) mix(mixed bool) {
	if q.turn.mixed == mixed {
		return
	}
	q.turn.mixed = mixed
	for w, n := q.head, 0; w != nil && n < fairNear; w, n = w.next, n+1 {
		w.signal() // it may need a channel of its own
	}
}

// earChanged makes the first waiter ask Redis: messages published before the
// client was subscribed are lost. A waiter whose place is not known yet asks when
// it turns out to be the first. If the client cannot subscribe, all waiters wake.
func (c *Client) earChanged(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	if q == nil {
		return
	}
	q.turn.heard = time.Now()
	for w := q.head; w != nil && w.placed; w = w.next {
		w.asked = true
		w.signal()
		if w.since.at != 0 { // otherwise the reply with its place was lost
			break
		}
	}
	for w := q.tail; w != nil && !w.placed; w = w.prev {
		w.unheard = true
	}
	if q.turn.ear != nil && q.turn.ear.Refused() != nil {
		for w := q.head; w != nil; w = w.next {
			w.signal()
		}
	}
}

// isCalled reports, once, whether Redis has granted the lock to w, and the last
// time at which w was seen not to have it.
func (c *Client) isCalled(w *waiter) (seen time.Time, called bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	called, w.called = w.called, false
	return w.seen, called
}

// paceOf returns how long a waiter for p must pause before an attempt that a
// message may have caused: any client may publish.
func (c *Client) paceOf(p place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[p].turn.pace.next(time.Now())
}

// genuine records that the message that caused the last attempt was true.
func (c *Client) genuine(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues[p].turn.pace.genuine()
}

// fairEar opens the client's channel for a fair lock.
func fairEar(c *Client, p place) *hub.Listener {
	return c.hub.ListenFor(keyspace.FairTurnChannel(p.name, c.id), c.ownHearing(),
		func(message string) bool { return c.calledOut(p, message) }, func() { c.earChanged(p) })
}

// calledOut handles a message to this client about one of its waiters for p. It
// always reports false, because the message is for that waiter only. Any client may
// have sent it: only a nonce that the waiter drew proves a grant. Any other message
// only makes a waiter that may be next ask, at the pace of the queue. A message for an
// unknown waiter has no effect: a waiter that gave up leaves the queue itself.
func (c *Client) calledOut(p place, message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	c.hears(p, q)
	if q == nil {
		return false
	}
	m := script.ParseFair(message)
	switch w := q.turn.waits[m.Waiter]; {
	case w == nil:
	case m.Look && (!w.placed || q.near(w)):
		w.asked = true
		w.signal()
	case m.Nonce == "":
	case m.Nonce == w.nonce:
		w.called, w.early, w.nonce, w.former = true, false, "", ""
		w.signal()
	case m.Nonce == w.former:
		w.called, w.early, w.former = true, true, ""
		w.signal()
	}
	return false
}

// near reports whether w is one of the first fairNear in q. It must be called with
// Client.mu held.
func (q *queue) near(w *waiter) bool {
	n := 0
	for v := q.head; v != nil && n < fairNear; v = v.next {
		if v == w {
			return true
		}
		n++
	}
	return false
}

// approach wakes the waiter for p that is now near enough to subscribe.
func (c *Client) approach(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	if q == nil || q.turn.ear != nil && !q.turn.mixed {
		return
	}
	n := 1
	for w := q.head; w != nil; w = w.next {
		if n == fairNear {
			w.signal()
			return
		}
		n++
	}
}

// tended returns the places of the waiters for p that the current tick refreshes.
func (c *Client) tended(p place) (places []script.FairPlace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[p]
	q.turn.ticks++
	pages := (q.length + fairTended - 1) / fairTended
	now, n := time.Now(), 0
	for w := q.head; w != nil; w = w.next {
		switch page := n / fairTended; page {
		case 0:
			places = append(places, w.place(0, now))
		case q.turn.ticks % pages:
			places = append(places, w.place(pages, now))
		}
		n++
	}
	return places
}

// summon makes the called waiters ask for the lock. The other waiters in places did
// not have it at start. It must be called with Client.mu held.
func (q *queue) summon(places []script.FairPlace, called []string, start time.Time) {
	for _, id := range called {
		if w := q.turn.waits[id]; w != nil {
			w.asked = true
			w.signal()
		}
	}
	for _, p := range places {
		if w := q.turn.waits[p.Owner]; w != nil && !slices.Contains(called, p.Owner) {
			w.seen = start
		}
	}
}
