package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/hub"
)

// Redlock is a lock on several servers that are independent of each other: the owner
// that has it on more than half of them holds it. It is the counterpart of Redisson's
// RedLock: on each server it is a [Lock] of that name.
//
// It works while some of the servers are down, stalled or cut off, as long as
// more than half can be reached; of an even number one more than half. All are
// asked at the same time. Once the outcome is decided it does not wait for the rest:
// a server that answers late still becomes part of the hold, or is told to
// release the lock. A server that does not answer costs a twentieth of the lease,
// two seconds at most, and only if the outcome depends on it; it is not asked
// again at once.
//
// Each server's lease is renewed independently, or ends independently if it is fixed.
// [Hold.Until] returns until when more than half are trusted: the lease less the
// time that asking took and a margin for clocks. The hold is lost when that time ends,
// or too few are left. While they are enough, and the lock is renewed, the
// missing servers are asked again in the background, so that the servers can be
// restarted one after the other.
//
// What it does not guarantee: more than a Lock does as to frozen holders and
// clocks. And a server that comes back without its data has forgotten the lock,
// and may help another to a majority: let it write to disk at once (appendfsync
// always), or keep it away for as long as the longest lease. A Redlock has no
// fencing tokens. Where two holders at once would do real harm, a
// [FencedLock] whose tokens the resource checks is safer than a Redlock.
//
// Waiters have no order, except for goroutines which wait for the same servers
// through the same clients. To inspect the lock or to free it by force, use the
// Lock on each server.
//
// A Redlock holds no resources. Its methods are safe for concurrent use.
type Redlock struct {
	name    string
	nodes   []*locker
	need    int
	invalid error // what is wrong with it
}

// NewRedlock returns the lock called name on several servers, one client for
// each; see [Client.Lock] for names. It does no I/O. The clients should have the
// same options. Three or five servers make sense. If there is no client, or the
// same is given twice, using the Redlock fails with [ErrInvalid]. Two clients of
// the same server are a mistake that it cannot detect.
func NewRedlock(name string, clients ...*Client) *Redlock {
	k := &Redlock{name: name, need: len(clients)/2 + 1}
	if len(clients) == 0 {
		k.invalid = invalid("a Redlock needs at least one client")
	}
	for i, c := range clients {
		if c == nil {
			k.invalid = invalid("client %d is nil", i+1)
			continue
		}
		if j := slices.Index(clients, c); j < i {
			k.invalid = invalid("clients %d and %d are the same; each server counts once", j+1, i+1)
		}
		k.nodes = append(k.nodes, &c.Lock(name).locker)
	}
	return k
}

// Name returns the name in Redis, on each server.
func (k *Redlock) Name() string { return k.name }

// With returns the same lock, with these options for taking it.
func (k *Redlock) With(options LockOptions) *Redlock {
	with := *k
	with.nodes = make([]*locker, len(k.nodes))
	for i, node := range k.nodes {
		copied := *node
		copied.options = &options
		with.nodes[i] = &copied
	}
	return &with
}

// Do takes the lock, calls f, and releases it. Everything else is as with
// [Lock.Do].
func (k *Redlock) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, k.Lock, f)
}

// Lock takes the lock, and blocks until it has it or ctx ends. The returned context, and
// the owner that it carries, are as with [Lock.Lock].
//
// Errors: [ErrNoQuorum] if too few servers could be reached, or could serve, for
// the longest [Options.RetryFor] of the clients; at once if that cannot pass by
// itself; the error of ctx, which also matches [ErrLocked] if a server reported the
// lock held; [ErrReentry], and those of every method; see the package documentation.
// An ErrNoQuorum includes the errors of the servers, see Lock.Lock.
func (k *Redlock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", (*canvass).wait)
}

// TryLock asks each server once. [ErrLocked] says that enough have answered, but
// too few of them were free; others may hold it, or ask for it at the same time.
// [ErrNoQuorum] says that too few have answered. Everything else is as with
// [Redlock.Lock].
func (k *Redlock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", (*canvass).once)
}

