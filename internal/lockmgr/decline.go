package lockmgr

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// plain returns the lock at s as a plain one, as far as its turns depend on that, whatever kinds of
// lock take turns there.
func (s site) plain() *Lock {
	k, ops := new(Lock), s.client.conn.Lock(s.name)
	k.Init(Object{s.client, s.name}, &Traits{Use: s.use, Turns: true}, &ops)
	return k
}

// declineLater declines the turn of id in the background. It must be called with Client.mu held.
func (s site) declineLater(id string) {
	s.client.spawn(func(context.Context) { s.decline(id) })
}

// decline gives back the turn of id, which no waiter here needs, or the lock if it was
// granted already.
func (s site) decline(id string) {
	c, k := s.client, s.plain()
	_, _ = c.call(c.lingerer, c.config.RetryFor, func(ctx context.Context) error {
		_, err := k.release(ctx, id)
		return err
	})
}

// wakeNext wakes the next client, in place of a waiter here that would have asked for the
// lock at that time: it acquires the lock if that is free, and releases it.
func (s site) wakeNext(at time.Time) {
	c, k := s.client, s.plain()
	c.pause(c.lingerer, time.Until(at))
	id := c.NewID()
	doubt, err := c.call(c.lingerer, c.config.RetryFor, func(ctx context.Context) error {
		got, err := k.ops.Acquire(ctx, script.Attempt{ID: id, Lease: script.GivenLease})
		if err == nil && got.OK {
			_, err = k.release(ctx, id)
		}
		return err
	})
	if doubt || err != nil {
		c.janitor.abandon(k, id, script.GivenLease)
	}
}
