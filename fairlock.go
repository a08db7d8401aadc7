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

// FairLock is a lock that is given to those who wait for it in the order in
// which they asked: all goroutines and threads of all processes, those of
// Redisson's FairLock included. In everything else it is like [Lock].
//
// Who waits stands in a queue in Redis, and keeps its place for as long as it
// waits and its client lives. One that gives up leaves at once. One that dies
// delays the next by about a second when its turn comes, or by ten if its
// connection lives on, as when the process is frozen. A client that shows no
// life for that long loses the places of its waiters; if it comes back, they
// queue again at the end.
//
// [FairLock.TryLock] does not queue, and is refused while others do, even if
// the lock is free.
//
// What it does not guarantee, beyond what Lock does not: that a Redisson waiter
// keeps its place. Redisson's own clients drop one whose deadline has passed,
// five minutes for each place in the queue by default, and count with their own
// clocks. A fair lock should not be used as a plain one under the same name:
// plain lockers do not queue, and neither kind wakes the other. The owner of the
// one re-enters it as the other all the same, see [FairLock.Lock].
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

// useFair is the hash of a Lock, with a queue beside it.
var useFair = newUse(class{ear: fairEar}).twinOf(usePlain)

var fairTraits = traits{use: useFair, grantable: true, wait: waitFair}

// With returns the same lock, to be taken with these options.
func (k *FairLock) With(options LockOptions) *FairLock {
	k = k.client.FairLock(k.name)
	k.options = &options
	return k
}

// Waiter is one who waits in a queue in Redis.
type Waiter struct {
	Owner string // as in [Holder]
	// Left is how long Redisson's clients will wait for this one when it is
	// the next; negative if not any more.
	Left time.Duration
}

// Queue returns who waits for the lock, the next one first, a thousand at most.
// It reads from the master, changes nothing, and blocks for one round trip.
//
// Errors: as with [FairLock.Inspect].
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

// lookIn has the lock looked at again, which was released just now: whoever is
// next may be gone, and threads of Redisson's that wait behind do not look for
// themselves.
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
			_, _ = k.release(ctx, c.id) // which holds nothing
		}
	})
}

// fairWaiter is the scripts of a fair lock for one waiter: it queues if refused.
type fairWaiter struct {
	*script.FairLock
	lock     *locker
	waiter   *waiter
	mode     script.FairMode
	pending  bool          // Redis has not answered the attempt that brings the nonce
	tell     bool          // the lock cannot be given to it
	sent     bool          // an attempt may have reached Redis
	again    time.Duration // as in the last refusal
	mixed    bool          // idem
	since    queueing      // of the last refusal that queued it
	requeued bool          // by the last refusal
	came     bool          // its turn had come before the attempt that acquired the lock
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

// queueing is when a waiter took its place in the queue in Redis: the server's
// time in microseconds, and how long the queue was then.
type queueing struct {
	at     int64
	behind int
}

func (q queueing) before(other queueing) bool {
	return q.at < other.at || q.at == other.at && q.behind < other.behind
}

const (
	// fairTick is how often a client shows that its waiters live, and looks
	// whether the head of the queue does.
	fairTick = 800 * time.Millisecond
	// fairNear is how many of a client's waiters are subscribed: the first
	// ones. One would do, but the next is to be ready when its turn comes.
	fairNear = 3
	// fairTended is how many of a client's waiters are looked after with each
	// tick: the first ones, and as many others in turn.
	fairTended = 50
	// fairAtOnce is how many of a client's waiters ask for the first time at once.
	// Of a crowd that is cancelled, no more than these have sent something that
	// may still come to queue them.
	fairAtOnce = 64
	// fairAhead is how long Redisson's threads wait for one of mortise's waiters
	// that is dead, and at most fairAheadMost.
	fairAhead     = 10 * time.Second
	fairAheadMost = 5 * time.Minute
)

// drawNonce returns what w says of its place with its next attempt. A message that was
// sent before that attempt, or that anybody makes up, does not name the nonce that
// is drawn here, so what w hears of it is true from the attempt on. An attempt that
// is made again keeps it. Until Redis answers, what lies there may be the former one.
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

// brought notes that Redis has answered the attempt that brought w's nonce. What w
// has heard with the former one was sent before that, and the answer is newer.
func (c *Client) brought(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.early {
		w.called = false
	}
	w.former, w.early = "", false
}

// place is what a waiter says of its place. So many pages of others are looked
// after in turn with it. It must be called with Client.mu held.
func (w *waiter) place(pages int, now time.Time) script.FairPlace {
	// Whoever loses its place though it lives stands beside clocks that are ahead.
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

// waitFair returns a hold of a fair lock as soon as it is r's turn. Every waiter
// stands in the queue in Redis; the first one of this client looks after the places
// of all of them.
func waitFair(ctx context.Context, r *request) (*Hold, error) {
	k := fairQueue{r.lock, r.lock.ops.(*script.FairLock)}
	c := k.client
	ask := &fairWaiter{FairLock: k.script, lock: r.lock, mode: script.FairQueue}
	r.seek, r.id = ask, c.newID()
	ask.tell = !r.lock.takesGiven()

	w := c.await(ctx, k.place, r.owner, r.id) // before it can be called
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
		r.doubt = false // it is looked after
	}
	return s.hold, r.unlessOver(ctx, err)
}

// ask asks Redis for w, and notes what is to be known of a refusal.
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
	begun  bool          // it has asked for the first time
	listen *hub.Listener // of the first waiters, where Redisson's threads are
	hold   *Hold
}

