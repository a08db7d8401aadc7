package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	ctx, cancel := context.WithTimeout(parent, o.limit)
	defer cancel()
	most := o.limit
	if o.cancel > 0 {
		most = min(most, o.cancel)
		defer time.AfterFunc(o.cancel, cancel).Stop()
	}
	began := time.Now()
	asked := func(err error) bool {
		w.bounded(fmt.Sprintf("%s by %s", o.kind, c.name), began, most+c.slack())
		w.known(err)
		if err != nil {
			w.count("given up")
		}
		return err == nil
	}
	options := mortise.LockOptions{MaxHold: o.maxHold}
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

func (w *world) others(ctx context.Context, c *client, o op, options mortise.LockOptions, r *rand.Rand, asked func(error) bool) {
	switch o.kind {
	case "multi":
		a, b := c.Lock(o.name).With(options), c.FencedLock(names[(r.IntN(3))]+" too").With(options)
		hold, lctx, err := w.history.LockAll(ctx, c.name, mortise.NewMultiLock(a, b).With(options), a, b)
		if asked(err) {
			w.keep(o, hold, lctx)
		}
	case "group":
		values := [][]string{{"a", "b"}, {"b", "c"}, {"c"}, {"a", "c"}}[r.IntN(4)]
		hold, lctx, err := w.history.LockGroup(ctx, c.name, c.GroupLock(o.name+" group", values...).With(options), values...)
		if asked(err) {
			w.keep(o, hold, lctx)
		}
	case "permits":
		s := c.PermitSemaphore(o.name + " permits").With(mortise.PermitOptions{Permits: o.n, MaxHold: o.maxHold})
		hold, lctx, err := w.history.Acquire(ctx, c.name, s, o.n)
		if asked(err) {
			w.keep(o, hold, lctx)
		}
	case "semaphore":
		s := w.history.Semaphore(c.name, c.Semaphore(o.name+" semaphore"))
		if asked(s.Acquire(ctx, o.n)) {
			time.Sleep(o.keep)
			began := time.Now()
			w.known(s.Release(ctx, o.n))
			w.bounded("Release", began, closeTime)
		}
	case "count down":
		began := time.Now()
		w.known(w.history.Latch(c.name, c.CountDownLatch(o.name+" latch")).CountDown(ctx))
		w.bounded("CountDown", began, closeTime)
	case "latch":
		asked(w.history.Latch(c.name, c.CountDownLatch(o.name+" latch")).Wait(ctx))
	case "barrier":
		_, err := w.history.Barrier(c.name, c.Barrier(o.name+" barrier", 2), 2).Await(ctx)
		if asked(err) {
			w.count("passed")
		}
	case "double barrier":
		w.meet(ctx, c, o, asked)
	case "look":
		_, err := w.history.Election(c.name, c.Election(o.name+" election")).Leader(ctx)
		asked(err)
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
		time.Sleep(o.keep / 3)
		w.again(lctx, c, o, w.plain(c, o.inner, o.name, mortise.LockOptions{}))
	}
	w.keep(o, hold, lctx)
}

// again enters a lock a second time.
func (w *world) again(lctx context.Context, c *client, o op, k mortise.Locker) {
	began := time.Now()
	inner, ictx, err := w.history.Lock(lctx, c.name, k)
	w.bounded("a re-entry", began, o.limit+c.slack())
	w.known(err)
	if err == nil {
		w.count("re-entries")
		o.leaves = false
		w.keep(o, inner, ictx)
	}
}

// keep holds what was acquired for a while, and releases it.
func (w *world) keep(o op, hold *mortisetest.Hold, lctx context.Context) {
	w.count("holds")
	time.Sleep(o.keep)
	if errors.Is(context.Cause(lctx), mortise.ErrLost) {
		w.count("lost")
	}
	if o.leaves {
		w.count("left behind")
		return
	}
	began := time.Now()
	w.known(hold.Unlock())
	w.bounded("Unlock", began, unlockTime)
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
	case "write then read":
		w.again(lctx, c, o, k.Read())
	}
	w.keep(o, hold, lctx)
}

func (w *world) meet(ctx context.Context, c *client, o op, asked func(error) bool) {
	m, _, err := w.history.DoubleBarrier(c.name, c.DoubleBarrier(o.name+" double", 2), 2).Enter(ctx)
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
	time.Sleep(o.keep / 2)
	w.known(term.Proclaim(ctx, id+" still"))
	time.Sleep(o.keep / 2)
	if errors.Is(context.Cause(lctx), mortise.ErrLost) {
		w.count("lost")
	}
	began := time.Now()
	w.known(term.Resign())
	w.bounded("Resign", began, unlockTime)
}
