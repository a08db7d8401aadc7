package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

const slack = 50 * time.Millisecond

// How long a release, or an operation that runs without a context, may take.
const (
	unlockTime = 5*time.Second + mortisetest.DefaultTimeout + slack
	closeTime  = 130 * time.Second
)

// do does one thing.
func (w *world) do(parent context.Context, c *client, o op, id string, r *rand.Rand) {
	if o.looks {
		w.look(parent, c, o.name)
	}
	ctx, cancel := context.WithTimeout(parent, o.limit)
	defer cancel()
	if o.cancel > 0 {
		defer time.AfterFunc(o.cancel, cancel).Stop()
	}
	most := o.longest()
	began := time.Now()
	asked := func(err error) bool {
		w.bounded(fmt.Sprintf("%s by %s", o.kind, c.name), began, most+c.slack())
		w.known(err)
		if o.wait > 0 && err != nil && ctx.Err() == nil {
			w.limited(o, time.Since(began), err)
		}
		if err != nil {
			w.count("given up")
		}
		return err == nil
	}
	options := mortise.LockOptions{MaxHold: o.maxHold, MinHold: o.minHold, Wait: o.wait}
	switch {
	case isPlain(o.kind):
		w.lock(ctx, c, o, w.plain(c, o.kind, o.name, options), asked)
	case o.kind == "read" || o.kind == "write" || o.kind == "upgrade" || o.kind == "write then read":
		w.rw(ctx, c, o, options, asked)
	case o.kind == "election":
		w.lead(ctx, c, o, id, options, asked)
	default:
		w.others(ctx, c, o, options, r, asked)
	}
}

// look reads all that others tell about a name. Nothing depends on the answers, and an error is one that
// callers know.
func (w *world) look(parent context.Context, c *client, name string) {
	ctx, cancel := context.WithTimeout(parent, time.Second)
	defer cancel()
	began := time.Now()
	_, err := c.Inspect(ctx, name)
	w.known(err)
	_, err = c.Queue(ctx, name)
	w.known(err)
	_, err = c.Clients(ctx)
	w.known(err)
	_, err = c.History(ctx, name, 10)
	w.known(err)
	for _, err := range c.Locks(ctx, "*") {
		w.known(err)
	}
	w.bounded("a look by "+c.name, began, time.Second+c.slack())
	if n := c.Stats(); n.Held < 0 || n.Waiting < 0 {
		w.fail("the numbers of %s are %+v", c.name, n)
	}
}

// longest is how long the operation may wait.
func (o op) longest() time.Duration {
	most := o.limit
	if o.cancel > 0 {
		most = min(most, o.cancel)
	}
	if o.wait > 0 && !o.try && !slices.Contains([]string{"look", "reset", "drain", "add"}, o.kind) {
		most = min(most, o.wait)
	}
	if o.kind == "barrier" || o.kind == "double barrier" {
		most += 5 * time.Second // UnlockFor: a party that gives up says so before it returns
	}
	return most
}

// limited looks at the error of a wait with a limit, whose context has not ended.
func (w *world) limited(o op, took time.Duration, err error) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		w.fail("after %v of a Wait of %v, %s says that its context has ended: %v", took, o.wait, o.kind, err)
	}
	if took >= o.wait {
		w.count("limits of a wait")
	}
}

