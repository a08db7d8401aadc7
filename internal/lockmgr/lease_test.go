package lockmgr

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
				c := newClient(s.Driver())
				defer c.Close()
				hold, err := plainLock(c, "job").With(&Options{MaxHold: ttl}).Acquire(t.Context(), true)
				if err != nil {
					t.Fatal(err)
				}
				c.watchdog.Remove(&hold.of.(*Lease).watch) // as if it were about to report
				time.Sleep(time.Minute)
				if hold.Valid() || hold.Context().Err() == nil {
					t.Errorf("a minute later the hold is valid: %v, and its context's error is %v", hold.Valid(), hold.Context().Err())
				}
				if err := hold.Unlock(); !errors.Is(err, ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}
			})
		})
	}
}

// The channel of a hold's context is closed before the loss of the lease was reported.
func TestContextIsDoneBeforeItsLossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		c := newClient(s.Driver())
		defer c.Close()
		hold, err := plainLock(c, "job").Acquire(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		c.watchdog.Remove(&hold.of.(*Lease).watch) // as if it were about to report
		time.Sleep(time.Minute)
		select {
		case <-hold.Context().Done():
		default:
			t.Error("a minute later the hold's context is not done")
		}
	})
}
