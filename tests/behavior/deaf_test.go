package behavior

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A client that is subscribed, and whose messages are all lost, has its turns, and
// costs the others a second at first and little from then on.
func TestDeafClientCostsLittle(t *testing.T) {
	t.Parallel()
	lease := mortise.LockOptions{MaxHold: 20 * time.Second} // which cannot be granted
	for name, test := range map[string]struct {
		kind    string
		options mortise.LockOptions
		own     int64
	}{
		"Lock": {kind: "Lock", own: 50}, "FairLock": {kind: "FairLock", own: 50}, "FairLock that is told": {"FairLock", lease, 50},
		// The lock is free for the next one.
		"Lock that is told": {"Lock", lease, 0}, "FencedLock": {kind: "FencedLock"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				deaf, f, p := openPost(t, s)
				p.set(func(string, string) (time.Duration, bool) { return 0, true })
				clients := []*mortise.Client{deaf}
				for range 2 {
					c, _ := open(t, s, nil)
					clients = append(clients, c)
				}
				const held, long = 10 * time.Millisecond, 10 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				var all sync.WaitGroup
				turns := make([]atomic.Int64, len(clients))
				for i, c := range clients {
					all.Go(func() {
						for ctx.Err() == nil {
							hold, _, err := kinds[test.kind].Open(c, "job", test.options).Lock(ctx)
							if err != nil {
								if ctx.Err() == nil {
									t.Error(err)
								}
								return
							}
							turns[i].Add(1)
							time.Sleep(held)
							mustUnlock(t, hold)
						}
					})
				}
				all.Wait()
				own, others := turns[0].Load(), turns[1].Load()+turns[2].Load()
				t.Logf("the deaf client had the lock %d times, the others %d times; it asked %d times", own, others, f.Total())
				// Ten a second of each: what a look of a tenth of a second in each turn leaves.
				if own < test.own || others < 100 {
					t.Errorf("the deaf client had the lock %d times, the others %d times, want %d and 100 at least", own, others, test.own)
				}
			})
		})
	}
}

// A client that receives messages again looks as rarely as others.
func TestDeafClientThatHearsAgain(t *testing.T) {
	takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
		holder, _ := open(t, s, nil)
		c, f, p := openPost(t, s)
		for _, deaf := range []bool{true, true, false} {
			block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
			p.set(func(string, string) (time.Duration, bool) { return 0, deaf })
			got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
			time.Sleep(600 * time.Millisecond)
			mustUnlock(t, block)
			mustUnlock(t, <-got)
		}
		block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
		got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
		before := f.Total()
		time.Sleep(10 * time.Second)
		if n := f.Total() - before; n > 15 {
			t.Errorf("a client that receives messages asked %d times in ten seconds, want about once a second", n)
		}
		start := time.Now()
		mustUnlock(t, block)
		mustUnlock(t, <-got)
		if d := time.Since(start); d > 0 {
			t.Errorf("it had the lock %v after the release, want at once", d)
		}
	})
}

// A message that was lost has the client open its channel anew, once.
func TestDeafClientListensAnew(t *testing.T) {
	takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
		holder, _ := open(t, s, nil)
		var opened atomic.Int64
		p := &post{Driver: s.Driver()}
		c := mortise.New(counting{p, &opened}, nil)
		t.Cleanup(func() { _ = c.Close() })
		p.set(func(string, string) (time.Duration, bool) { return 0, true })
		for range 3 {
			block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
			got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
			time.Sleep(600 * time.Millisecond)
			mustUnlock(t, block)
			mustUnlock(t, <-got)
		}
		if n := opened.Load(); n != 2 {
			t.Errorf("the client opened its channel %d times, want once, and once more after a message that was lost", n)
		}
	})
}

// counting is a driver that counts how often the channel of a client is opened.
type counting struct {
	*post
	opened *atomic.Int64
}

type countingSubscriber struct {
	driver.Subscriber
	opened *atomic.Int64
}

func (c counting) Subscriber(sink driver.Sink) driver.Subscriber {
	return countingSubscriber{c.post.Subscriber(sink), c.opened}
}

func (c countingSubscriber) Subscribe(channel string, sharded bool) {
	if strings.Contains(channel, "turn:") {
		c.opened.Add(1)
	}
	c.Subscriber.Subscribe(channel, sharded)
}
