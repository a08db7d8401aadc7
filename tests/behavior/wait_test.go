package behavior

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestTenThousandWaitersCostOneContender(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const waiters = 10_000
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		const rounds = 500 // holders before the others are sent home
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var got int
		for range waiters {
			all.Go(func() {
				hold, _, err := c.Lock("job").Lock(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				// Protected by the lock under test; -race looks on.
				if got++; got == rounds {
					cancel()
				}
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := f.Total(); n > 10 {
			t.Errorf("%d waiters sent %d scripts, want those of one contender", waiters, n)
		}
		start := f.Total()
		time.Sleep(20 * time.Second)
		if n := f.Total() - start; n > 25 {
			t.Errorf("waiting for 20s took %d scripts, want about one a second", n)
		}
		start = f.Total()
		mustUnlock(t, block)
		all.Wait()
		if got < rounds {
			t.Errorf("%d acquisitions, want %d at least", got, rounds)
		}
		if n := f.Total() - start; n > 2*got+got/10 {
			t.Errorf("%d acquisitions took %d scripts, want 2 each", got, n)
		}
		synctest.Wait() // what was granted to a waiter that was sent home is released without it
		wantState(t, c.Lock("job"), "", 0)
	})
}

func TestGoroutinesOfOneClientComeInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		first, _ := mustLock(t, k, t.Context())
		var order []int
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				hold, _, err := k.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				mustUnlock(t, hold)
			})
			synctest.Wait() // it is in the queue now
		}
		start := time.Now()
		mustUnlock(t, first)
		all.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("it took them %v, want each woken by the one before", d)
		}
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("the order was %v, want first come, first served", order)
		}
	})
}

func TestWaiterThatGivesUpLetsTheNextThrough(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		gaveUp := make(chan error)
		go func() {
			_, _, err := k.Lock(ctx)
			gaveUp <- err
		}()
		synctest.Wait()
		got := make(chan *mortise.Hold)
		go func() {
			hold, _, err := k.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		synctest.Wait()
		bored := errors.New("bored")
		cancel(bored)
		err := <-gaveUp
		var held *mortise.HeldError
		if !errors.Is(err, context.Canceled) || !errors.Is(err, bored) || !errors.As(err, &held) || held.Owner != block.Owner() {
			t.Errorf("a cancelled wait: %v, want the context's error, its cause and the holder", err)
		}
		mustUnlock(t, block)
		mustUnlock(t, <-got)
	})
}

func TestDeadlineIsTheWaitLimit(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, _ := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, after, err := c.Lock("job").Lock(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrLocked) || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v, want the deadline's error and ErrLocked after 3s", time.Since(start), err)
		}
		if after != ctx {
			t.Error("a failed Lock did not return the caller's context")
		}
		mustUnlock(t, block)
	})
}

// deafDriver is a driver whose subscriptions are never confirmed and receive
// nothing: every message is lost.
type deafDriver struct{ driver.Driver }

type deafSubscriber struct{}

func (deafDriver) Subscriber(driver.Sink) driver.Subscriber { return deafSubscriber{} }

func (deafSubscriber) Subscribe(string, bool) {}

func (deafSubscriber) Unsubscribe(string, bool) {}

func (deafSubscriber) Close() error { return nil }

// muteDriver is a driver for a server without subscriptions.
type muteDriver struct{ driver.Driver }

var errMute = &driver.Error{Class: driver.Other, Err: errors.New("ERR unknown command 'subscribe'")}

type muteSubscriber struct {
	deafSubscriber
	sink    driver.Sink
	running *sync.WaitGroup
}

func (muteDriver) Subscriber(sink driver.Sink) driver.Subscriber {
	return muteSubscriber{sink: sink, running: new(sync.WaitGroup)}
}

func (s muteSubscriber) Subscribe(channel string, _ bool) {
	s.running.Go(func() { s.sink.Refused(channel, errMute) })
}

func (s muteSubscriber) Close() error {
	s.running.Wait()
	return nil
}

// wantNoticed checks that a waiter for what block has notices its release, of
// which no message tells, within most.
func wantNoticed(t *testing.T, block *mortise.Hold, most time.Duration, wait func(context.Context) (*mortise.Hold, context.Context, error)) {
	t.Helper()
	got := make(chan *mortise.Hold)
	go func() {
		hold, _, err := wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- hold
	}()
	time.Sleep(5 * time.Second)
	start := time.Now()
	mustUnlock(t, block)
	hold := <-got
	if d := time.Since(start); d > most {
		t.Errorf("without messages the waiter noticed the release after %v, want %v at most", d, most)
	}
	mustUnlock(t, hold)
}

