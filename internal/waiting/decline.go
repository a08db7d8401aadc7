package waiting

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// plain returns the lock at s as a plain one, as far as its turns depend on that, whatever kinds of
// lock take turns there.
func (s Site) plain() *lease.Lock {
	k, ops := new(lease.Lock), s.Queues.Conn().Lock(s.Name)
	k.Init(s.Queues.ObjectAt(s.Name), &lease.Traits{Use: s.Use, Turns: true}, &ops)
	return k
}

// declineLater declines the turn of id in the background. It must be called with Client.Mu held.
func (s Site) declineLater(id string) {
	s.Queues.Spawn(func(context.Context) { s.decline(id) })
}

// decline gives back the turn of id, which no waiter here needs, or the lock if it was
// granted already.
func (s Site) decline(id string) {
	c, k := s.Queues, s.plain()
	_, _ = c.Call(c.Lingerer(), c.Config().RetryFor, func(ctx context.Context) error {
		_, err := k.Release(ctx, id)
		return err
	})
}

// wakeNext wakes the next client, in place of a waiter here that would have asked for the
// lock at that time: it acquires the lock if that is free, and releases it.
func (s Site) wakeNext(at time.Time) {
	c, k := s.Queues, s.plain()
	c.Sleep(c.Lingerer(), time.Until(at))
	id := c.NewID()
	doubt, err := c.Call(c.Lingerer(), c.Config().RetryFor, func(ctx context.Context) error {
		got, err := k.Ops().Acquire(ctx, script.Attempt{ID: id, Lease: script.GivenLease})
		if err == nil && got.OK {
			_, err = k.Release(ctx, id)
		}
		return err
	})
	if doubt || err != nil {
		c.Abandon(k, id, script.GivenLease)
	}
}