func (k *Redlock) enter(ctx context.Context, op string, run func(*canvass, context.Context) (*Hold, error)) (*Hold, context.Context, error) {
	if err := k.sound(); err != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: err}
	}
	if ctx.Err() != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: contextError(ctx)}
	}
	v := &canvass{k: k, owner: ownerOf(ctx), servers: make([]server, len(k.nodes))}
	if v.owner == nil {
		v.owner = new(owner)
	}
	hold, err := run(v, ctx)
	if err != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: err}
	}
	return hold, hold.context(), nil
}

// sound checks the arguments, before anything is sent.
func (k *Redlock) sound() error {
	if k.invalid != nil {
		return k.invalid
	}
	for _, node := range k.nodes {
		if node.client.invalid != nil {
			return node.client.invalid
		}
		if err := node.sound(); err != nil {
			return err
		}
	}
	return nil
}

// quorumError is the error for too few answers.
type quorumError struct {
	answered, total, need int
	errs                  []error
}

func (e *quorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d of %d did, and %d are needed", ErrNoQuorum, e.answered, e.total, e.need)
	for _, err := range e.errs {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

func (e *quorumError) Unwrap() []error { return append([]error{ErrNoQuorum}, e.errs...) }

// about adds to an error the server that it is of.
func (k *Redlock) about(nth int, err error) error {
	return fmt.Errorf("server %d of %d: %w", nth+1, len(k.nodes), err)
}

// spare is how many servers may fail.
func (k *Redlock) spare() int { return len(k.nodes) - k.need }

// patience is how long to wait for the answer of a server.
func (k *Redlock) patience() time.Duration {
	const shortest, longest = 50 * time.Millisecond, 2 * time.Second
	ttl := k.nodes[0].ttl()
	for _, node := range k.nodes {
		ttl = min(ttl, node.ttl())
	}
	return min(max(ttl/20, shortest), longest)
}

// retryFor is how long to retry while too few servers answer; negative means without
// limit.
func (k *Redlock) retryFor() (d time.Duration) {
	for _, node := range k.nodes {
		if node.client.options.RetryFor < 0 {
			return -1
		}
		d = max(d, node.client.options.RetryFor)
	}
	return d
}

// closed counts the clients that were closed.
func (k *Redlock) closed() (n int) {
	for _, node := range k.nodes {
		select {
		case <-node.client.done:
			n++
		default:
		}
	}
	return n
}

// ask asks one server, and makes what it grants a member of c. A server that is
// reached after the end of c is not asked: its lock would obstruct the next holder
// until it is given back.
func (k *Redlock) ask(c *composite, nth int) error {
	node, patience := k.nodes[nth], k.patience()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.hold.context()), patience)
	defer cancel()
	err := node.ready(ctx)
	if c.over() {
		return ErrReleased
	}
	var hold *Hold
	if err == nil {
		hold, err = node.take(ctx, false)
	}
	switch {
	case err == nil:
		return c.add(&member{of: node, nth: nth}, hold)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no answer within %v", ErrUnreachable, patience)
	}
	return meaning(node.client.because(err))
}

// mend asks a missing server until it becomes a member of c, or c is over. That is
// harmless: while c has its majority, no other owner can have one. A fixed lease is
// not mended, because it must end.
func (k *Redlock) mend(c *composite, nth int) {
	node := k.nodes[nth]
	if !node.renewed() {
		return
	}
	const first = 100 * time.Millisecond
	for n := 0; ; n++ {
		timer := time.NewTimer(min(jitter(first<<min(n, 10)), node.ttl()/3))
		select {
		case <-timer.C:
		case <-node.client.done:
		case <-c.hold.context().Done():
		}
		timer.Stop()
		if c.hold.context().Err() != nil || k.ask(c, nth) == nil {
			return
		}
		select {
		case <-node.client.done:
			return
		default:
		}
	}
}

