package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/composite"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/terms"
	"go.uber.org/goleak"

	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
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
				hold, err := waiting.Acquire(t.Context(), plainLock(c, "job").With(&terms.Options{MaxHold: ttl}), true)
				if err != nil {
					t.Fatal(err)
				}
				hold.Lease().Unwatch() // as if it were about to report
				time.Sleep(time.Minute)
				if hold.Valid() || hold.Context().Err() == nil {
					t.Errorf("a minute later the hold is valid: %v, and its context's error is %v", hold.Valid(), hold.Context().Err())
				}
				if err := hold.Unlock(); !errors.Is(err, outcome.ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}
			})
		})
	}
}

// The watchdog marks a lease as lost, and then tells its holds. After a freeze both may have come
// to that, and a holder asks in between.
func TestHoldIsNotValidWhileItsLossIsTold(t *testing.T) {
	lock := func(ctx context.Context, t *testing.T, c *lease.Client, name string) *lease.Hold {
		t.Helper()
		hold, err := waiting.Acquire(ctx, plainLock(c, name), true)
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	multi := func(ctx context.Context, t *testing.T, c *lease.Client, names ...string) *lease.Hold {
		t.Helper()
		var locks []*lease.Lock
		for _, name := range names {
			locks = append(locks, plainLock(c, name))
		}
		b, err := composite.NewBatch(locks)
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
	for name, acquire := range map[string]func(t *testing.T, c *lease.Client) []*lease.Hold{
		"lock": func(t *testing.T, c *lease.Client) []*lease.Hold { return []*lease.Hold{lock(t.Context(), t, c, "a")} },
		"multi lock": func(t *testing.T, c *lease.Client) []*lease.Hold {
			return []*lease.Hold{multi(t.Context(), t, c, "a", "b")}
		},
		"re-entry": func(t *testing.T, c *lease.Client) []*lease.Hold {
			outer := lock(t.Context(), t, c, "a")
			return []*lease.Hold{outer, lock(outer.Context(), t, c, "a")}
		},
		"re-entry by way of another lock": func(t *testing.T, c *lease.Client) []*lease.Hold {
			outer := lock(t.Context(), t, c, "a")
			other := lock(outer.Context(), t, c, "b")
			return []*lease.Hold{outer, other, lock(other.Context(), t, c, "a"), lock(other.Context(), t, c, "b")}
		},
		"multi lock of a lock that is held": func(t *testing.T, c *lease.Client) []*lease.Hold {
			outer := lock(t.Context(), t, c, "a")
			both := multi(outer.Context(), t, c, "a", "b")
			return []*lease.Hold{outer, both, lock(both.Context(), t, c, "b")}
		},
	} {
		t.Run(name, func(t *testing.T) { holdIsNotValidWhileItsLossIsTold(t, acquire) })
	}
}

func holdIsNotValidWhileItsLossIsTold(t *testing.T, acquire func(t *testing.T, c *lease.Client) []*lease.Hold) {
	for first := range acquireIn(t, acquire, nil) { // whichever of them is asked first
		acquireIn(t, acquire, func(holds []*lease.Hold) {
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
func acquireIn(t *testing.T, acquire func(t *testing.T, c *lease.Client) []*lease.Hold, check func(holds []*lease.Hold)) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		c := newClient(s.Driver())
		defer c.Close()
		holds := acquire(t, c)
		n = len(holds)
		for _, l := range leasesOf(holds) {
			l.Lose()
		}
		time.Sleep(time.Minute)
		if check != nil {
			check(holds)
		}
	})
	return n
}

func leasesOf(holds []*lease.Hold) (leases []*lease.Lease) {
	for _, hold := range holds {
		leases = append(leases, lease.PartsOf(hold)...)
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
		hold, err := waiting.Acquire(t.Context(), plainLock(c, "job"), true)
		if err != nil {
			t.Fatal(err)
		}
		hold.Lease().Unwatch() // as if it were about to report
		time.Sleep(time.Minute)
		select {
		case <-hold.Context().Done():
		default:
			t.Error("a minute later the hold's context is not done")
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client with the default options of package mortise.
func newClient(d driver.Driver) *lease.Client {
	c := lease.New(lease.Config{
		Driver: d, TTL: 30 * time.Second, RetryFor: 10 * time.Second, Errors: testErrors{},
		Publish: func(driver.Topology) script.Publish { return script.Classic },
	})
	waiting.New(c)
	return c
}

var testTraits = lease.Traits{Use: lease.NewUse(lease.Class{}), Turns: true, Grantable: true, HandsOff: true, Batched: true}

// plainLock returns a lock with the properties of a plain lock.
func plainLock(c *lease.Client, name string) *lease.Lock {
	k, ops := new(lease.Lock), c.Conn().Lock(name)
	k.Init(c.Object(name), &testTraits, &ops)
	return k
}

// testErrors makes the errors that these tests meet; any other is a mistake in them.
type testErrors struct{ lease.Errors }

func (testErrors) Operation(op, name string, err error) error {
	return fmt.Errorf("%s %q: %w", op, name, err)
}

func (testErrors) Lost(reason lease.LostReason, _ time.Time, err error) error {
	return fmt.Errorf("%w: for reason %d: %w", outcome.ErrLost, reason, err)
}
