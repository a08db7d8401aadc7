package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Locker is any kind of lock of this package that a [MultiLock] can be made of.
// No other package can implement it.
type Locker interface {
	Name() string
	Lock(ctx context.Context) (*Hold, context.Context, error)
	TryLock(ctx context.Context) (*Hold, context.Context, error)

	lockers() []*locker
}

func (k *locker) lockers() []*locker { return []*locker{k} }

// MultiLock is several locks that are taken together: all of them or none, the
// counterpart of Redisson's MultiLock. They may be of different kinds, clients
// and servers. There is nothing in Redis but the locks themselves; who holds or
// waits for one of them by itself contends with the MultiLock.
//
// The locks are taken in one order, which all processes share, in whatever
// order they are named: two MultiLocks never wait for each other. While it waits
// for one, those before it are held and renewed, so that it has all of them at
// last. There are two exceptions. Plain locks of one client, on a Redis Cluster
// of one slot, are taken at once, with one round trip: nobody sees only some of
// them held, and while it waits for one it does not hold the others, unless it
// was refused several times. And with a fixed lease, or where locks of one name
// are on several servers, it holds nothing while it waits, so that no lease is
// used up before the last lock is there.
//
// The hold lasts as long as all of the locks do. If one of them is lost, its
// context ends with a cause that names it, an [*Error] that matches [ErrLost];
// [Hold.Unlock] then still has to give back the others.
//
// [Hold.Owner] lists the owners of all locks; [Hold.Until] is that of the lock
// that ends first. [Hold.Token] is 0: for the token of a [FencedLock] among the
// locks, take that one again with the returned context. To look at a lock or to
// free it by force, do so with the lock itself.
//
// What it does not guarantee, beyond what each lock does not: an order with
// whoever holds one of the locks and then asks for the MultiLock, or for the
// others one by one, nor with GroupLocks whose values overlap: such may wait for
// each other until a context ends. To hold all at the same instant is to hold
// each; it is not a transaction over several servers.
//
// A MultiLock holds no resources. Its methods are safe for concurrent use.
type MultiLock struct {
	name    string
	all     []*locker // each once, in the order in which they are taken
	invalid error     // what is wrong with it
}

// NewMultiLock returns a lock that consists of all the others, with the options
// that each has. It does no I/O. One that is named twice counts once; if that is
// with different options, or no lock is named, using the MultiLock fails with
// [ErrInvalid].
func NewMultiLock(locks ...Locker) *MultiLock {
	m := &MultiLock{}
	for _, l := range locks {
		if l == nil {
			m.invalid = invalid("one of the locks is nil")
			return m
		}
		for _, k := range l.lockers() {
			m.add(k)
		}
	}
	if len(m.all) == 0 {
		m.invalid = invalid("a MultiLock needs at least one lock")
	}
	slices.SortStableFunc(m.all, order)
	var names []string
	for _, k := range m.all {
		names = append(names, k.name)
	}
	m.name = strings.Join(names, ", ")
	return m
}

func (m *MultiLock) add(k *locker) {
	for _, have := range m.all {
		if have.client == k.client && have.place == k.place {
			if *have.options != *k.options {
				m.invalid = invalid("the lock %q is named twice, with different options", k.name)
			}
			return
		}
	}
	m.all = append(m.all, k)
}

// order is the one in which all processes take several locks. It depends on
// nothing but what they are called and for. Those of one slot stand together,
// so that one script can take them. The write side of an RWLock comes before
// its read side: only that order lets an owner have both.
func order(a, b *locker) int {
	return cmp.Or(
		cmp.Compare(keyspace.Slot(a.name), keyspace.Slot(b.name)),
		strings.Compare(a.place.name, b.place.name),
		cmp.Compare(b.place.use, a.place.use),
	)
}

// Name returns the names of the locks, in the order in which they are taken.
func (m *MultiLock) Name() string { return m.name }

// With returns the same lock, to be taken with these options instead of those
// that each lock has.
func (m *MultiLock) With(options LockOptions) *MultiLock {
	with := &MultiLock{name: m.name, invalid: m.invalid}
	for _, k := range m.all {
		copied := *k
		copied.options = &options
		with.all = append(with.all, &copied)
	}
	return with
}

func (m *MultiLock) lockers() []*locker { return m.all }

// Do takes all locks, calls f, and releases them. Everything else is as with
// [Lock.Do].
func (m *MultiLock) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, m.Lock, f)
}

// Lock takes all locks, waiting for them until ctx ends. The returned context,
// and the owner that it carries, are as with [Lock.Lock]: with it, each of the
// locks can be re-entered, by itself or together.
//
// If it fails, it holds none of them that it did not hold before. The error names
// the lock that was in the way. Errors are those of [Lock.Lock] for each of the
// locks; [ErrLost] also if one was lost while it waited for another.
func (m *MultiLock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return m.enter(ctx, "lock", true)
}

