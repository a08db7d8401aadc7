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

// The watchdog marks a lease as lost, and then tells its holds. After a freeze both may have come
// to that, and a holder asks in between.
func TestHoldIsNotValidWhileItsLossIsTold(t *testing.T) {
	for name, acquire := range map[string]func(t *testing.T, c *Client) *Hold{
		"lock": func(t *testing.T, c *Client) *Hold {
			hold, err := plainLock(c, "job").Acquire(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			return hold
		},
		"multi lock": func(t *testing.T, c *Client) *Hold {
			b, err := NewBatch([]*Lock{plainLock(c, "a"), plainLock(c, "b")})
			if err != nil {
				t.Fatal(err)
			}
			hold, _, err := b.Acquire(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			return hold
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memredis.New()
				defer s.Close()
				c := newClient(s.Driver())
				defer c.Close()
				hold := acquire(t, c)
				leases := []*Lease{}
				if m, ok := hold.of.(*composite); ok {
					for _, m := range m.members {
						leases = append(leases, m.lease())
					}
				} else {
					leases = append(leases, hold.of.(*Lease))
				}
				for _, l := range leases {
					c.watchdog.Remove(&l.watch)
					l.mu.Lock()
					l.ended = l.loss(LostUnreachable, nil)
					l.mu.Unlock()
				}
				time.Sleep(time.Minute)
				if err := hold.Context().Err(); hold.Valid() || err == nil {
					t.Errorf("a minute later the hold is valid: %v, and its context's error is %v", hold.Valid(), err)
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
