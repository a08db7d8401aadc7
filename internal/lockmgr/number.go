package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/script"
)

// A number in Redis, such as that of permits or that of a latch, has no owner by which
// Redis could distinguish a repeat of a script from a new call. So each operation has a lane and
// a serial number. Redis remembers by them, for script.Remembered, what it did.

// operations has the lanes of a client for operations on numbers.
type operations struct {
	client *Client

	mu    sync.Mutex // guards the following fields
	lanes int        // number of lanes
	idle  []string   // lanes that no operation uses
}

// draw returns a new operation, in a lane that no other operation of this client uses.
func (o *operations) draw() script.Operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := script.Operation{Serial: o.client.serial.Add(1)}
	if n := len(o.idle); n > 0 {
		op.Lane, o.idle = o.idle[n-1], o.idle[:n-1]
	} else {
		op.Lane = o.client.id + ":" + strconv.Itoa(o.lanes)
		o.lanes++
	}
	return op
}

// drop ends an operation: other operations may use its lane, and copies that arrive later
// have no effect.
func (o *operations) drop(op script.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, op.Lane)
}

// DrawOperation returns a new operation, in a lane that no other operation of this client
// uses until [Object.DropOperation].
func (o *Object) DrawOperation() script.Operation { return o.client.operations.draw() }

// DropOperation ends an operation: other operations may use its lane, and copies that
// arrive later have no effect.
func (o *Object) DropOperation(op script.Operation) { o.client.operations.drop(op) }

// Unsure is how long an operation whose reply was lost is tried again. It is half of the
// time that Redis remembers the operation, so that Redis recognizes even a copy that took
// as long to arrive.
const Unsure = script.Remembered / 2

// Once runs a script until Redis has answered, as the client's options say, for an
// operation that Redis remembers. unknown reports that a copy of it may run later.
func (o *Object) Once(ctx context.Context, patience time.Duration, op func(context.Context) error) (unknown bool, err error) {
	var d doubt.Doubt
	return o.client.call(ctx, patience, func(ctx context.Context) error {
		if d.Longer(Unsure) {
			return Final(fmt.Errorf("%w: Redis may have forgotten by now whether it did it: %w", ErrUnreachable, d.Err()))
		}
		return d.Try(func() error { return op(ctx) })
	})
}

// Change runs a script that changes the number, as an operation of its own. If it fails
// in doubt, the error matches ErrUnknownOutcome.
func (o *Object) Change(ctx context.Context, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	return o.Perform(ctx, func(p script.Publish) error {
		n := o.DrawOperation()
		defer o.DropOperation(n)
		unknown, err := o.Once(ctx, o.client.config.RetryFor, func(ctx context.Context) error { return f(ctx, n, p) })
		if err == nil || !unknown || errors.Is(err, script.ErrUnheard) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	})
}

// ChangeDetached is Change for what others wait for: the end of ctx does not stop it. It
// gives up after [Unsure].
func (o *Object) ChangeDetached(ctx context.Context, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), Unsure, ErrUnreachable)
	defer cancel()
	return o.Change(ctx, f)
}

// Number returns the number, or 0 if there is none.
func (o *Object) Number(ctx context.Context) (n int64, err error) {
	err = o.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		n, err = script.NumberRead(ctx, o.client.driver, o.name)
		return err
	})
	return n, err
}

// Contend calls ask until that returns nil, as one waiter in the client's queue for the
// name: the first waiter asks at once, after each notification on the channel, and about
// once a second. ask learns whether it is called for a waiter in the queue that may claim permits, and returns
// what is lacking, or how many permits are spare. If wait is false, Contend calls ask once, and returns what that returns.
// wanted is how many permits the caller wants.
func (o *Object) Contend(ctx context.Context, use Use, channel string, wanted int, wait bool, ask func(queued bool, patience time.Duration) (spare int, lack *script.PermitRefusal, err error)) (lack *script.PermitRefusal, err error) {
	told := o.client.observe(ctx, o.Name(), classes[use].Kind)
	defer func() {
		why := err
		if why == nil && lack != nil {
			why = o.client.errors.NoPermits(*lack)
		}
		o.client.counters.count(why)
		o.client.concluded(told, nil, why)
	}()
	at := site{o.client, place{use, o.name}}
	once := func(first bool, patience time.Duration) (spare int, lack *script.PermitRefusal, err error) {
		if spare, lack, err = ask(first, patience); err == nil {
			at.askedForPermits(channel, lack == nil)
		}
		return spare, lack, err
	}
	before, alone := uint64(0), false
	if !at.listens(func() string { return channel }) { // else it is busy, and a claim costs no more
		before, alone = at.reserve()
	}
	if alone || !wait {
		if _, lack, err = once(false, o.client.config.RetryFor); lack == nil || err != nil || !wait {
			return lack, err
		}
	}
	w := newWaiter(o.client, nil)
	w.wants = int32(wanted)
	w.within = nestedIn(ctx)
	w.within.waitUnder(1)
	defer w.within.waitUnder(-1)
	why := started
	if alone {
		why = asked
		at.joinAsked(w, false, before)
	} else {
		at.join(w, false)
	}
	defer at.leave(w)
	o.client.waits(told)
	if lack != nil {
		at.note(&refusal{lack: lack}, nil)
	}
	return nil, at.attend(ctx, w, channel, why, wanted, func(first bool, patience time.Duration) (bool, error) {
		spare, lack, err := once(first, patience)
		if err != nil {
			return false, err
		}
		if lack == nil {
			at.got(w, spare)
			return true, nil
		}
		at.note(&refusal{lack: lack}, nil)
		return false, nil
	})
}

