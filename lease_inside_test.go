package mortise

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/memredis"
)

// The watchdog may have lost very many leases at once, and reports them one by one. A
// hold whose loss was not reported yet is no longer valid either.
func TestHoldIsNotValidBeforeItsLossIsTold(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"renewed": 0, "fixed": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memredis.New()
				defer s.Close()
				c := New(s.Driver(), nil)
				defer c.Close()
				hold, ctx, err := c.Lock("job").With(LockOptions{Lease: ttl}).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c.watchdog.Remove(&hold.of.(*lease).watch) // as if it were about to report
				time.Sleep(time.Minute)
				if hold.Valid() || ctx.Err() == nil {
					t.Errorf("a minute later the hold is valid: %v, and its context's error is %v", hold.Valid(), ctx.Err())
				}
				if err := hold.Unlock(); !errors.Is(err, ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}
			})
		})
	}
}
