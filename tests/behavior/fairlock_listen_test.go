package behavior

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// slowToListen is a driver whose subscriptions are confirmed, and begin, after a delay.
type slowToListen struct {
	driver.Driver
	delay time.Duration
}

type slowSubscriber struct {
	driver.Subscriber
	delay time.Duration
}

func (d slowToListen) Subscriber(sink driver.Sink) driver.Subscriber {
	return slowSubscriber{d.Driver.Subscriber(sink), d.delay}
}

func (s slowSubscriber) Subscribe(channel string, sharded bool) {
	time.AfterFunc(s.delay, func() { s.Subscriber.Subscribe(channel, sharded) })
}

// A client begins to listen after the lock became free, and before the only waiter that is
// left knows its place: no message tells that waiter to ask.
func TestFairWaiterWithoutAPlaceAsksWhenTheClientListens(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		f := &faults{Driver: slowToListen{s.Driver(), 300 * time.Millisecond}}
		c := mortise.New(f, nil)
		defer c.Close()
		held := fairly(t, other)
		var asked atomic.Int32
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "fair_acquire" && asked.Add(1) == 2 {
				time.Sleep(300 * time.Millisecond) // until the client listens
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		first := later(t, ctx, c.FairLock("job"))
		time.Sleep(100 * time.Millisecond)
		second := later(t, t.Context(), c.FairLock("job"))
		cancel()
		if hold := <-first; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		time.Sleep(100 * time.Millisecond)
		mustUnlock(t, held)
		start := time.Now()
		hold := <-second
		if d := time.Since(start); d > 250*time.Millisecond {
			t.Errorf("the waiter has the lock %v after its release, want when it knows its place", d)
		}
		mustUnlock(t, hold)
	})
}
