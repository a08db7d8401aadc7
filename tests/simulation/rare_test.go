package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// rare draws what the other sources of chance have not: holds that must be renewed, and operations that few
// programs need.
func (p *plan) rare(r *rand.Rand) {
	parties, calm := 2+r.IntN(2), r.IntN(2) == 0 && p.has("barrier")
	for i := range p.clients {
		c := &p.clients[i]
		c.patient = r.IntN(4) > 0
		if calm { // so that it is known which parties wait for each other
			c.calm, c.events = true, nil
		}
		for _, program := range c.programs {
			for j := range program {
				o := &program[j]
				if r.IntN(8) == 0 || r.IntN(3) == 0 && slices.Contains(renewed, o.kind) {
					o.keep, o.maxHold = lease+upTo(r, 4000), 0
				}
				o.vary(r, parties)
				if calm && (o.kind == "barrier" || o.kind == "double barrier") {
					o.kind, o.name, o.n = "barrier", names[0], parties
				}
			}
		}
	}
}

// renewed are the kinds whose renewals few plans would need otherwise.
var renewed = []string{"read", "group", "permits", "double barrier"}

// vary makes some operations others of their kind.
func (o *op) vary(r *rand.Rand, parties int) {
	often, seldom := r.IntN(3) == 0, r.IntN(6)
	switch o.kind {
	case "multi":
		if often {
			o.kind = "multi plain"
		}
	case "group", "read":
		if often {
			o.inner = o.kind
		}
	case "permits":
		o.extends = often
	case "semaphore":
		if o.unheard = often; often && r.IntN(2) == 0 { // it gives up while it does not know what it has
			o.cancel = time.Millisecond + upTo(r, 1000)
		}
		switch seldom {
		case 0:
			o.kind = "drain"
		case 1:
			o.kind = "add"
		}
	case "election":
		o.keep += 2*time.Second + upTo(r, 3000)
		o.unheard = often
	case "barrier":
		o.n = parties
		if seldom == 0 {
			o.kind = "reset"
		}
	}
}

// account is how many permits of a semaphore there must be in the end, at least and at most.
type account struct {
	least, most int
	removed     int  // how many were taken away, which makes the number negative
	drained     bool // it is unknown whether it was drained: then it may have become 0 instead
}

// gave notes what has become of the number of a semaphore: n more permits, if err does not say that nothing
// or nobody knows what was done.
func (w *world) gave(name string, n int, err error) {
	w.book(name, func(a *account) {
		if err == nil || errors.Is(err, mortise.ErrUnknownOutcome) && n < 0 {
			a.least += n
		}
		if err == nil || errors.Is(err, mortise.ErrUnknownOutcome) && n > 0 {
			a.most += n
		}
	})
}

// book changes the account of a semaphore.
func (w *world) book(name string, change func(a *account)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[name]
	change(&a)
	w.accounts[name] = a
}

// number uses a semaphore, whose permits are no holds.
func (w *world) number(ctx context.Context, c *client, o op, asked func(error) bool) {
	name := o.name + " semaphore"
	s := w.history.Semaphore(c.name, c.Semaphore(name).With(mortise.WaitOptions{Wait: o.wait}))
	n, err := o.n, error(nil)
	switch o.kind {
	case "semaphore":
		if o.unheard && !c.calm {
			defer w.history.Disturbed(c.name)()
			c.link.Next("semaphore_acquire", 1, mortisetest.Fault{Lose: mortisetest.Reply, Silent: o.cancel > 0})
		}
		err = s.Acquire(ctx, n)
		if err != nil && !c.patient {
			w.gave(name, -n, mortise.ErrUnknownOutcome) // what it may have taken it may have no time to give back
		}
	case "drain":
		n, err = s.Drain(ctx)
		if errors.Is(err, mortise.ErrUnknownOutcome) {
			w.gave(name, -1000, err)
			w.book(name, func(a *account) { a.drained = true })
		}
	case "add":
		err = s.AddPermits(ctx, n)
		w.gave(name, n, err)
	}
	if !asked(err) {
		return
	}
	if o.kind != "add" {
		w.gave(name, -n, nil)
	}
	if time.Sleep(o.keep); n <= 0 {
		return // it has taken away a debt, or nothing: there is nothing to give back
	}
	began := time.Now()
	if o.kind == "add" {
		w.book(name, func(a *account) { a.removed += n })
		err = s.AddPermits(context.WithoutCancel(ctx), -n)
		n = -n
	} else {
		err = s.Release(ctx, n)
	}
	w.known(err)
	w.gave(name, n, err)
	w.bounded("Release", began, closeTime)
}

