package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The lease of the tests with a real clock: it is renewed every third of it.
const clockLease = 2 * time.Second

// clocked is a client on a server whose clock is set.
type clocked struct {
	*mortise.Client
	*faults
	told jumps
}

func openClocked(t *testing.T, driver string, s *redistest.Server) *clocked {
	t.Helper()
	c := &clocked{faults: &faults{Driver: dialers[driver](t, s.Addr(), "")}}
	c.Client = mortise.New(c.faults, &mortise.Options{TTL: clockLease, OnClockJump: c.told.Note})
	t.Cleanup(func() {
		c.Set(nil, nil)
		_ = c.Client.Close()
	})
	return c
}

// renewed waits for so many renewals that Redis answers from now on.
func (c *clocked) renewed(t *testing.T, script string, times int) {
	t.Helper()
	last := c.Answered(script)
	redistest.Eventually(t, "the lease is renewed", func() error {
		if n := c.Answered(script); n < last+times {
			return fmt.Errorf("%d times, want %d", n-last, times)
		}
		return nil
	})
}

// clockKinds are the kinds of lock whose lease is cut when it is too long, with
// the scripts that renew them.
var clockKinds = map[string]struct {
	open   func(c *mortise.Client) taker
	rival  func(c *mortise.Client) taker // a kind that excludes the former; the same if nil
	script string
}{
	"Lock":        {func(c *mortise.Client) taker { return c.Lock("job") }, nil, "lock_renew"},
	"FencedLock":  {func(c *mortise.Client) taker { return c.FencedLock("job") }, nil, "lock_renew"},
	"SpinLock":    {func(c *mortise.Client) taker { return c.SpinLock("job") }, nil, "lock_renew"},
	"FairLock":    {func(c *mortise.Client) taker { return c.FairLock("job") }, nil, "lock_renew"},
	"GroupLock":   {func(c *mortise.Client) taker { return c.GroupLock("job", "a", "b") }, nil, "group_renew"},
	"RWLockWrite": {func(c *mortise.Client) taker { return c.RWLock("job").Write() }, nil, "lock_renew"},
	"RWLockRead": {func(c *mortise.Client) taker { return c.RWLock("job").Read() },
		func(c *mortise.Client) taker { return c.RWLock("job").Write() }, "rw_read_renew"},
}

// After the clock of Redis was set back, a lock that nobody renews any more is
// free when its lease is over, not a minute later.
func TestClockSetBack(t *testing.T) {
	for name, k := range clockKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { clockSetBack(t, b, k.open, k.rival, k.script) })
		})
	}
}

func clockSetBack(t *testing.T, b *canary.Bounds, open, rival func(c *mortise.Client) taker, script string) {
	s, clock := redistest.Clocked(t)
	holder, waiter := openClocked(t, "rueidis", s), openClocked(t, "goredis", s)
	_, held, err := open(holder.Client).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holder.renewed(t, script, 1)
	clock.Set(t, -time.Minute)
	holder.renewed(t, script, 2)
	if left := time.Duration(s.Int(t, "PTTL", "job")) * time.Millisecond; script != "group_renew" && (left <= 0 || left > clockLease) {
		t.Errorf("after the next renewals the key lasts for %v, want %v", left, clockLease)
	}
	holder.told.Wait(t)
	if held.Err() != nil {
		t.Fatalf("the lease ended: %v", context.Cause(held))
	}
	holder.Set(hang, nil) // it dies
	died := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if rival == nil {
		rival = open
	}
	hold, _, err := rival(waiter.Client).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.Within("the next acquisition", time.Since(died), clockLease+time.Second)
	holder.told.Want(t, time.Second, -time.Minute)
	waiter.told.Want(t, 0)
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// A holder that loses its lock to a clock that was set forward learns that at the
// next renewal, and why.
func TestClockSetForward(t *testing.T) {
	for name, k := range clockKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := redistest.Clocked(t)
			first, second := openClocked(t, "goredis", s), openClocked(t, "rueidis", s)
			lost, held, err := k.open(first.Client).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first.renewed(t, k.script, 1)
			clock.Set(t, time.Minute)
			renewals := first.Count(k.script)
			rival := k.open
			if k.rival != nil {
				rival = k.rival
			}
			hold, _, err := rival(second.Client).TryLock(t.Context())
			if err != nil {
				t.Fatalf("the lease is over, but TryLock says: %v", err)
			}
			<-held.Done()
			if n := first.Count(k.script) - renewals; n > 1 {
				t.Errorf("the first holder was told after %d renewals, want it at the next one", n)
			}
			cause := context.Cause(held)
			var jump *mortise.ClockError
			if !errors.As(cause, &jump) || (jump.Jump-time.Minute).Abs() > time.Second || !errors.Is(cause, mortise.ErrClockJump) || !errors.Is(cause, mortise.ErrLost) {
				t.Errorf("it lost the lock because %v, want that the clock was set", cause)
			}
			if err := lost.Unlock(); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("Unlock: %v, want ErrLost", err)
			}
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
			first.told.Wait(t)
			first.told.Want(t, time.Second, time.Minute)
		})
	}
}