func (w *world) others(ctx context.Context, c *client, o op, options mortise.LockOptions, r *rand.Rand, asked func(error) bool) {
	switch o.kind {
	case "multi", "multi plain":
		a, b := mortise.Locker(c.Lock(o.name).With(options)), mortise.Locker(c.FencedLock(names[(r.IntN(3))]+" too").With(options))
		if o.kind == "multi plain" {
			b = c.Lock(names[(slices.Index(names, o.name)+1+r.IntN(2))%3]).With(options)
		}
		hold, lctx, err := w.history.LockAll(ctx, c.name, mortise.NewMultiLock(a, b).With(options), a, b)
		if asked(err) {
			w.keep(c, o, hold, lctx)
			if o.kind == "multi plain" {
				w.askAgain(ctx, c, a, b)
			}
		}
	case "group":
		values := [][]string{{"a", "b"}, {"b", "c"}, {"c"}, {"a", "c"}}[r.IntN(4)]
		k := c.GroupLock(o.name+" group", values...).With(options)
		hold, lctx, err := w.history.LockGroup(ctx, c.name, k, values...)
		if asked(err) {
			if o.inner != "" {
				w.again(lctx, c, o, func(ctx context.Context) (*mortisetest.Hold, context.Context, error) {
					return w.history.LockGroup(ctx, c.name, k, values...)
				})
			}
			w.keep(c, o, hold, lctx)
		}
	case "permits":
		s := c.PermitSemaphore(o.name + " permits").With(mortise.PermitOptions{Permits: o.n, MaxHold: o.maxHold, Wait: o.wait})
		from := w.lapses()
		hold, lctx, err := w.history.Acquire(ctx, c.name, s, o.n)
		if asked(err) {
			if o.extends {
				w.extend(ctx, c, o, hold, from)
			}
			w.keep(c, o, hold, lctx)
		}
	case "semaphore", "drain", "add":
		w.number(ctx, c, o, asked)
	case "count down", "latch", "barrier", "reset", "double barrier":
		w.together(ctx, c, o, asked)
	case "look":
		_, err := w.history.Election(c.name, c.Election(o.name+" election")).Leader(ctx)
		asked(err)
	}
}

// together uses a latch or a barrier.
func (w *world) together(ctx context.Context, c *client, o op, asked func(error) bool) {
	wait := mortise.WaitOptions{Wait: o.wait}
	switch o.kind {
	case "count down":
		began := time.Now()
		w.known(w.history.Latch(c.name, c.CountDownLatch(o.name+" latch")).CountDown(ctx))
		w.bounded("CountDown", began, closeTime)
	case "latch":
		asked(w.history.Latch(c.name, c.CountDownLatch(o.name+" latch").With(wait)).Wait(ctx))
	case "barrier":
		began := time.Now()
		_, err := w.history.Barrier(c.name, c.Barrier(o.name+" barrier", o.n).With(wait), o.n).Await(ctx)
		w.awaited(c, o.name, began, err)
		if asked(err) {
			w.count("passed")
		}
	case "reset":
		asked(c.Barrier(o.name+" barrier", o.n).Reset(ctx))
	case "double barrier":
		w.meet(ctx, c, o, asked)
	}
}

// plain returns one of the kinds that are one lock.
func (w *world) plain(c *client, kind, name string, o mortise.LockOptions) mortise.Locker {
	switch kind {
	case "SpinLock":
		return c.SpinLock(name).With(o)
	case "FencedLock":
		return c.FencedLock(name).With(o)
	case "FairLock":
		return c.FairLock(name).With(o)
	}
	return c.Lock(name).With(o)
}

func (w *world) lock(ctx context.Context, c *client, o op, k mortise.Locker, asked func(error) bool) {
	lock := w.history.Lock
	if o.try {
		lock = w.history.TryLock
	}
	hold, lctx, err := lock(ctx, c.name, k)
	if !asked(err) {
		return
	}
	if o.inner != "" {
		got := time.Now()
		time.Sleep(o.keep / 3)
		w.again(lctx, c, o, w.locks(c, w.plain(c, o.inner, o.name, mortise.LockOptions{})))
		o.minHold -= time.Since(got) // the rest of it
	}
	w.keep(c, o, hold, lctx)
}

// acquire acquires something.
type acquire = func(ctx context.Context) (*mortisetest.Hold, context.Context, error)

func (w *world) locks(c *client, k mortise.Locker) acquire {
	return func(ctx context.Context) (*mortisetest.Hold, context.Context, error) {
		return w.history.Lock(ctx, c.name, k)
	}
}

// again enters a lock a second time.
func (w *world) again(lctx context.Context, c *client, o op, lock acquire) {
	began := time.Now()
	inner, ictx, err := lock(lctx)
	w.bounded("a re-entry", began, o.limit+c.slack())
	w.known(err)
	if err == nil {
		w.count("re-entries")
		o.leaves, o.minHold = false, 0
		w.keep(c, o, inner, ictx)
	}
}