// checkNumbers checks in the end what nobody uses any more, and deletes it.
func (w *world) checkNumbers(ctx context.Context, c *client) {
	lapsed := !w.lapsed.IsZero()
	for _, name := range names {
		p := c.PermitSemaphore(name + " permits")
		if n, err := p.Available(ctx); err != nil || n != 3 {
			w.fail("in the end %d permits of %q are available, want 3: %v", n, name, err)
		}
		s, a := w.history.Semaphore(c.name, c.Semaphore(name+" semaphore")), w.accounts[name+" semaphore"]
		if a.drained {
			a.most += a.removed
		}
		n, err := s.Available(ctx)
		if err != nil || !lapsed && (n < 3+a.least || n > 3+a.most) {
			w.fail("in the end %d permits of semaphore %q are available, want %d to %d: %v", n, name, 3+a.least, 3+a.most, err)
		}
		if a.least == a.most {
			w.count("exact numbers")
		}
		if _, err := w.history.Latch(c.name, c.CountDownLatch(name+" latch")).Count(ctx); err != nil {
			w.fail("%v", err)
		}
		_, err1 := p.Delete(ctx)
		_, err2 := c.Semaphore(name + " semaphore").Delete(ctx)
		_, err3 := c.CountDownLatch(name + " latch").Delete(ctx)
		if err := errors.Join(err1, err2, err3); err != nil {
			w.fail("%v", err)
		}
	}
}

// extend gives a permit a lease from now on, as an operator can. From is how often data was lost until the permit was asked
// for: what was lost while the answer was on its way, the holder does not know yet.
func (w *world) extend(ctx context.Context, c *client, o op, hold *mortisetest.Hold, from int) {
	done, err := c.PermitSemaphore(o.name+" permits").UpdateLease(ctx, hold.Permits()[0], lease)
	w.known(err)
	if err == nil && !done && hold.Valid() && from == w.lapses() {
		w.fail("a permit of %q that %s has is not known", o.name, c.name)
	}
	if done {
		w.count("extended")
	}
}

// checkMine checks that a look at a lock tells its holder that it has it, and that a walk shows it.
func (w *world) checkMine(ctx context.Context, c *client, k mortise.Locker) {
	s, err := k.(interface {
		Inspect(ctx context.Context) (mortise.State, error)
	}).Inspect(ctx)
	if err != nil || !s.Locked || !s.Mine {
		w.fail("the holder of %T %q sees %+v: %v", k, k.Name(), s, err)
	}
	for state, err := range c.Locks(ctx, "*") {
		if err != nil {
			w.fail("a walk ends with %v", err)
		} else if state.Name == k.Name() {
			return
		}
	}
	w.fail("a walk does not show %T %q, which is held", k, k.Name())
}

// checkFree checks that all ways to look at a lock that nobody has say so.
func (w *world) checkFree(ctx context.Context, c *client, name string) {
	for _, inspect := range []func(context.Context) (mortise.State, error){
		c.Lock(name).Inspect, c.FairLock(name).Inspect, c.RWLock(name + " rw").Write().Inspect, c.GroupLock(name+" group", "a").Inspect,
	} {
		if s, err := inspect(ctx); err != nil || s.Locked || len(s.Queue) > 0 && !w.unlisted {
			w.fail("in the end there is %+v: %v", s, err)
		}
	}
	for state, err := range c.Locks(ctx, "*") {
		if err != nil || state.Name == name {
			w.fail("in the end a walk shows %+v: %v", state, err)
		}
	}
	if waiters, err := c.FairLock(name).Queue(ctx); err != nil {
		w.fail("the queue is %v: %v", waiters, err)
	}
	_, err := c.FencedLock(name).CurrentToken(ctx)
	w.known(err)
}

// await is what a party of a barrier met, whose client had nothing between it and Redis.
type await struct {
	name   string
	began  time.Time
	ended  time.Time
	err    error
	client string
}

// awaited notes how a party of a barrier fared.
func (w *world) awaited(c *client, name string, began time.Time, err error) {
	if !c.calm || c.closed.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaits = append(w.awaits, await{name, began, time.Now(), err, c.name})
}

// checkBroken checks that a party which gave up broke the barrier for those that waited with it: they
// learn of it in a second, by asking, though a message is lost.
func (w *world) checkBroken() {
	const most = 1100*time.Millisecond + slack
	for i, a := range w.awaits {
		if !errors.Is(a.err, mortise.ErrMissing) && !errors.Is(a.err, context.Canceled) && !errors.Is(a.err, context.DeadlineExceeded) || !a.began.Before(a.ended) {
			continue
		}
		for j, b := range w.awaits {
			if i == j || b.name != a.name || !b.began.Before(a.ended) || b.ended.Before(a.ended) {
				continue
			}
			w.count("broken for others")
			if late := b.ended.Sub(a.ended); b.err == nil && late > slack || late > most {
				w.fail("%s gave up waiting at the barrier %q at %v, and %s, which waited too, learned %v later: %v", a.client, a.name, a.ended.Sub(w.begun), b.client, late, b.err)
			}
		}
	}
}

// askAgain asks for the parts of a MultiLock that was just released: the history knows which waiters may have them.
func (w *world) askAgain(ctx context.Context, c *client, locks ...mortise.Locker) {
	for _, k := range locks {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		hold, _, err := w.history.TryLock(limited, c.name, k)
		w.known(err)
		if err == nil {
			w.known(hold.Unlock())
		}
		cancel()
	}
}
