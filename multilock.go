package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
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
// and servers. There is nothing in Redis but the locks themselves; the holder of one
// of them, and a waiter for one, contends with the MultiLock.
//
// It waits for the lock that refused it, and holds none of the others meanwhile. When
// it has that one it takes the others; if another refuses it for more than a few
// milliseconds, it gives back what it has and waits for that. Plain locks of one
// client, on a Redis Cluster of one slot, are tried with one round trip. To make
// progress under contention, after several refusals it takes the locks in one order,
// which all processes share, however they are listed, and keeps those that it has
// while it waits for the next: for a tenth of a second at first, for twice as long
// each time, and then starts over. With a fixed lease, or where locks of one name are
// on several servers, it does not do that, so that no lease is used up before the last
// lock is acquired.
//
// The hold lasts as long as all of the locks do. If one of them is lost, its
// context ends with a cause that names it, an [*Error] that matches [ErrLost];
// [Hold.Unlock] then still has to give back the others.
//
// [Hold.Owner] lists the owners of all locks; [Hold.Until] is that of the lock
// that ends first. [Hold.Token] is 0: for the token of a [FencedLock] among the
// locks, take that one again with the returned context. To inspect a lock or to
// free it by force, use the lock itself.
//
// What it does not guarantee, beyond what each lock does not: an order with a holder
// of one of the locks that then asks for the MultiLock, or for the others one by one,
// nor with GroupLocks whose values overlap: these may wait for each other until a
// context ends. To hold all at the same instant is to hold each; it is not a
// transaction over several servers.
//
// A MultiLock holds no resources. Its methods are safe for concurrent use.
type MultiLock struct {
	name    string
	all     []*locker // each once, in the order in which they are taken
	invalid error     // what is wrong with it
}

// NewMultiLock returns a lock that consists of all the given ones, with the options
// that each has. It does no I/O. A lock that is listed twice counts once; if it has
// different options there, or no lock is given, using the MultiLock fails with
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
		if have.client == k.client && have.name == k.name && have.fair() != k.fair() {
			m.invalid = invalid("the lock %q is named twice, as a FairLock and as another kind; in Redis they are one lock", k.name)
			return
		}
		if have.client == k.client && have.place == k.place {
			if *have.options != *k.options {
				m.invalid = invalid("the lock %q is named twice, with different options", k.name)
			}
			return
		}
	}
	m.all = append(m.all, k)
}

func (k *locker) fair() bool { return k.place.use == useFair }

// order is the order in which all processes take several locks. It depends only on
// their names and uses. Locks of one slot are adjacent, so that one script can take
// them. The write side of an RWLock comes before its read side: only that order lets
// an owner have both.
func order(a, b *locker) int {
	return cmp.Or(
		cmp.Compare(keyspace.Slot(a.name), keyspace.Slot(b.name)),
		strings.Compare(a.place.name, b.place.name),
		cmp.Compare(b.place.use, a.place.use),
	)
}

// Name returns the names of the locks, in the order in which they are taken.
func (m *MultiLock) Name() string { return m.name }

// With returns the same lock, with these options instead of those that each lock has.
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

// Lock takes all locks, and blocks until it has them or ctx ends. The returned context,
// and the owner that it carries, are as with [Lock.Lock]: with it, each of the
// locks can be re-entered, by itself or together.
//
// If it fails, it holds none of them that it did not hold before. The error names
// the lock that refused it. Errors are those of [Lock.Lock] for each of the
// locks; [ErrLost] also if one was lost while it waited for another.
func (m *MultiLock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return m.enter(ctx, "lock", true)
}

// TryLock takes all locks if each of them is free, or held by the owner that ctx
// carries, and none otherwise: [ErrLocked] names one that refused it.
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
		case <-ctx.Done(): // the caller is in a hurry; the release continues in the background
		}
	}
	if lost != nil {
		err = fmt.Errorf("lost while waiting for others: %w", lost)
	}
	return nil, ctx, &Error{Op: op, Name: at.name, Err: because(ctx, at.client.because(err))}
}

// take takes all locks. If it fails, it returns the lock that failed, and c has those
// that were taken before.
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
	nth := 0
	if wait {
		nth, err = m.wait(c)
	} else {
		nth, err = m.try(c)
	}
	return m.all[max(nth, 0)], err
}

