package permits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// A number in Redis, such as that of permits or that of a latch, has no owner by which
// Redis could distinguish a repeat of a script from a new call. So each operation has a lane and
// a serial number. Redis remembers by them, for script.Remembered, what it did.

// Numbers is what a client does with numbers.
type Numbers struct {
	queues    *waiting.Queues
	takebacks takebacks

	mu    sync.Mutex // guards the following fields
	lanes int        // number of lanes
	idle  []string   // lanes that no operation uses
}

// NewNumbers returns the numbers of a client with those queues.
func NewNumbers(qs *waiting.Queues) *Numbers { return &Numbers{queues: qs} }

// Number is a number under a name.
type Number struct {
	lease.Object
	of *Numbers
}

// Number returns the number with the name of o.
func (s *Numbers) Number(o lease.Object) Number { return Number{o, s} }

// site returns what waiters for the number contend for inside their client.
func (o *Number) site(use lease.Use) waiting.Site {
	return waiting.Site{Queues: o.of.queues, Place: lease.Place{Use: use, Name: o.Key()}}
}

// DrawOperation returns a new operation, in a lane that no other operation of this client
// uses until [Number.DropOperation].
func (o *Number) DrawOperation() script.Operation {
	s := o.of
	s.mu.Lock()
	defer s.mu.Unlock()
	op := script.Operation{Serial: o.Client().NextSerial()}
	if n := len(s.idle); n > 0 {
		op.Lane, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		op.Lane = o.Client().ID() + ":" + strconv.Itoa(s.lanes)
		s.lanes++
	}
	return op
}

// DropOperation ends an operation: other operations may use its lane, and copies that
// arrive later have no effect.
func (o *Number) DropOperation(op script.Operation) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.idle = append(o.of.idle, op.Lane)
}

// Unsure is how long an operation whose reply was lost is tried again. It is half of the
// time that Redis remembers the operation, so that Redis recognizes even a copy that took
// as long to arrive.
const Unsure = script.Remembered / 2

// Once runs a script until Redis has answered, as the client's options say, for an
// operation that Redis remembers. unknown reports that a copy of it may run later.
func (o *Number) Once(ctx context.Context, patience time.Duration, op func(context.Context) error) (unknown bool, err error) {
	var d doubt.Doubt
	return o.Client().Call(ctx, patience, func(ctx context.Context) error {
		if d.Longer(Unsure) {
			return outcome.Final(fmt.Errorf("%w: Redis may have forgotten by now whether it did it: %w", outcome.ErrUnreachable, d.Err()))
		}
		return d.Try(func() error { return op(ctx) })
	})
}

// Change runs a script that changes the number, as an operation of its own. If it fails
// in doubt, the error matches ErrUnknownOutcome.
func (o *Number) Change(ctx context.Context, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	return o.Perform(ctx, func(p script.Publish) error {
		n := o.DrawOperation()
		defer o.DropOperation(n)
		unknown, err := o.Once(ctx, o.Client().Config().RetryFor, func(ctx context.Context) error { return f(ctx, n, p) })
		if err == nil || !unknown || errors.Is(err, script.ErrUnheard) {
			return err
		}
		return fmt.Errorf("%w: %w", outcome.ErrUnknownOutcome, err)
	})
}

// ChangeDetached is Change for what others wait for: the end of ctx does not stop it. It
// gives up after [Unsure].
func (o *Number) ChangeDetached(ctx context.Context, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), Unsure, outcome.ErrUnreachable)
	defer cancel()
	return o.Change(ctx, f)
}

// Read returns the number, or 0 if there is none.
func (o *Number) Read(ctx context.Context) (n int64, err error) {
	err = o.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		n, err = script.NumberRead(ctx, o.Client().Driver(), o.Key())
		return err
	})
	return n, err
}

// Contend calls ask until that returns nil, as one waiter in the client's queue for the
// name: the first waiter asks at once, after each notification on the channel, and about
// once a second. ask learns whether it is called for a waiter in the queue that may claim permits, and returns
// what is lacking, or how many permits are spare. If wait is false, Contend calls ask once, and returns what that returns.
// wanted is how many permits the caller wants.
func (o *Number) Contend(ctx context.Context, use lease.Use, channel string, wanted int, wait bool, ask func(queued bool, patience time.Duration) (spare int, lack *script.PermitRefusal, err error)) (lack *script.PermitRefusal, err error) {
	told := o.Client().Observe(ctx, o.Name(), use.Class().Kind)
	defer func() {
		why := err
		if why == nil && lack != nil {
			why = o.Client().Errors().NoPermits(*lack)
		}
		o.Client().Counters.Count(why)
		o.Client().Concluded(told, nil, why)
	}()
	at := o.site(use)
	once := func(first bool, patience time.Duration) (spare int, lack *script.PermitRefusal, err error) {
		if spare, lack, err = ask(first, patience); err == nil {
			at.AskedForPermits(channel, lack == nil)
		}
		return spare, lack, err
	}
	before, alone := uint64(0), false
	if !at.Listens(func() string { return channel }) { // else it is busy, and a claim costs no more
		before, alone = at.Reserve()
	}
	if alone || !wait {
		if _, lack, err = once(false, o.Client().Config().RetryFor); lack == nil || err != nil || !wait {
			return lack, err
		}
	}
	w := waiting.NewWaiter(o.of.queues, nil)
	w.Wants = int32(wanted)
	w.Within = lease.NestedIn(ctx)
	w.Within.WaitUnder(1)
	defer w.Within.WaitUnder(-1)
	why := waiting.Started
	if alone {
		why = waiting.Asked
		at.JoinAsked(w, false, before)
	} else {
		at.Join(w, false)
	}
	defer at.Leave(w)
	o.Client().NoteWait(told)
	if lack != nil {
		at.Note(&outcome.Refusal{Lack: lack}, nil)
	}
	return nil, attend(ctx, at, w, channel, why, wanted, func(first bool, patience time.Duration) (bool, error) {
		spare, lack, err := once(first, patience)
		if err != nil {
			return false, err
		}
		if lack == nil {
			at.Got(w, spare)
			return true, nil
		}
		at.Note(&outcome.Refusal{Lack: lack}, nil)
		return false, nil
	})
}

