package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// A server restarts without its data. A client that listens to it has its leases looked at as soon as it listens again, and
// its holders learn of the loss then, and not at their next renewals. That goes for leases that are not renewed, too.
func TestRestartIsNoticedAtOnce(t *testing.T) {
	for name, options := range map[string]mortise.LockOptions{"renewed": {}, "not renewed": {MaxHold: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				link := s.Link()
				c, other := mortise.New(link, nil), mortise.New(s.Link(), nil)
				defer c.Close()
				defer other.Close()
				mustLock(t, other.Lock("busy"), t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _, _, _ = c.Lock("busy").Lock(ctx) }() // so that it listens
				hold, lctx := mustLock(t, c.Lock("job").With(options), t.Context())
				time.Sleep(time.Second)
				s.Restart()
				restarted := time.Now()
				<-lctx.Done()
				if d := time.Since(restarted); d > 300*time.Millisecond {
					t.Errorf("it learned of the loss after %v, want 300ms at most", d)
				}
				if cause := context.Cause(lctx); !errors.Is(cause, mortise.ErrLost) || !strings.Contains(cause.Error(), "a subscription was interrupted since") {
					t.Errorf("the cause is %v, want ErrLost by a restart", cause)
				}
				_ = hold.Unlock()
				cancel()
				synctest.Wait()
			})
		})
	}
}