const (
	// nobody is not the index of a lock.
	nobody = -1
	// fewRounds is how many rounds it waits for one lock and is refused another before
	// it keeps what it has.
	fewRounds = 5
	// patience is how long it keeps locks at first while it waits for another.
	// Redisson's threads, which use an order of their own, may hold that one and
	// wait for what is kept, for three seconds and more.
	patience = 100 * time.Millisecond
	// moment is how long it waits for another lock while it keeps the one that it has
	// waited for: a holder of both is about to release the other, too.
	moment = 10 * time.Millisecond
)

// wait takes all locks as soon as they are free. It waits for the lock that refused
// it, like a waiter that wants only that, and takes the others then: so it
// holds nothing while it waits. Under contention that may never succeed,
// so after some rounds it takes them in their order, and keeps those that it has,
// for longer each time. If it fails it returns the index of the lock that failed.
func (m *MultiLock) wait(c *composite) (nth int, err error) {
	ctx := c.hold.context()
	var held *HeldError // the last refusal
	ended := func(err error) error {
		if held == nil || ctx.Err() == nil || errors.Is(err, ErrLocked) {
			return err
		}
		return &waitError{err, held}
	}
	nth = m.wanted(c.owner)
	kept := 0 // how often it kept what it had, without success
	for round := 1; ; round++ {
		if nth != nobody {
			hold, err := m.all[nth].take(ctx, true)
			if err == nil {
				err = c.add(m.nth(nth), hold)
			}
			if err != nil {
				return nth, ended(err)
			}
		}
		nth, err = m.try(c)
		if errors.Is(err, ErrLocked) {
			nth, err = m.linger(c, nth, err)
		}
		if err == nil || !errors.Is(err, ErrLocked) {
			return nth, ended(err)
		}
		_ = errors.As(err, &held)
		c.yield()
		if round%fewRounds == 0 && m.keeps() {
			nth, err = m.takeInOrder(c, jitter(patience<<min(kept, 16)))
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return nth, ended(err)
			}
			c.yield()
			kept++
		}
		// Two requests that obstruct each other must not retry in step.
		if !m.all[nth].client.pause(ctx, dice.N(time.Millisecond<<min(round, 8))) {
			return nth, endedBy(ctx, held)
		}
	}
}

// linger waits for the refusing lock and then for the rest, for a moment in all.
func (m *MultiLock) linger(c *composite, nth int, refused error) (at int, err error) {
	ctx, cancel := context.WithTimeout(c.hold.context(), jitter(moment))
	defer cancel()
	for err = refused; errors.Is(err, ErrLocked) && ctx.Err() == nil && len(c.held()) > 0; {
		hold, terr := m.all[nth].take(ctx, true)
		if terr == nil {
			terr = c.add(m.nth(nth), hold)
		} else if ctx.Err() != nil && c.hold.context().Err() == nil {
			return nth, refused
		}
		if err = terr; err == nil {
			nth, err = m.try(c)
		}
	}
	return nth, err
}

// wanted returns a lock that another request of this process has or waits for, so that
// asking Redis for it is pointless.
func (m *MultiLock) wanted(o *owner) int {
	return slices.IndexFunc(m.all, func(k *locker) bool {
		k.client.mu.Lock()
		defer k.client.mu.Unlock()
		return (k.client.queues[k.place] != nil || k.client.takenHere(k.place)) && !o.has(k)
	})
}

// keeps reports whether locks may be kept while it waits for another: if their leases
// are renewed, and all processes take these locks in the same order.
func (m *MultiLock) keeps() bool {
	for i, k := range m.all {
		if k.options.Lease != 0 || i > 0 && order(m.all[i-1], k) == 0 {
			return false
		}
	}
	return true
}

