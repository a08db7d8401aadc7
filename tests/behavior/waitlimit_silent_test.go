package behavior

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// A wait that ends during the last attempt that RetryFor allows waited for Redis, which never
// answered, and not for another owner. Nothing but the attempt says so for a read lock, of which
// several may be asked for at once.
func TestWaitThatEndsInTheLastAttempt(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(c *mortise.Client) mortise.Locker{
		"Lock":  func(c *mortise.Client) mortise.Locker { return c.Lock("x") },
		"fair":  func(c *mortise.Client) mortise.Locker { return c.FairLock("x") },
		"read":  func(c *mortise.Client) mortise.Locker { return c.RWLock("x").Read() },
		"write": func(c *mortise.Client) mortise.Locker { return c.RWLock("x").Write() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				l := s.Link()
				c := mortise.New(l, &mortise.Options{RetryFor: 8 * time.Second})
				defer c.Close()
				l.Partition()
				// The third attempt begins after 6 s, and would end after 8 s.
				ctx, cancel := context.WithTimeout(t.Context(), 7900*time.Millisecond)
				defer cancel()
				_, _, err := open(c).Lock(ctx)
				if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock: %v, want ErrUnreachable", err)
				}
			})
		})
	}
}