func TestLostMessageCostsAMomentNotALease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		for range 20 {
			block, _ := mustLock(t, other.Lock("job"), t.Context())
			wantNoticed(t, block, 1100*time.Millisecond, c.Lock("job").Lock)
		}
	})
}

func TestWaiterGetsTheLockWhenADeadHoldersLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		mustLock(t, dead.Lock("job"), t.Context())
		if err := dead.Close(); err != nil { // abandons the hold, as a crash does
			t.Fatal(err)
		}
		c, _ := open(t, s, nil)
		start := time.Now()
		hold, _ := mustLock(t, c.Lock("job"), t.Context())
		if d := time.Since(start); d < 7*time.Second || d > 7*time.Second+10*time.Millisecond {
			t.Errorf("acquired after %v, want as soon as the lease of 7s is over", d)
		}
		mustUnlock(t, hold)
	})
}

func TestForgedMessagesDoNotMakeAHerd(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := make(chan error)
		go func() {
			_, _, err := c.Lock("job").Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		wantCalmUnderForgery(t, s, f, "redisson_lock__channel:{job}", "0")
		if err := <-done; !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("the waiter got %v, want ErrLocked", err)
		}
		mustUnlock(t, block)
	})
}

// wantCalmUnderForgery publishes 2000 forged messages within a second, and
// checks that they make the client of f, which waits, ask Redis 200 times at
// most.
func wantCalmUnderForgery(t *testing.T, s *memredis.Server, f *faults, channel string, payloads ...string) {
	t.Helper()
	before := f.Total()
	forger := &forgery{Driver: s.Driver()}
	for i := range 2000 { // two per millisecond
		forger.publish(t, channel, payloads[i%len(payloads)])
		time.Sleep(500 * time.Microsecond)
	}
	if n := f.Total() - before; n > 220 {
		t.Errorf("2000 forged messages in a second caused %d attempts, want 200 at most", n)
	}
	if err := forger.Close(); err != nil {
		t.Error(err)
	}
}

type forgery struct{ driver.Driver }

var publish = driver.NewScript("publish", `return redis.call('publish', ARGV[1], ARGV[2])`)

func (f *forgery) publish(t *testing.T, channel, payload string) {
	t.Helper()
	if _, err := f.Eval(t.Context(), driver.Call{Script: publish, Keys: []string{"job"}, Args: []string{channel, payload}}); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedSubscriptionIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		c := mortise.New(refusingDriver{s.Driver()}, nil)
		defer c.Close()
		if _, _, err := c.Lock("job").Lock(t.Context()); !errors.Is(err, mortise.ErrDenied) {
			t.Errorf("Lock without the right to subscribe: %v, want ErrDenied", err)
		}
		mustUnlock(t, block)
	})
}

// refusingDriver is a driver whose user may not subscribe.
type refusingDriver struct{ driver.Driver }

type refusingSubscriber struct{ sink driver.Sink }

func (refusingDriver) Subscriber(s driver.Sink) driver.Subscriber { return refusingSubscriber{s} }

func (s refusingSubscriber) Subscribe(channel string, _ bool) {
	go s.sink.Refused(channel, driver.ReplyError(errors.New("NOPERM"), "NOPERM No permissions to access a channel"))
}

func (refusingSubscriber) Unsubscribe(string, bool) {}

func (refusingSubscriber) Close() error { return nil }

// The waiter behind one that gives up asks by itself from then on: the lease in the way may end
// without any message.
func TestWaiterBehindOneThatGaveUpLooksForItself(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				dead, _ := open(t, s, nil)
				c, _ := open(t, s, nil)
				must(t, k.Open(dead, "job", mortise.LockOptions{}), t.Context())
				died := time.Now()
				_ = dead.Close()
				ctx, cancel := context.WithCancel(t.Context())
				first := later(t, ctx, k.Open(c, "job", mortise.LockOptions{}))
				second := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				cancel()
				<-first
				select {
				case hold := <-second:
					if d := time.Since(died); d > 30*time.Second+slack(name) {
						t.Errorf("the second has it after %v, want it at the end of the lease of 30s", d)
					}
					mustUnlock(t, hold)
				case <-time.After(time.Minute):
					t.Error("the second waits on although the lock is free")
				}
			})
		})
	}
}