// WaitOpen blocks until look finds that nothing is missing. One goroutine of the client
// asks on behalf of all that wait for the name, when a notification comes on the channel,
// and about once a second.
func (o *Number) WaitOpen(ctx context.Context, use lease.Use, channel string, look func(patience time.Duration) (missing, err error)) (err error) {
	told := o.Client().Observe(ctx, o.Name(), use.Class().Kind)
	defer func() {
		o.Client().Counters.Count(err)
		o.Client().Concluded(told, nil, err)
	}()
	at, w := o.site(use), waiting.NewWaiter(o.of.queues, nil)
	w.Within = lease.NestedIn(ctx)
	w.Within.WaitUnder(1)
	defer w.Within.WaitUnder(-1)
	at.Join(w, false)
	defer at.Leave(w)
	o.Client().NoteWait(told)
	return attend(ctx, at, w, channel, waiting.Started, 0, func(_ bool, patience time.Duration) (bool, error) {
		at.Mark()
		missing, err := look(patience)
		if err != nil {
			return false, err
		}
		if missing != nil {
			at.Note(nil, missing)
			return false, nil
		}
		at.Release()
		return true, nil
	})
}

// attendance is the wait of one goroutine for a number in Redis.
type attendance struct {
	waiting.Sleeper
	waiting.Site
	w       *waiting.Waiter
	channel string
	first   waiting.Cause // why it is awake at the beginning
	// ask reports whether the wait is over. It may take as long as patience says.
	ask func(first bool, patience time.Duration) (done bool, err error)
}

// attend waits in the queue for its place until ask reports true, or another waiter has
// ended the wait of w. Only the first waiter in the queue asks: at once unless it asked just
// before, as why says, after each notification on the channel, and about once a second. Another one asks once when it
// is notified to.
// wanted is how many permits the caller wants, if any.
func attend(ctx context.Context, s waiting.Site, w *waiting.Waiter, channel string, why waiting.Cause, wanted int, ask func(first bool, patience time.Duration) (done bool, err error)) error {
	a := &attendance{waiting.Sleeper{Done: s.Queues.Done(), Wake: w.Wake}, s, w, channel, why, ask}
	err := a.Sleeper.Run(ctx, a)
	if err == nil {
		return nil
	}
	return outcome.WhyEnded(ctx, s.Obstacle(wanted), err)
}

func (a *attendance) Step(ctx context.Context, why waiting.Cause) (time.Duration, error) {
	if why == waiting.Started {
		why = a.first
	}
	switch at := a.Position(a.w); {
	case at == waiting.Gone:
		return 0, nil
	case at == waiting.Behind:
		if !a.w.BeginCalled() {
			return waiting.UntilWoken, lease.ErrNoHold
		}
		if done, err := a.inquire(false); done || err != nil {
			return 0, err
		}
		return waiting.UntilWoken, lease.ErrNoHold // a waiter that has become the first meanwhile was woken
	case why != waiting.Elapsed && a.yields() > 0:
		why = waiting.Asked // not before that is over
	case why == waiting.Notified:
		if d := a.Pace.Next(time.Now()); d > 0 && !a.Queues.Sleep(ctx, d) {
			return 0, outcome.ErrEnded
		}
	}
	if why != waiting.Asked {
		a.PrepareClaim()
		if done, err := a.inquire(true); done || err != nil {
			return 0, err
		}
	}
	return a.prepareSleep()
}

// prepareSleep prepares for a sleep of the first waiter, and returns its length.
func (a *attendance) prepareSleep() (d time.Duration, err error) {
	if !a.Claims() {
		a.Own, a.All, err = a.Site.Listen(a.channel)
		return waiting.Jitter(a.Poll()), cmp.Or(err, lease.ErrNoHold)
	}
	a.Own, a.All, err = a.ListenForPermits(a.channel)
	if d = a.yields(); d <= 0 {
		d = waiting.Jitter(outcome.Poll) // a claim must not end
	}
	return d, cmp.Or(err, lease.ErrNoHold)
}

// yields returns for how long Redisson's threads have the first chance.
func (a *attendance) yields() time.Duration {
	return time.Until(a.OthersFirst(a.channel))
}

// inquire asks, and notes the end of it.
func (a *attendance) inquire(first bool) (done bool, err error) {
	defer a.w.EndAsking()
	patience, err := a.w.Patience(a.Queues)
	if err != nil {
		return false, err
	}
	return a.ask(first, patience)
}

// ReleaseSerial returns the serial number of the next release of permits, or 0 if they are not to be left to Redisson's threads.
func (o *Number) ReleaseSerial(channel string) int64 { return o.of.queues.ReleaseSerial(channel) }

// Left notes that a release of permits has left them to Redisson's threads, which listen to channel.
func (o *Number) Left(channel string) { o.of.queues.LeftPermits(channel) }

// Claimant returns the id of the client if a release of permits can notify it alone, or
// nothing.
func (o *Number) Claimant(use lease.Use) string { return o.site(use).Claimant() }

// NoteFailure notes that Redis does not answer for the number with that use, since began.
func (o *Number) NoteFailure(ctx context.Context, use lease.Use, began time.Time, err error) {
	o.site(use).NoteFailure(ctx, began, err)
}