// TryLock takes all locks if each of them is free, or held by the owner that ctx
// carries, and none otherwise: [ErrLocked] names one that is in the way.
// Everything else is as with [Lock.TryLock].
func (m *MultiLock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return m.enter(ctx, "try lock", false)
}

func (m *MultiLock) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	if m.invalid != nil {
		return nil, ctx, &Error{Op: op, Name: m.name, Err: m.invalid}
	}
	c := newComposite(ctx, m.name, len(m.all), len(m.all))
	at, err := m.take(c, wait)
	if err == nil {
		if err = c.form(); err == nil {
			return c.hold, c.hold.context(), nil
		}
	}
	members, _, lost := c.finish(err)
	results := giveBack(members)
	for range members {
		select {
		case <-results:
		case <-ctx.Done(): // the caller is in a hurry; it goes on in the background
		}
	}
	if lost != nil {
		err = fmt.Errorf("lost while waiting for others: %w", lost)
	}
	return nil, ctx, &Error{Op: op, Name: at.name, Err: because(ctx, at.client.because(err))}
}

// take takes all locks. If it fails, it says with which, and c has those that
// were taken before.
func (m *MultiLock) take(c *composite, wait bool) (at *locker, err error) {
	for _, k := range m.all {
		if k.client.invalid != nil {
			return k, k.client.invalid
		}
		if err := k.sound(); err != nil {
			return k, err
		}
	}
	for _, k := range m.all {
		if err := k.ready(c.hold.context()); err != nil {
			return k, err
		}
	}
	lots, keep := m.lots(c.owner)
	if wait && !keep {
		return m.takeTurns(c, lots)
	}
	for _, l := range lots {
		if at, err := l.take(c, wait, true); err != nil {
			return at, err
		}
	}
	return m.all[0], nil
}

// lots divides the locks into lots that are taken one after the other, and says
// whether to keep those that were taken while waiting for the next.
func (m *MultiLock) lots(o *owner) (lots []lot, keep bool) {
	keep = true
	for i, k := range m.all {
		keep = keep && k.options.Lease == 0
		if i > 0 {
			before := m.all[i-1]
			keep = keep && order(before, k) != 0 // else the order says nothing about these two
			if last := &lots[len(lots)-1]; atOnce(before, k) && *before.options == *k.options && !o.has(before) && !o.has(k) {
				*last = append(*last, m.nth(i))
				continue
			}
		}
		lots = append(lots, lot{m.nth(i)})
	}
	return lots, keep
}

func (m *MultiLock) nth(i int) *member { return &member{of: m.all[i], nth: i} }

// takeTurns takes all lots, without holding any while it waits for another: it
// waits for the one that was in the way, and tries the others then.
func (m *MultiLock) takeTurns(c *composite, lots []lot) (at *locker, err error) {
	first := 0
	for round := 0; ; round++ {
		if at, err = lots[first].take(c, true, false); err != nil {
			return at, err
		}
		refused := -1
		for i, l := range lots {
			if i == first {
				continue
			}
			if at, err = l.take(c, false, false); err != nil {
				refused = i
				break
			}
		}
		switch {
		case refused < 0:
			return m.all[0], nil
		case !errors.Is(err, ErrLocked):
			return at, err
		}
		c.yield()
		// Two that are in each other's way must not go on in step.
		if !at.client.pause(c.hold.context(), rand.N(time.Millisecond<<min(round, 8))) {
			r := &request{}
			_ = errors.As(err, &r.held)
			return at, r.ended(c.hold.context())
		}
		first = refused
	}
}

// yield gives back all members.
func (c *composite) yield() {
	c.mu.Lock()
	members := c.members
	c.members = nil
	c.mu.Unlock()
	results := giveBack(members)
	for range members {
		<-results
	}
}

// lot is one lock, or several that one script can take.
type lot []*member

// take takes the locks of a lot. To wait without holding some of several may
// take for ever while others come and go, so if told to keep, it takes them one
// after the other in the end.
func (l lot) take(c *composite, wait, keep bool) (at *locker, err error) {
	if len(l) > 1 {
		at, err = l.takeAtOnce(c, wait, keep)
		if !errors.Is(err, errOneByOne) {
			return at, err
		}
	}
	for _, m := range l {
		hold, err := m.of.take(c.hold.context(), wait)
		if err == nil {
			err = c.add(m, hold)
		}
		if err != nil {
			return m.of, err
		}
	}
	return nil, nil
}

// add makes hold, of the lock that m stands for, a member of c.
func (c *composite) add(m *member, hold *Hold) error {
	if c.join(&member{of: m.of, nth: m.nth, hold: hold}) {
		return nil
	}
	_ = hold.of.unlock(hold)
	return ErrLost // c says which was
}

// fewRounds is how often a lot may be refused by one lock after another.
const fewRounds = 5

// errOneByOne says that a lot is better taken one by one.
var errOneByOne = errors.New("one by one")