// canvass is one call of Lock or TryLock: it asks the servers, as often as needed.
type canvass struct {
	k       *Redlock
	owner   *owner
	servers []server
	held    *HeldError // the last refusal

	sleeper // this and the following fields are those of a waiting call
	w       *waiter
	ears    *ears
	hold    *Hold
	deaf    bool      // only time helps; no notification does
	next    time.Time // the end of that time
	failing time.Time // since when too few answer
	splits  int       // how often in a row the vote was split
}

// server is what a canvass knows of one server.
type server struct {
	busy     atomic.Bool // it was asked and has not answered yet
	failures int         // in a row
	again    time.Time   // when it is asked again after a failure
	err      error       // the last failure, if it did not answer since
	by       string      // the holder in its last answer; empty if it granted the lock
	refused  bool        // it refused in the last round
	same     bool        // and named the same holder as the time before
}

// ready reports whether the server can be asked.
func (s *server) ready() bool { return !s.busy.Load() && !time.Now().Before(s.again) }

// failed records a failure. The server is not asked again at once: another attempt
// would probably cost the same time.
func (s *server) failed(err error) {
	const first, longest = 100 * time.Millisecond, 2 * time.Second
	s.err = err
	s.again = time.Now().Add(jitter(min(longest, first<<min(s.failures, 10))))
	s.failures++
}

// answered records an answer, and the holder that it named.
func (s *server) answered(by string) {
	s.failures, s.err = 0, nil
	s.refused, s.same, s.by = by != "", by != "" && by == s.by, by
}

// vote is a server's answer.
type vote struct {
	nth int
	err error
}

// once asks all servers once.
func (v *canvass) once(ctx context.Context) (*Hold, error) {
	hold, _, err := v.round(ctx)
	return hold, err
}

// round asks all servers at the same time. If it fails, split reports that some had
// granted the lock, and more than half are not known to be another owner's. A competing
// request has then given back its votes, and asks again with another id.
func (v *canvass) round(ctx context.Context) (hold *Hold, split bool, err error) {
	k := v.k
	c := newComposite(ctx, k.name, len(k.nodes), k.need)
	c.owner = v.owner
	c.fallen = func(m *member) {
		m.of.client.background(func(context.Context) {
			c.bury(m)
			k.mend(c, m.nth)
		})
	}
	votes := make(chan vote, len(k.nodes)) // a vote does not block
	over := make(chan struct{})
	defer close(over)
	failed := 0
	var skipped []int
	suspect := make(map[int]bool) // asked, although it failed the last time
	for i, node := range k.nodes {
		s := &v.servers[i]
		s.refused, s.same = false, false
		if !s.ready() {
			failed++
			skipped = append(skipped, i)
			continue
		}
		if s.busy.Store(true); s.err != nil {
			suspect[i] = true
		}
		if !node.client.background(func(context.Context) {
			err := k.ask(c, i)
			s.busy.Store(false)
			votes <- vote{i, err}
			if <-over; err != nil {
				k.mend(c, i)
			}
		}) {
			s.busy.Store(false)
			votes <- vote{i, ErrClosed}
		}
	}

	if len(k.nodes)-failed-len(suspect) < k.need {
		clear(suspect) // the outcome depends on them
	}
	failed += len(suspect) // they are not waited for, but may answer in time

	granted, refused := 0, 0
	var refusal error
	decided := func() bool {
		return granted >= k.need || failed > k.spare() ||
			// The lock is not available. Has a majority said so?
			refused+failed > k.spare() && granted+refused >= k.need
	}
	for err == nil && !decided() {
		select {
		case <-ctx.Done():
			err = endedBy(ctx, v.held)
		case got := <-votes:
			s := &v.servers[got.nth]
			if suspect[got.nth] {
				failed--
			}
			var held *HeldError
			switch {
			case got.err == nil:
				granted++
				s.answered("")
			case errors.As(got.err, &held):
				refused++
				v.held, refusal = held, k.about(got.nth, held)
				s.answered(held.Owner)
			case errors.Is(got.err, ErrReentry):
				err = ErrReentry
			default:
				failed++
				s.failed(got.err)
			}
		}
	}
	switch {
	case err != nil:
	case granted >= k.need:
		err = c.form()
	case failed > k.spare():
		err = v.noQuorum(len(k.nodes) - failed)
	default:
		err = refusal
	}
	if err == nil {
		for _, i := range skipped {
			k.nodes[i].client.background(func(context.Context) { k.mend(c, i) })
		}
		v.tell()
		return c.hold, false, nil
	}
	members, _, _ := c.finish(err)
	v.wind(ctx, giveBack(members), len(members))
	return nil, granted > 0 && !v.taken(), err
}