// keep holds what was acquired for a while, and releases it.
func (w *world) keep(c *client, o op, hold *mortisetest.Hold, lctx context.Context) {
	w.count("holds")
	least := time.Now().Add(o.minHold)
	w.note(c, o, hold)
	time.Sleep(o.keep)
	if errors.Is(context.Cause(lctx), mortise.ErrLost) {
		w.count("lost")
	}
	if o.leaves {
		w.count("left behind")
		return
	}
	began := time.Now()
	err := hold.Unlock()
	w.known(err)
	w.bounded("Unlock", began, unlockTime)
	if err == nil && time.Until(least) > time.Millisecond {
		w.stays(c, o, time.Until(least)-time.Millisecond)
	}
}

// note notes a hold of a kind that can be looked up in Redis.
func (w *world) note(c *client, o op, hold *mortisetest.Hold) {
	key := o.name
	switch o.kind {
	case "read", "write", "upgrade", "write then read":
		key += " rw"
	case "permits":
		key += " permits"
	case "multi", "multi plain", "group":
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grips = append(w.grips, grip{hold, key, c, o.maxHold > 0})
}

// stays records that a lock was released before its MinHold is over: nobody has it until then.
func (w *world) stays(c *client, o op, left time.Duration) {
	w.count("kept after the release")
	object := mortisetest.Object{Sort: mortisetest.Exclusive, Name: o.name, Kind: "MinHold of a " + o.kind}
	if o.kind == "write" {
		object.Sort, object.Name = mortisetest.Writing, o.name+" rw"
	}
	_, begin, end := w.history.Claim(context.Background(), c.name, object, false).Granted(context.Background(), 0)
	w.kept.Go(func() {
		time.Sleep(left)
		begin()
		end(nil)
	})
}

func (w *world) rw(ctx context.Context, c *client, o op, options mortise.LockOptions, asked func(error) bool) {
	k := c.RWLock(o.name + " rw")
	side := mortise.Locker(k.Read().With(options))
	if o.kind == "write" || o.kind == "write then read" {
		side = k.Write().With(options)
	}
	hold, lctx, err := w.history.Lock(ctx, c.name, side)
	if !asked(err) {
		return
	}
	switch o.kind {
	case "upgrade":
		if wrong, _, err := w.history.Lock(lctx, c.name, k.Write()); err == nil {
			w.fail("a reader has become a writer")
			_ = wrong.Unlock()
		} else if errors.Is(err, mortise.ErrReentry) {
			w.count("upgrades refused")
		} else {
			w.known(err)
		}
	case "read":
		if o.inner != "" {
			w.again(lctx, c, o, w.locks(c, k.Read()))
		}
	case "write then read":
		w.again(lctx, c, o, w.locks(c, k.Read()))
	}
	w.keep(c, o, hold, lctx)
}

func (w *world) meet(ctx context.Context, c *client, o op, asked func(error) bool) {
	m, _, err := w.history.DoubleBarrier(c.name, c.DoubleBarrier(o.name+" double", 2).With(mortise.WaitOptions{Wait: o.wait}), 2).Enter(ctx)
	if !asked(err) {
		return
	}
	w.count("passed")
	time.Sleep(o.keep)
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	began := time.Now()
	w.known(m.Leave(out))
	w.bounded("Leave", began, time.Minute+slack)
}

func (w *world) lead(ctx context.Context, c *client, o op, id string, options mortise.LockOptions, asked func(error) bool) {
	e := w.history.Election(c.name, c.Election(o.name+" election").With(options))
	term, lctx, err := e.Campaign(ctx, id)
	if !asked(err) {
		return
	}
	w.count("terms")
	if o.unheard && !c.calm { // a copy comes after the next value
		defer w.history.Disturbed(c.name)()
		c.link.Next("election_proclaim", 1, mortisetest.Fault{Lose: mortisetest.Reply, Before: o.keep / 3})
	}
	for i := range 3 {
		time.Sleep(o.keep / 20)
		w.known(term.Proclaim(ctx, fmt.Sprint(id, " still ", i)))
	}
	for range 2 {
		time.Sleep(o.keep / 2)
		_, err := e.Leader(ctx)
		w.known(err)
	}
	if errors.Is(context.Cause(lctx), mortise.ErrLost) {
		w.count("lost")
	}
	began := time.Now()
	w.known(term.Resign())
	w.bounded("Resign", began, unlockTime)
}
