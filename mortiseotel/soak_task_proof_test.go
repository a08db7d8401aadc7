//go:build proof

package mortiseotel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mortise-go/mortise"
)

// isLoss reports whether err is that of a hold that was lost.
func isLoss(err error) bool {
	return errors.Is(err, mortise.ErrLost) || errors.Is(err, mortise.ErrClosed)
}

// task acquires something in some way, and releases it, if it does not forget that.
func task(ctx context.Context, clients []*mortise.Client, r *rand.Rand) {
	time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	switch r.IntN(5) {
	case 0:
		limited, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(1500))*time.Millisecond)
		defer cancel()
		ctx = limited
	case 1:
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := time.AfterFunc(time.Duration(r.IntN(1500))*time.Millisecond, cancel)
		defer stop.Stop()
		ctx = limited
	}
	c := clients[0]
	switch r.IntN(14) {
	case 0:
		_, _ = c.Lock(name(r)).ForceUnlock(ctx)
	case 1:
		_, _ = c.Ask(ctx, name(r), "soak")
	case 2:
		party(ctx, c, r)
	case 12:
		_ = c.Semaphore("numbers").With(mortise.WaitOptions{Wait: options(r).Wait}).Do(ctx, 1, func(ctx context.Context) error {
			work(ctx, r)
			return nil
		})
	case 13:
		latch := c.CountDownLatch("latch")
		_, _ = latch.TrySetCount(ctx, 2)
		_ = latch.CountDown(ctx)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = latch.Wait(limited)
	case 3:
		term, held, err := c.Election("leader").With(options(r)).Campaign(ctx, "soak")
		if err == nil {
			work(held, r)
			_ = term.Resign()
		}
	default:
		hold(ctx, clients, r, 3)
	}
}

// party enters a double barrier, and leaves it unless it is broken.
func party(ctx context.Context, c *mortise.Client, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	member, held, err := c.DoubleBarrier("party", 2).Enter(ctx)
	if err == nil {
		work(held, r)
		_ = member.Leave(ctx)
	}
}

func name(r *rand.Rand) string { return "job " + strconv.Itoa(r.IntN(2)) }

func options(r *rand.Rand) (o mortise.LockOptions) {
	switch r.IntN(6) {
	case 0:
		o.MaxHold = time.Duration(100+r.IntN(3000)) * time.Millisecond
	case 1:
		o.Wait = time.Duration(1+r.IntN(1000)) * time.Millisecond
	case 2:
		o.NonReentrant = true
	case 3:
		o.Deadlock = mortise.DeadlockFail
	}
	return o
}

// locker is what all kinds have that are acquired like a lock.
type locker interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
	TryLock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// permits is a semaphore as a locker.
type permits struct{ *mortise.PermitSemaphore }

func (p permits) Lock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return p.Acquire(ctx)
}

func (p permits) TryLock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return p.TryAcquire(ctx)
}

// kind returns a lock of some kind.
func kind(clients []*mortise.Client, r *rand.Rand) locker {
	c, o := clients[0], options(r)
	switch r.IntN(12) {
	case 0:
		return c.FairLock("fair").With(o)
	case 1:
		return c.FencedLock("fenced").With(o)
	case 2:
		return c.SpinLock(name(r)).With(o)
	case 3:
		return c.RWLock("rw").Read().With(o)
	case 4:
		return c.RWLock("rw").Write().With(o)
	case 5:
		return permits{c.PermitSemaphore("permits").With(mortise.PermitOptions{Wait: o.Wait, MaxHold: o.MaxHold})}
	case 6:
		return c.GroupLock("group", strconv.Itoa(r.IntN(3)), strconv.Itoa(3+r.IntN(3))).With(o)
	case 7:
		return mortise.NewMultiLock(c.Lock("job 0"), c.Lock("job 1"), clients[1].Lock("job 0")).With(o)
	case 8:
		return mortise.NewRedlock("red", clients...).With(o)
	}
	return c.Lock(name(r)).With(o)
}

// hold acquires something, and more under it, up to that depth.
func hold(ctx context.Context, clients []*mortise.Client, r *rand.Rand, depth int) {
	k := kind(clients, r)
	acquire := k.Lock
	if r.IntN(3) == 0 {
		acquire = k.TryLock
	}
	h, held, err := acquire(ctx)
	if err != nil {
		return
	}
	if depth > 0 && r.IntN(3) == 0 {
		hold(held, clients, r, depth-1)
	}
	if r.IntN(4) == 0 { // a re-entry, for some kinds
		again, _, err := k.TryLock(held)
		if err == nil && r.IntN(2) == 0 {
			defer again.Unlock()
		} else if err == nil {
			_ = again.Unlock()
		}
	}
	work(held, r)
	_ = h.Unlock()
	if r.IntN(10) == 0 {
		_ = h.Unlock()
	}
}

// work goes on for a while, and stops when the lock is lost unless it is stubborn.
func work(held context.Context, r *rand.Rand) {
	d := time.Duration(r.IntN(600)) * time.Millisecond
	if r.IntN(10) == 0 {
		d *= 10
	}
	if r.IntN(4) == 0 {
		time.Sleep(d)
		return
	}
	select {
	case <-held.Done():
	case <-time.After(d):
	}
}