// takeInOrder takes one lock after the other. It waits for each, but at most for limit
// once it has one.
func (m *MultiLock) takeInOrder(c *composite, limit time.Duration) (nth int, err error) {
	for i, k := range m.all {
		ctx, cancel := c.hold.context(), context.CancelFunc(func() {})
		if i > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		hold, err := k.take(ctx, true)
		cancel()
		if err == nil {
			err = c.add(m.nth(i), hold)
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// try takes all locks that c does not have, without waiting.
func (m *MultiLock) try(c *composite) (nth int, err error) {
	for _, l := range m.lots(c) {
		if nth, err = l.take(c); err != nil {
			return nth, err
		}
	}
	return 0, nil
}

// lots divides the locks that c does not have into lots that are taken one after
// the other.
func (m *MultiLock) lots(c *composite) (lots []lot) {
	o, have := c.owner, c.held()
	for i, k := range m.all {
		if slices.ContainsFunc(have, func(h *member) bool { return h.nth == i }) {
			continue
		}
		if n := len(lots); n > 0 {
			if before := lots[n-1][0].of; atOnce(before, k) && *before.options == *k.options && !o.has(before) && !o.has(k) {
				lots[n-1] = append(lots[n-1], m.nth(i))
				continue
			}
		}
		lots = append(lots, lot{m.nth(i)})
	}
	return lots
}

func (m *MultiLock) nth(i int) *member { return &member{of: m.all[i], nth: i} }

// yield gives back all members.
func (c *composite) yield() {
	c.mu.Lock()
	members := c.members
	c.members = nil
	c.mu.Unlock()
	results := giveBack(members)
	for range members {
		select {
		case <-results:
		case <-c.hold.context().Done(): // the release continues in the background
		}
	}
}

// lot is one lock, or several that one script can take.
type lot []*member

// take takes the locks of a lot without waiting.
func (l lot) take(c *composite) (nth int, err error) {
	if len(l) > 1 {
		nth, err = l.takeAtOnce(c)
		if !errors.Is(err, ErrLocked) || !slices.ContainsFunc(l, func(m *member) bool { return c.owner.has(m.of) }) {
			return nth, err
		}
		// Another request of the same owner was faster with that one.
	}
	for _, m := range l {
		hold, err := m.of.take(c.hold.context(), false)
		if err == nil {
			err = c.add(m, hold)
		}
		if err != nil {
			return m.nth, err
		}
	}
	return 0, nil
}

// add makes hold, of the lock of m, a member of c.
func (c *composite) add(m *member, hold *Hold) error {
	if c.join(&member{of: m.of, nth: m.nth, hold: hold}) {
		return nil
	}
	_ = hold.of.unlock(hold)
	return ErrLost // c has the member that was lost
}

// takeAtOnce takes the locks of a lot with one script.
func (l lot) takeAtOnce(c *composite) (nth int, err error) {
	ctx, client := c.hold.context(), l[0].of.client
	if err := client.begin(); err != nil {
		return l[0].nth, err
	}
	defer client.running.Done()
	if ctx.Err() != nil {
		return l[0].nth, contextError(ctx)
	}
	var keys []string
	for _, m := range l {
		keys = append(keys, m.of.name)
	}
	r := &request{owner: c.owner, id: client.newID()}
	var got bool
	var at int
	var by script.Holder
	r.doubt, err = client.call(ctx, client.options.RetryFor, func(ctx context.Context) (err error) {
		r.start = time.Now()
		got, at, by, err = script.MultiAcquire(ctx, client.driver, keys, r.id, l[0].of.ttl())
		return err
	})
	if got && err == nil {
		return l.granted(c, r)
	}
	if r.doubt {
		l.abandon(r.id)
	}
	switch {
	case errors.Is(err, script.ErrKind):
		return l[at].nth, fmt.Errorf("%q: %w", l[at].of.name, err)
	case err != nil:
		return l[0].nth, err
	}
	return l[at].nth, &HeldError{Holder: Holder{Owner: by.Owner, Count: by.Count}, TTL: by.TTL}
}

// granted makes holds of all locks of a lot that Redis has granted to r.
func (l lot) granted(c *composite, r *request) (nth int, err error) {
	for i, m := range l {
		one := &request{lock: m.of, owner: r.owner, id: r.id, start: r.start, doubt: r.doubt}
		hold, err := one.granted(c.hold.context(), 0, m.of.ttl())
		if err != nil {
			l[i:].abandon(r.id)
			return m.nth, err
		}
		if err := c.add(m, hold); err != nil {
			if i+1 < len(l) {
				l[i+1:].abandon(r.id)
			}
			return m.nth, err
		}
	}
	return 0, nil
}

// abandon makes sure that nothing of the lot remains in Redis.
func (l lot) abandon(id string) {
	c := l[0].of.client
	select {
	case <-c.done:
		_, _ = l.release(c.lingerer, id) // Close waits a moment for this
	default:
		c.abandon(l, id, l[0].of.ttl())
	}
}

// release releases the locks of the lot that id holds, and reports whether it held any.
func (l lot) release(ctx context.Context, id string) (bool, error) {
	first := l[0].of
	c := first.client
	var locks []script.Release
	for _, m := range l {
		locks = append(locks, script.Release{Key: m.of.name, Owner: id, Channel: m.of.ops.Channel()})
	}
	released, err := script.MultiRelease(ctx, c.driver, locks, c.conn.Publish(), first.turns(0))
	return slices.ContainsFunc(released, func(r script.Released) bool { return r != script.NotHeld }), err
}

// has reports whether o has a lease on k.
func (o *owner) has(k *locker) bool { return o.lease(k.client, k.place) != nil }