// WaitOpen blocks until look finds that nothing is missing. One goroutine of the client
// asks on behalf of all that wait for the name, when a notification comes on the channel,
// and about once a second.
func (o *Object) WaitOpen(ctx context.Context, use Use, channel string, look func(patience time.Duration) (missing, err error)) (err error) {
	told := o.client.observe(ctx, o.Name(), classes[use].Kind)
	defer func() {
		o.client.counters.count(err)
		o.client.concluded(told, nil, err)
	}()
	at, w := site{o.client, place{use, o.name}}, newWaiter(o.client, nil)
	w.within = nestedIn(ctx)
	w.within.waitUnder(1)
	defer w.within.waitUnder(-1)
	at.join(w, false)
	defer at.leave(w)
	o.client.waits(told)
	return at.attend(ctx, w, channel, started, 0, func(_ bool, patience time.Duration) (bool, error) {
		at.mark()
		missing, err := look(patience)
		if err != nil {
			return false, err
		}
		if missing != nil {
			at.note(nil, missing)
			return false, nil
		}
		at.release()
		return true, nil
	})
}

// mark marks the present waiters: the answer to what the first one asks next holds for all
// of them.
func (s site) mark() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	q := s.queue()
	q.marked = q.tail
}

// release ends the wait of the waiters that were marked.
func (s site) release() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	q := s.queue()
	for last := q.marked; last != nil && last.in == q; {
		w := q.head
		q.dequeue(w)
		w.signal()
	}
	if q.head != nil {
		q.head.signal()
	}
}

// attendance is the wait of one goroutine for a number in Redis.
type attendance struct {
	sleeper
	site
	w       *waiter
	channel string
	first   cause // why it is awake at the beginning
	// ask reports whether the wait is over. It may take as long as patience says.
	ask func(first bool, patience time.Duration) (done bool, err error)
}

// attend waits in the queue for its place until ask reports true, or another waiter has
// ended the wait of w. Only the first waiter in the queue asks: at once unless it asked just
// before, as why says, after each notification on the channel, and about once a second. Another one asks once when it
// is notified to.
// wanted is how many permits the caller wants, if any.
func (s site) attend(ctx context.Context, w *waiter, channel string, why cause, wanted int, ask func(first bool, patience time.Duration) (done bool, err error)) error {
	a := &attendance{sleeper{done: s.client.done, wake: w.wake}, s, w, channel, why, ask}
	err := a.sleeper.run(ctx, a)
	if err == nil {
		return nil
	}
	return whyEnded(ctx, s.obstacle(wanted), err)
}

func (a *attendance) step(ctx context.Context, why cause) (time.Duration, error) {
	if why == started {
		why = a.first
	}
	switch at := a.position(a.w); {
	case at == gone:
		return 0, nil
	case at == behind:
		if !a.w.beginCalled() {
			return untilWoken, errNoHold
		}
		if done, err := a.inquire(false); done || err != nil {
			return 0, err
		}
		return untilWoken, errNoHold // a waiter that has become the first meanwhile was woken
	case why != elapsed && a.yields() > 0:
		why = asked // not before that is over
	case why == notified:
		if d := a.pace.next(time.Now()); d > 0 && !a.client.pause(ctx, d) {
			return 0, errEnded
		}
	}
	if why != asked {
		a.prepareClaim()
		if done, err := a.inquire(true); done || err != nil {
			return 0, err
		}
	}
	return a.prepareSleep()
}

// prepareSleep prepares for a sleep of the first waiter, and returns its length.
func (a *attendance) prepareSleep() (d time.Duration, err error) {
	if !a.claims() {
		a.own, a.all, err = a.site.listen(a.channel)
		return jitter(a.poll()), cmp.Or(err, errNoHold)
	}
	a.own, a.all, err = a.listenForPermits(a.channel)
	if d = a.yields(); d <= 0 {
		d = jitter(poll) // a claim must not end
	}
	return d, cmp.Or(err, errNoHold)
}

// yields returns for how long Redisson's threads have the first chance.
func (a *attendance) yields() time.Duration {
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	return time.Until(a.client.sharing.after(a.channel))
}

// inquire asks, and notes the end of it.
func (a *attendance) inquire(first bool) (done bool, err error) {
	defer a.w.endAsking()
	patience, err := a.w.patience(a.client)
	if err != nil {
		return false, err
	}
	return a.ask(first, patience)
}

// position returns where w is in the queue: gone, behind or first.
func (s site) position(w *waiter) position {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	switch {
	case w.in == nil:
		return gone
	case w.in.head == w:
		return first
	}
	return behind
}