// step does all that the waiter can do now.
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

// begin asks for the first time, when no more than some others of the client do.
// Where those have no answer for long, it asks beside them: else it would only know
// after them that Redis is away.
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

// try asks for the lock if there is reason to.
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
	if errors.Is(err, errCome) { // it looks again
		s.w.signal()
		err = errNoHold
	}
	return err
}

// hear listens where the waiter's place calls for it, and reports whether the waiter
// is to look after its client's places.
func (s *fairContest) hear() (due bool, err error) {
	at := s.lock.client.standing(s.lock.place, s.w, s.ask.since)
	// Where there are others, each waiter is told by a channel of its own.
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

// nextTick is how long to wait before the next tick. It must be called with c.mu
// held.
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

// tickWithin makes the next tick due after d at the latest. It must be called
// with c.mu held.
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

// tick has the head of q do what is due.
func (c *Client) tick(p place, q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queues[p] == q {
		q.turn.due = true
		q.head.signal()
	}
}

// tend looks after the waiters of this client, and has those ask for the lock
// that should.
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
		return nil // the wait is over; it says so itself
	}
	return err
}

// leaver is a waiter that gave up.
type leaver struct {
	id    string
	since queueing
	doubt bool          // a copy of an attempt may still be on its way
	lease time.Duration // of that
}

// leavers is a heap, the first in the queue first.
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

// quit takes a waiter that gave up out of the queue in Redis, in the background
// so that nobody has to wait for that. All of a lock that give up meanwhile leave
// together: one by one, a crowd would have the next one wait until Redis has
// searched its queue for each of them.
//
// If a copy of an attempt may still be on its way, or Redis does not answer, it
// goes on to do so: nobody else would notice that the lock is given to one who is
// not there.
func (k fairQueue) quit(w *waiter, doubt bool) {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	since := w.since
	if since.at == 0 {
		since.at = math.MaxInt64 // not known; it came last
	}
	all := c.leaving[k.place]
	if all == nil {
		all = new(leavers)
		c.leaving[k.place] = all
		c.spawn(k.leaveAll) // Close waits for the operation that is here
	}
	heap.Push(all, leaver{w.id, since, doubt, k.ttl()})
}

// leaveAll takes those who are to leave out of the queue in Redis, the first ones
// first, until there are none.
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

// leaveSome takes the first ones out of the queue in Redis, and returns how many.
// Those that it cannot take out, or that may come to be there yet, are left to the
// janitor.
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

// await puts a waiter that asks with id, and waits for ctx, into the queue for p.
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

// unwait has w hear nothing any more.
func (c *Client) unwait(p place, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues[p].turn.waits, w.id)
}

// passed reports whether w is to ask for the first time.
func (c *Client) passed(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.busy
}

// passNext notes that w, if it was to ask for the first time, has done so or gives
// up: the next one may.
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

// passBeside lets w ask for the first time, however many do.
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

// pass lets w, the first of those that have not asked yet, do so. It must be
// called with Client.mu held.
func (q *queue) pass(w *waiter) {
	q.gated = w.next
	w.busy = true
	q.turn.first++
}

// fairStanding is what a waiter is told of its place.
type fairStanding struct {
	before int           // so many waiters of this client; right for the first ones, and high enough for others
	ear    *hub.Listener // for the client's channel, if it has one
	mixed  bool          // threads of Redisson's take part
	due    bool          // it is to do what a tick does
}

// standing puts w where it stands in Redis.
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
			q.head.signal() // it may be another one
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

// mix notes whether threads of Redisson's take part. It must be called with
// Client.mu held.
func (q *queue) mix(mixed bool) {
	if q.turn.mixed == mixed {
		return
	}
	q.turn.mixed = mixed
	for w, n := q.head, 0; w != nil && n < fairNear; w, n = w.next, n+1 {
		w.signal() // it may have to listen to a channel of its own
	}
}

// earChanged has the first waiter look: what was published before the client
// listened is lost. One whose place is not known yet looks when it turns out to
// be the first. If the client cannot listen, all are to know.
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
		if w.since.at != 0 { // else the answer that told its place was lost
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

// isCalled reports, once, whether Redis has given the lock to w, and when it was
// seen not to have it.
func (c *Client) isCalled(w *waiter) (seen time.Time, called bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	called, w.called = w.called, false
	return w.seen, called
}

// paceOf returns how long to wait before an attempt by one of the queue for p that
// a message may have asked for: anybody may publish.
func (c *Client) paceOf(p place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[p].turn.pace.next(time.Now())
}

// genuine notes that the message which asked for the last attempt told the truth.
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

// calledOut takes a message to this client about its waiters for p. It reports
// false: each is for one of them. Anybody may have sent it: that a waiter has the
// lock is believed only with the nonce that the waiter drew, and whoever may be
// next looks, at the pace of all. What is for nobody here has no consequence: one
// that gave up leaves by itself.
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

// near reports whether w is one of the first in q. It must be called with Client.mu
// held.
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

// approach wakes the waiter for p that has come near enough to subscribe.
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

// tended returns the waiters for p that a tick looks after.
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

// summon has those waiters ask for the lock that were called. The others of those
// that were looked after did not have it at the start of that. It must be called
// with Client.mu held.
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
