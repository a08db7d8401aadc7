package behavior

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// sharedKinds are kinds that several have at the same time: shut keeps everybody out until open, for two.
var sharedKinds = map[string]struct {
	shut  func(t *testing.T, c *mortise.Client) (open func())
	enter func(ctx context.Context, c *mortise.Client) error
}{
	"Semaphore": {
		func(t *testing.T, c *mortise.Client) func() {
			permitted(t, c, "job", 0)
			return func() { mustRelease(t, c.Semaphore("job"), 2) }
		},
		func(ctx context.Context, c *mortise.Client) error { return c.Semaphore("job").Acquire(ctx, 1) },
	},
	"PermitSemaphore": {
		func(t *testing.T, c *mortise.Client) func() {
			permitsOf(t, c, 0)
			return func() { mustAddPermits(t, c, 2) }
		},
		func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.PermitSemaphore("job").Acquire(ctx) //nolint:dogsled // held until the client is closed
			return err
		},
	},
	"RWLock": {
		func(t *testing.T, c *mortise.Client) func() {
			hold, _, err := c.RWLock("job").Write().Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return func() { mustUnlock(t, hold) }
		},
		func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.RWLock("job").Read().Lock(ctx) //nolint:dogsled // held until the client is closed
			return err
		},
	},
}

// One is refused, and has the answer late. Meanwhile another one of its client has come, waited, got what came free for
// both, and gone. The client listens since, and has heard that already: so the first must ask again by itself.
func TestRefusalThatComesLate(t *testing.T) {
	for kind, c := range sharedKinds {
		bubbleNamed(t, kind, func(t *testing.T, s *memredis.Server) {
			own, f := open(t, s, nil)
			other, _ := open(t, s, nil)
			free := c.shut(t, other)
			var asked atomic.Int32
			f.Set(nil, func(_ context.Context, name string) error {
				if strings.HasSuffix(name, "_acquire") && asked.Add(1) == 1 {
					time.Sleep(50 * time.Millisecond)
				}
				return nil
			})
			start := time.Now()
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- c.enter(t.Context(), own) }()
			synctest.Wait()
			go func() { second <- c.enter(t.Context(), own) }()
			synctest.Wait()
			free()
			if err := <-second; err != nil || time.Since(start) > 0 {
				t.Errorf("the second: %v after %v, want at once", err, time.Since(start))
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d != 50*time.Millisecond {
				t.Errorf("the first got it after %v, want as soon as it had its answer, after 50ms", d)
			}
		})
	}
}