// taken reports whether one other holder, or several that stay, have the lock on so
// many servers that no other owner can get it.
func (v *canvass) taken() bool {
	n := 0
	for i := range v.servers {
		if v.servers[i].same {
			n++
		}
	}
	return n > v.k.spare()
}

// wind waits until what was granted in a failed round is given back, but not for a
// server that has stopped answering.
func (v *canvass) wind(ctx context.Context, results <-chan given, n int) {
	timer := time.NewTimer(v.k.patience())
	defer timer.Stop()
	for range n {
		select {
		case <-results:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// noQuorum is the error for too few answers.
func (v *canvass) noQuorum(answered int) error {
	e := &quorumError{answered: answered, total: len(v.servers), need: v.k.need}
	for i := range v.servers {
		if err := v.servers[i].err; err != nil {
			e.errs = append(e.errs, v.k.about(i, err))
		}
	}
	return e
}

// hopeless reports whether too many servers failed in a way that retrying cannot help.
func (v *canvass) hopeless() bool {
	n := 0
	for i := range v.servers {
		if err := v.servers[i].err; err != nil && !errors.Is(err, ErrUnreachable) {
			n++
		}
	}
	return n > v.k.spare()
}

// entered reports whether the owner holds the lock on some server, so that the request
// need not queue.
func (v *canvass) entered() bool { return slices.ContainsFunc(v.k.nodes, v.owner.has) }

// tell wakes the waiters of the same owner for the same lock.
func (v *canvass) tell() {
	c := v.k.nodes[0].client
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(v.k.place(), v.owner)
}

// useRedlock is the use of a name by a Redlock, on all its servers. It has only a queue in
// this process; nothing in Redis has that use.
var useRedlock = newUse(class{})

// place is the wait queue of a process for the lock. Only the first waiter asks; several
// would split the votes among themselves.
func (k *Redlock) place() place { return place{useRedlock, k.name} }

// wait asks until the lock is acquired.
func (v *canvass) wait(ctx context.Context) (*Hold, error) {
	c, p := v.k.nodes[0].client, v.k.place()
	w := newWaiter(v.owner)
	c.join(p, w, false)
	defer c.leave(p, w)
	for _, node := range v.k.nodes {
		defer context.AfterFunc(node.client.life, w.signal)()
	}
	v.ears = newEars(v.k)
	defer v.ears.close()
	v.w, v.sleeper = w, sleeper{wake: w.wake, own: v.ears.hints}
	if err := v.sleeper.run(ctx, v); err != nil {
		if err == errEnded {
			err = endedBy(ctx, v.held)
		}
		return nil, err
	}
	return v.hold, nil
}

// step asks the servers, if there is reason to.
func (v *canvass) step(ctx context.Context, why cause) (d time.Duration, err error) {
	k := v.k
	if k.closed() > k.spare() {
		return 0, ErrClosed
	}
	head, _ := k.nodes[0].client.position(k.place(), v.w)
	if why == notified {
		// A notification of a server that has not refused may be the release of
		// what it granted to us in a failed round.
		if nth := v.ears.heard(); v.deaf || head && !v.refusedBy(nth) {
			return v.rest()
		}
		if d := v.pace.next(time.Now()); d > 0 && !k.nodes[0].client.pause(ctx, d) && ctx.Err() != nil {
			return 0, errEnded
		}
	}
	if !head && !v.entered() {
		v.deaf = false
		return untilWoken, errNoHold // the waiter that leaves the queue wakes the next
	}
	if v.deaf && why == woken {
		return v.rest()
	}
	hold, split, err := v.round(ctx)
	if d, err = v.again(ctx, split, err); err == nil {
		v.hold = hold
	}
	v.next = time.Now().Add(d)
	return d, err
}

// rest returns the remaining time of an interrupted sleep.
func (v *canvass) rest() (time.Duration, error) { return max(time.Until(v.next), 0), errNoHold }

// again returns the outcome of a round, and after what time to ask again if it failed.
func (v *canvass) again(ctx context.Context, split bool, err error) (time.Duration, error) {
	v.deaf = false // set again below if only time helps
	switch now := time.Now(); {
	case err == nil:
		return 0, nil
	case errors.Is(err, ErrNoQuorum):
		if v.failing.IsZero() {
			v.failing = now
		}
		if v.hopeless() || (v.k.retryFor() >= 0 && now.Sub(v.failing) >= v.k.retryFor()) {
			return 0, err
		}
		v.deaf = true
		return v.untilReady(), errNoHold
	case !errors.Is(err, ErrLocked):
		return 0, err
	case ctx.Err() != nil:
		return 0, errEnded
	case split:
		// Others asked at the same time. The first to retry gets the lock, so
		// retries must not coincide. A notification meanwhile may be of our own
		// release.
		v.failing, v.deaf = time.Time{}, true
		v.splits++
		return dice.N(10 * time.Millisecond << min(v.splits-1, 5)), errNoHold
	default:
		v.failing, v.splits = time.Time{}, 0
		return jitter(poll), cmp.Or(v.ears.open(), errNoHold)
	}
}

// refusedBy reports whether one of the given servers refused in the last round.
func (v *canvass) refusedBy(servers []int) bool {
	return slices.ContainsFunc(servers, func(nth int) bool { return v.servers[nth].refused })
}

// untilReady is how long to wait until enough servers can be asked again.
func (v *canvass) untilReady() time.Duration {
	var waits []time.Duration
	for i := range v.servers {
		s := &v.servers[i]
		d := max(time.Until(s.again), 0)
		if s.busy.Load() {
			d = max(d, 10*time.Millisecond)
		}
		waits = append(waits, d)
	}
	slices.Sort(waits)
	return max(waits[v.k.need-1], time.Millisecond)
}

// ears listens to the releases on all servers.
type ears struct {
	k         *Redlock
	listeners []*hub.Listener // nil where it does not listen yet
	heeds     []*hub.Listener // the subscriptions that identify the listeners
	told      []atomic.Bool   // which servers have sent something
	hints     chan struct{}
}

func newEars(k *Redlock) *ears {
	n := len(k.nodes)
	return &ears{
		k: k, listeners: make([]*hub.Listener, n), heeds: make([]*hub.Listener, n),
		told: make([]atomic.Bool, n), hints: make(chan struct{}, 1),
	}
}

// open subscribes where it has not yet. It fails if too many servers refuse that.
func (e *ears) open() error {
	refused := 0
	var reason error
	for i, node := range e.k.nodes {
		if !node.client.conn.Known() {
			continue // it was never reached
		}
		if e.listeners[i] == nil {
			tell := func() {
				e.told[i].Store(true)
				select {
				case e.hints <- struct{}{}:
				default:
				}
			}
			e.listeners[i], e.heeds[i] = node.overhear(func(string) bool { tell(); return false }, tell)
		}
		if err := e.listeners[i].Refused(); err != nil {
			refused++
			reason = e.k.about(i, meaning(err))
		}
	}
	if refused > e.k.spare() {
		return reason
	}
	return nil
}

// heard returns the servers that have sent something since its last call.
func (e *ears) heard() (servers []int) {
	for i := range e.told {
		if e.told[i].Swap(false) {
			servers = append(servers, i)
		}
	}
	return servers
}

func (e *ears) close() {
	for i, l := range e.listeners {
		if l != nil {
			l.Close()
			e.heeds[i].Close()
		}
	}
}
