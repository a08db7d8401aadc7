package memredis_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// ears is a sink that records what it receives.
type ears struct {
	mu    sync.Mutex
	heard []string
}

func (e *ears) note(s string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, s)
}

func (e *ears) Message(channel, payload string)   { e.note(channel + ": " + payload) }
func (e *ears) Subscribed(channel string)         { e.note("subscribed " + channel) }
func (e *ears) Refused(channel string, err error) { e.note("refused " + channel) }

// want checks what was received since the last call, in any order, once everything has happened
// that can happen without the passing of time.
func (e *ears) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := slices.Sorted(slices.Values(e.heard))
	e.heard = nil
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

func subscribed(t *testing.T, f func(t *testing.T, s *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears)) {
	t.Helper()
	bubble(t, func(t *testing.T, s *memredis.Server, d driver.Driver) {
		e := &ears{}
		sub := d.Subscriber(e)
		defer sub.Close()
		f(t, s, d, sub, e)
	})
}

func TestSubscribe(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		sub.Subscribe("b", false)
		e.want(t, "subscribed a", "subscribed b")
		time.Sleep(time.Hour)
		eval(t, d, call(tell, "a", "0"))
		eval(t, d, call(tell, "c", "0"))
		eval(t, d, call(tell, "b", "1 2"))
		e.want(t, "a: 0", "b: 1 2")
		sub.Unsubscribe("a", false)
		e.want(t)
		if n := eval(t, d, call(tell, "a", "0")).Int(); n != 0 {
			t.Errorf("%d connections listen to a channel that was left", n)
		}
		eval(t, d, call(tell, "b", "0"))
		e.want(t, "b: 0")
	})
}

// Each request is answered, also for a channel that is already subscribed or was left a moment ago.
func TestEachSubscribeIsAnswered(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		e.want(t, "subscribed a")
		sub.Subscribe("a", false)
		e.want(t, "subscribed a")
		sub.Unsubscribe("a", false)
		sub.Subscribe("a", false)
		e.want(t, "subscribed a")
		eval(t, d, call(tell, "a", "0"))
		e.want(t, "a: 0")
	})
}

// The classic and the sharded channel of one name are two: the server has only the former, and
// unsubscribing from the latter does not affect it.
func TestShardedIsRefused(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		sub.Subscribe("a", true)
		e.want(t, "subscribed a", "refused a")
		sub.Unsubscribe("a", true)
		e.want(t)
		eval(t, d, call(tell, "a", "0"))
		e.want(t, "a: 0")
	})
}

// A connection that the server closes is replaced, and every channel confirmed again, because
// messages may have been missed.
func TestResubscribes(t *testing.T) {
	subscribed(t, func(t *testing.T, s *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		sub.Subscribe("b", false)
		e.want(t, "subscribed a", "subscribed b")
		drop := true
		s.Hook(func(command string, args []string) bool {
			if command == "SUBSCRIBE" && args[0] == "poison" && drop {
				drop = false
				return false
			}
			return true
		})
		sub.Subscribe("poison", false)
		time.Sleep(time.Second)
		e.want(t, "subscribed a", "subscribed b", "subscribed poison")
		eval(t, d, call(tell, "a", "0"))
		e.want(t, "a: 0")
	})
}

// Changes that cancel each other out must not break the connection.
func TestManyChangesThatCancelOut(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		e.want(t, "subscribed a")
		for i := range 300 {
			sub.Unsubscribe(fmt.Sprint("never wanted ", i), false)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		e.want(t) // no new confirmation, so no new connection
		eval(t, d, call(tell, "a", "0"))
		e.want(t, "a: 0")
	})
}

func TestSubscriberClose(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, d driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Subscribe("a", false)
		e.want(t, "subscribed a")
		for range 2 {
			if err := sub.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		synctest.Wait() // the server notices that the connection is closed
		if n := eval(t, d, call(tell, "a", "0")).Int(); n != 0 {
			t.Errorf("%d connections listen after Close", n)
		}
		time.Sleep(time.Minute)
		e.want(t)
	})
}

func TestUnusedSubscriberClose(t *testing.T) {
	subscribed(t, func(t *testing.T, _ *memredis.Server, _ driver.Driver, sub driver.Subscriber, e *ears) {
		sub.Unsubscribe("a", false)
		if err := sub.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		e.want(t)
	})
}

func TestSubscribeInOrder(t *testing.T) {
	subscribed(t, func(t *testing.T, s *memredis.Server, _ driver.Driver, sub driver.Subscriber, _ *ears) {
		const channels, cuts = 50, "cuts the connection"
		var mu sync.Mutex
		var got []string
		s.Hook(func(command string, args []string) bool {
			mu.Lock()
			defer mu.Unlock()
			if args[0] == cuts {
				return false
			}
			got = append(got, command+" "+args[0])
			return true
		})
		check := func(what, verb string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var want []string
			for i := range channels {
				want = append(want, fmt.Sprint(verb, " ", i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
			got = nil
		}
		for i := range channels {
			sub.Subscribe(fmt.Sprint(i), false)
		}
		check("wanted", "SUBSCRIBE")
		sub.Subscribe(cuts, false)
		synctest.Wait()
		sub.Unsubscribe(cuts, false)
		time.Sleep(time.Second)
		check("after the connection was cut", "SUBSCRIBE")
		for i := range channels {
			sub.Unsubscribe(fmt.Sprint(i), false)
		}
		check("not wanted", "UNSUBSCRIBE")
	})
}
