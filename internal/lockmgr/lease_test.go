package lockmgr

import (
	"context"
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
	lock := func(ctx context.Context, t *testing.T, c *Client, name string) *Hold {
		t.Helper()
		hold, err := plainLock(c, name).Acquire(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	multi := func(ctx context.Context, t *testing.T, c *Client, names ...string) *Hold {
		t.Helper()
		var locks []*Lock
		for _, name := range names {
			locks = append(locks, plainLock(c, name))
		}
		b, err := NewBatch(locks)
		if err != nil {
			t.Fatal(err)
		}
		hold, _, err := b.Acquire(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	// The context of each hold is the parent of the next one's.
	for name, acquire := range map[string]func(t *testing.T, c *Client) []*Hold{
		"lock":       func(t *testing.T, c *Client) []*Hold { return []*Hold{lock(t.Context(), t, c, "a")} },
		"multi lock": func(t *testing.T, c *Client) []*Hold { return []*Hold{multi(t.Context(), t, c, "a", "b")} },
		"re-entry": func(t *testing.T, c *Client) []*Hold {
			outer := lock(t.Context(), t, c, "a")
			return []*Hold{outer, lock(outer.Context(), t, c, "a")}
		},
		"re-entry by way of another lock": func(t *testing.T, c *Client) []*Hold {
			outer := lock(t.Context(), t, c, "a")
			other := lock(outer.Context(), t, c, "b")
			return []*Hold{outer, other, lock(other.Context(), t, c, "a"), lock(other.Context(), t, c, "b")}
		},
		"multi lock of a lock that is held": func(t *testing.T, c *Client) []*Hold {
			outer := lock(t.Context(), t, c, "a")
			both := multi(outer.Context(), t, c, "a", "b")
			return []*Hold{outer, both, lock(both.Context(), t, c, "b")}
		},
	} {
		t.Run(name, func(t *testing.T) { holdIsNotValidWhileItsLossIsTold(t, acquire) })
	}
}

func holdIsNotValidWhileItsLossIsTold(t *testing.T, acquire func(t *testing.T, c *Client) []*Hold) {
	for first := range acquireIn(t, acquire, nil) { // whichever of them is asked first
		acquireIn(t, acquire, func(holds []*Hold) {
			for i := range holds {
				h := holds[(first+i)%len(holds)]
				select {
				case <-h.Context().Done():
				default:
					t.Errorf("asked hold %d first: a minute later the context of hold %d is not done", first, (first+i)%len(holds))
				}
				if err := h.Context().Err(); h.Valid() || err == nil {
					t.Errorf("asked hold %d first: a minute later hold %d is valid: %v, and its context's error is %v",
						first, (first+i)%len(holds), h.Valid(), err)
				}
			}
		})
	}
}

// acquireIn acquires holds, has their leases end without their being told, and returns how many
// there are.
func acquireIn(t *testing.T, acquire func(t *testing.T, c *Client) []*Hold, check func(holds []*Hold)) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		c := newClient(s.Driver())
		defer c.Close()
		holds := acquire(t, c)
		n = len(holds)
		for _, l := range leasesOf(holds) {
			c.watchdog.Remove(&l.watch)
			l.mu.Lock()
			l.ended = l.loss(LostUnreachable, nil)
			l.mu.Unlock()
		}
		time.Sleep(time.Minute)
		if check != nil {
			check(holds)
		}
	})
	return n
}

func leasesOf(holds []*Hold) (leases []*Lease) {
	for _, hold := range holds {
		switch of := hold.of.(type) {
		case *composite:
			for _, m := range of.members {
				leases = append(leases, m.lease())
			}
		case *Lease:
			leases = append(leases, of)
		}
	}
	return leases
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