// takeAtOnce takes the locks of a lot with one script. It waits for the one that
// is in the way.
func (l lot) takeAtOnce(c *composite, wait, keep bool) (at *locker, err error) {
	ctx, client := c.hold.context(), l[0].of.client
	if err := client.begin(); err != nil {
		return l[0].of, err
	}
	defer client.running.Done()
	r := &request{owner: c.owner, id: client.newID()}
	var ask *together
	defer func() {
		if !r.used && (r.doubt || ask != nil && ask.granted) {
			l.abandon(r.id)
		}
	}()
	next := 0
	for round := 0; ; round++ {
		if ctx.Err() != nil {
			return l[next].of, r.ended(ctx)
		}
		if (keep && round == fewRounds) || slices.ContainsFunc(l, func(m *member) bool { return c.owner.has(m.of) }) {
			return l[next].of, errOneByOne
		}
		asking := *l[next].of
		ask = &together{Lock: asking.kind.(*Lock), lot: l, at: next, asking: &asking}
		asking.kind, r.lock = ask, &asking
		hold, err := r.run(ctx, wait)
		if ask.granted && err == nil {
			return l.granted(c, r, next, hold)
		}
		if err == nil { // somebody who acts for the same owner was faster with this one
			_ = hold.of.unlock(hold)
			return l[next].of, errOneByOne
		}
		var other *inTheWay
		if !errors.As(err, &other) {
			return l[next].of, err
		}
		next, r.held = other.at, other.held
		if !wait {
			return l[next].of, other.held
		}
	}
}

// granted makes holds of all locks of a lot, which Redis has given to r. There
// is one for lock first already.
func (l lot) granted(c *composite, r *request, first int, hold *Hold) (at *locker, err error) {
	rest := slices.Concat(l[:first], l[first+1:])
	at, err = l[first].of, c.add(l[first], hold)
	for err == nil && len(rest) > 0 {
		m := rest[0]
		at = m.of
		other := &request{lock: m.of, owner: r.owner, id: r.id, start: r.start, doubt: r.doubt}
		if hold, err = other.granted(c.hold.context(), 0, m.of.ttl()); err == nil {
			err, rest = c.add(m, hold), rest[1:]
		}
	}
	if err != nil && len(rest) > 0 {
		lot(rest).abandon(r.id)
	}
	return at, err
}

// together is a plain lock as a MultiLock asks for it: along with others.
type together struct {
	*Lock   // the one to wait for
	at      int
	lot     lot
	asking  *locker
	granted bool
}

// inTheWay says that another one of the lot is held.
type inTheWay struct {
	at   int
	held *HeldError
}

func (e *inTheWay) Error() string { return e.held.Error() }
func (e *inTheWay) Unwrap() error { return e.held }

func (t *together) acquire(ctx context.Context, id string, lease time.Duration) (grant, error) {
	got, _, err := t.await(ctx, id, lease, "")
	return got, err
}

func (t *together) await(ctx context.Context, id string, lease time.Duration, entry script.Entry) (got grant, _ script.Standing, err error) {
	var keys []string
	for _, m := range t.lot {
		keys = append(keys, m.of.name)
	}
	ok, at, by, err := script.MultiAcquire(ctx, t.client.driver, keys, id, lease, t.at, entry)
	switch {
	case err != nil && errors.Is(err, script.ErrKind):
		return grant{}, script.Standing{}, fmt.Errorf("%q: %w", t.lot[at].of.name, err)
	case err != nil:
		return grant{}, script.Standing{}, err
	case ok:
		t.granted = true
		t.asking.kind = t.Lock // from now on it is a lock like any other
	case at != t.at:
		held := &HeldError{Holder: Holder{Owner: by.Owner, Count: by.Count}, TTL: by.TTL}
		return grant{}, script.Standing{}, &driver.Error{Class: driver.Other, Err: &inTheWay{at, held}}
	}
	return grant{ok: ok, by: by}, script.Standing{}, nil
}

// release is for what was asked for in vain: all of the lot.
func (t *together) release(ctx context.Context, id string) (bool, error) {
	var locks []script.Release
	for _, m := range t.lot {
		locks = append(locks, script.Release{Key: m.of.name, Owner: id, Channel: m.of.kind.channel()})
	}
	released, err := script.MultiRelease(ctx, t.client.driver, locks, t.speaking(), t.turns(0))
	return slices.ContainsFunc(released, func(r script.Released) bool { return r != script.NotHeld }), err
}

// abandon makes sure that nothing of the lot stays behind in Redis.
func (l lot) abandon(id string) {
	t := &together{Lock: l[0].of.kind.(*Lock), lot: l}
	select {
	case <-t.client.done:
		_, _ = t.release(t.client.lingerer, id) // there is a moment left
	default:
		t.client.abandon(t, id, l[0].of.ttl())
	}
}

// has reports whether o has a lease on k.
func (o *owner) has(k *locker) bool { return o.lease(k.client, k.place) != nil }
