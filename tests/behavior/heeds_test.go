package behavior

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// marked is a driver that checks that a client never listens to a channel of Redisson's
// without the mark that tells it from Redisson's threads.
type marked struct {
	driver.Driver
	t *testing.T

	mu     sync.Mutex
	wanted map[string]bool
	pairs  int // channels that had a mark
}

func (m *marked) Subscriber(sink driver.Sink) driver.Subscriber {
	return &markedSubscriber{m.Driver.Subscriber(sink), m}
}

type markedSubscriber struct {
	driver.Subscriber
	m *marked
}

func (s *markedSubscriber) Subscribe(channel string, sharded bool) {
	s.m.note(channel, true)
	s.Subscriber.Subscribe(channel, sharded)
}

func (s *markedSubscriber) Unsubscribe(channel string, sharded bool) {
	s.m.note(channel, false)
	s.Subscriber.Unsubscribe(channel, sharded)
}

func (m *marked) note(channel string, wanted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted[channel] = wanted
	marks, isMark := strings.CutPrefix(channel, keyspace.Heeds(""))
	switch {
	case isMark && !wanted && m.wanted[marks]:
		m.t.Errorf("the mark of %s ends before the subscription", marks)
	case isMark && wanted && m.wanted[marks]:
		m.t.Errorf("the mark of %s begins after the subscription", marks)
	case isMark && wanted:
		m.pairs++
	}
}

// Redisson's threads are counted by the subscriptions without a mark. A client that listened
// without one even for a moment would be taken for them, and the lock left to nobody.
func TestSubscriptionsAreMarkedThroughout(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		m := &marked{Driver: s.Driver(), t: t, wanted: map[string]bool{}}
		c := mortise.New(m, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		hold, _, err := k.Open(other, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for range 2 {
			waiters.Go(func() {
				if _, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx); err == nil {
					t.Error("acquired a lock that is held")
				}
			})
		}
		synctest.Wait()
		cancel()
		waiters.Wait()
		mustUnlock(t, hold)
		m.mu.Lock()
		defer m.mu.Unlock()
		listens := false
		for channel := range m.wanted {
			listens = listens || strings.HasPrefix(channel, "redisson_") && !strings.HasPrefix(channel, "redisson_lock_queue")
		}
		if listens && m.pairs == 0 {
			t.Errorf("no subscription has a mark: %v", m.wanted)
		}
	})
}
