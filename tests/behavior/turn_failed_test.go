package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

var errUnsent = &driver.Error{Class: driver.NotSent, Err: errors.New("not sent, by the test")}

// unsent returns a fault: the scripts whose names end so are not sent.
func unsent(suffix string) func(context.Context, string) error {
	return func(_ context.Context, name string) error {
		if strings.HasSuffix(name, suffix) {
			return errUnsent
		}
		return nil
	}
}

// wantNow checks that a waiter gets the lock without a poll, and releases it.
func wantNow(t *testing.T, got <-chan *mortise.Hold) {
	t.Helper()
	wantWithin(t, got, 10*time.Millisecond)
}

func wantWithin(t *testing.T, got <-chan *mortise.Hold, most time.Duration) {
	t.Helper()
	start := time.Now()
	hold := <-got
	if d := time.Since(start); d > most {
		t.Errorf("the next waiter has the lock after %v, want %v at most", d, most)
	}
	if hold != nil {
		mustUnlock(t, hold)
	}
}

// A request that found nobody in its way gives up before Redis has answered.
func TestWaiterBehindARequestThatFailsAsksAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		mustUnlock(t, mustTake(t, c.Lock("job")))
		f.Set(unsent("_acquire"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		first := later(t, ctx, c.Lock("job"))
		second := later(t, t.Context(), c.Lock("job"))
		f.Set(nil, nil)
		cancel()
		if hold := <-first; hold != nil {
			t.Fatal("the request that was canceled has the lock")
		}
		wantNow(t, second)
	})
}

// A client is notified that the lock was left to Redisson's threads, which do not take it, and its only
// waiter gives up before its attempt reaches Redis. The next client must not wait for a poll.
func TestNotificationOfAnAttemptThatFailsIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		next, _ := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		first := later(t, ctx, c.Lock("job"))
		second := later(t, t.Context(), next.Lock("job"))
		for range 2 { // as many of Redisson's clients as of mortise's: the lock is left to them after each release
			newJavaProcess(t, s, "job").sub.Subscribe(keyspace.LockChannel("job"), false)
		}
		synctest.Wait()
		f.Set(unsent("_acquire"), nil)
		mustUnlock(t, block)
		time.Sleep(30 * time.Millisecond) // the threads' time is over, and the waiter's attempt has failed
		f.Set(nil, nil)
		cancel()
		if hold := <-first; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		wantWithin(t, second, 50*time.Millisecond) // it is left to the threads once more
	})
}

// A waiter asks for a lease of its own when its turn comes, gives up, and its attempts do not reach
// Redis. The next client must not wait until the grant ends.
func TestBriefGrantThatIsNotConfirmedIsReturned(t *testing.T) {
	for name, take := range map[string]func(*mortise.Client) taker{
		"at most":      func(c *mortise.Client) taker { return c.Lock("job").With(mortise.LockOptions{MaxHold: time.Minute}) },
		"with a token": func(c *mortise.Client) taker { return c.FencedLock("job") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				c, f := open(t, s, nil)
				next, _ := open(t, s, nil)
				block := mustTake(t, holder.Lock("job"))
				ctx, cancel := context.WithCancel(t.Context())
				first := later(t, ctx, take(c))
				second := later(t, t.Context(), next.Lock("job"))
				f.Set(unsent("_acquire"), nil)
				mustUnlock(t, block)
				synctest.Wait() // it was granted the lock, and its attempt has failed
				f.Set(nil, nil)
				cancel()
				if hold := <-first; hold != nil {
					t.Fatal("the waiter that was canceled has the lock")
				}
				wantNow(t, second)
			})
		})
	}
}

// grantLate grants the lock to a waiter whose last refusal is 2.5 s old: its next attempt
// stalls meanwhile, and is not sent. Nor is what ends with that suffix afterwards.
func grantLate(t *testing.T, f *faults, block *mortise.Hold, suffix string) {
	t.Helper()
	thaw := time.Now().Add(2500 * time.Millisecond)
	f.Set(func(ctx context.Context, name string) error {
		if stalled := time.Until(thaw); stalled > 0 {
			time.Sleep(stalled)
			return unsent("_acquire")(ctx, name)
		}
		return unsent(suffix)(ctx, name)
	}, nil)
	time.Sleep(1500 * time.Millisecond) // the waiter's poll has begun
	mustUnlock(t, block)
	time.Sleep(time.Until(thaw))
}

// A grant that comes long after the last refusal is confirmed before it is trusted. So the
// hold lasts although no renewal succeeds soon.
func TestGrantLongAfterTheRefusalIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		got := later(t, t.Context(), c.Lock("job"))
		grantLate(t, f, block, "renew")
		hold := <-got
		time.Sleep(2 * time.Second)
		wantTrusted(t, s, hold)
		mustUnlock(t, hold)
	})
}

// A waiter is granted the lock, but gives up before it has confirmed the grant. Redis must
// not keep the lock for it.
func TestGrantThatIsNotConfirmedIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		next, _ := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		got := later(t, ctx, c.Lock("job"))
		after := later(t, t.Context(), next.Lock("job"))
		grantLate(t, f, block, "_acquire")
		synctest.Wait() // its attempt to confirm the grant has failed
		cancel()
		if hold := <-got; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		wantNow(t, after)
	})
}
