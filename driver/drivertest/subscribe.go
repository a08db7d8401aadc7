package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// subscribe covers a subscriber on one healthy server.
func (s suite) subscribe(t *testing.T, server *redistest.Server) {
	t.Run("messages", func(t *testing.T) {
		sub, r := subscriber(t, s.driver(t, at(server)))
		sub.Subscribe("ch", false)
		sub.Subscribe("ch", false) // has no further effect
		r.awaitSubscribed(t, "ch", 0)
		payloads := []string{"0", "", "\x00\r\n\xff é", strings.Repeat("long", 30_000)}
		for _, p := range payloads {
			if n := server.Int(t, "PUBLISH", "ch", p); n != 1 {
				t.Fatalf("PUBLISH reached %d subscribers after Subscribed, want 1", n)
			}
		}
		for _, p := range payloads {
			r.awaitMessage(t, "ch", p)
		}
		sub.Unsubscribe("ch", false)
		eventuallySubscribers(t, server, "ch", 0)
		n := r.confirmations("ch")
		sub.Subscribe("ch", false)
		r.awaitSubscribed(t, "ch", n)
		server.Must(t, "PUBLISH", "ch", "again")
		r.awaitMessage(t, "ch", "again")
	})
	t.Run("wanted anew at once", func(t *testing.T) {
		sub, r := subscriber(t, s.driver(t, at(server)))
		sub.Subscribe("anew", false)
		r.awaitSubscribed(t, "anew", 0)
		for range 100 {
			n := r.confirmations("anew")
			sub.Unsubscribe("anew", false)
			sub.Subscribe("anew", false)
			r.awaitSubscribed(t, "anew", n)
		}
		server.Must(t, "PUBLISH", "anew", "still here")
		r.awaitMessage(t, "anew", "still here")
	})
	t.Run("many channels", func(t *testing.T) { s.manyChannels(t, server) })
	t.Run("slow receiver", func(t *testing.T) { s.slowReceiver(t, server) })
	t.Run("in order", func(t *testing.T) { s.inOrder(t, server) })
	t.Run("races", func(t *testing.T) { s.races(t, server) })
	t.Run("refused", func(t *testing.T) { s.refusedChannel(t, server, func(func() int) {}) })
	t.Run("closed", func(t *testing.T) { s.closedSubscriber(t, server) })
	noSubscribers(t, server)
}

func (s suite) closedSubscriber(t *testing.T, server *redistest.Server) {
	sub, r := subscriber(t, s.driver(t, at(server)))
	sub.Subscribe("bye", false)
	r.awaitSubscribed(t, "bye", 0)
	s.promptly(t, "Close of a subscriber", func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	eventuallySubscribers(t, server, "bye", 0)
	sub.Subscribe("bye", false) // without effect or harm
	sub.Unsubscribe("bye", false)
}

// noSubscribers waits until the server has no subscribers left.
func noSubscribers(t *testing.T, server *redistest.Server) {
	t.Helper()
	redistest.Eventually(t, "no subscriber connection left", func() error {
		if n := server.Subscribers(t); n != 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// eventuallySubscribers waits until channel has n subscribers on server.
func eventuallySubscribers(t *testing.T, server *redistest.Server, channel string, n int64) {
	t.Helper()
	redistest.Eventually(t, "PUBSUB NUMSUB "+channel, func() error {
		reply, err := server.Do("PUBSUB", "NUMSUB", channel)
		if err != nil {
			return err
		}
		if got := reply.([]any)[1]; got != n {
			return fmt.Errorf("%v subscribers, want %d", got, n)
		}
		return nil
	})
}

// manyChannels: a thousand channels share one connection.
func (s suite) manyChannels(t *testing.T, server *redistest.Server) {
	const channels = 1000
	noSubscribers(t, server)
	sub, r := subscriber(t, s.driver(t, at(server)))
	for i := range channels {
		sub.Subscribe(fmt.Sprint("many:", i), false)
	}
	for i := range channels {
		r.awaitSubscribed(t, fmt.Sprint("many:", i), 0)
	}
	if got := server.Subscribers(t); got != 1 {
		t.Errorf("%d channels take %d connections, want 1", channels, got)
	}
	for i := range channels {
		server.Must(t, "PUBLISH", fmt.Sprint("many:", i), fmt.Sprint(i))
	}
	r.await(t, "message on every channel", func() bool { return len(r.messages) == channels })
	for i, m := range r.messages {
		if m != (message{fmt.Sprint("many:", i), fmt.Sprint(i)}) {
			t.Fatalf("message %d is %v, want %v", i, m, (message{fmt.Sprint("many:", i), fmt.Sprint(i)}))
		}
	}
	for i := range channels {
		sub.Unsubscribe(fmt.Sprint("many:", i), false)
	}
	for _, i := range []int{0, 500, channels - 1} {
		eventuallySubscribers(t, server, fmt.Sprint("many:", i), 0)
	}
}

// slowSink takes its time for each confirmation, as one does whose locks are contended.
type slowSink struct {
	*recorder
	each time.Duration
}

func (s slowSink) Subscribed(channel string) {
	time.Sleep(s.each)
	s.recorder.Subscribed(channel)
}

// slowReceiver: the connection is not given up while it has signs of life, however long the receiver takes for
// them. Else it would subscribe to the same channels again and again, and never to the last ones.
func (s suite) slowReceiver(t *testing.T, server *redistest.Server) {
	const channels = 640 // more than are requested at once, in more time than any reply may take
	r := newRecorder()
	sub := s.driver(t, at(server)).Subscriber(slowSink{r, 8 * time.Millisecond})
	t.Cleanup(func() { _ = sub.Close() })
	for i := range channels {
		sub.Subscribe(fmt.Sprint("slow:", i), false)
	}
	r.await(t, "confirmation of all channels", func() bool { return len(r.subscribed) == channels })
}

// inOrder: channels are subscribed and unsubscribed in the order of the calls, also on a new
// connection.
func (s suite) inOrder(t *testing.T, server *redistest.Server) {
	const channels = 600
	monitor, err := redistest.Dial(server.Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	if _, err := monitor.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range channels {
		names = append(names, fmt.Sprint("order:", i))
	}
	want := func(verb string, what string) {
		t.Helper()
		for i, name := range names {
			for {
				line, err := monitor.Receive(patience)
				if err != nil {
					t.Fatalf("%s: after %d channels: %v", what, i, err)
				}
				command := strings.Fields(strings.ToLower(strings.ReplaceAll(line.(string), `"`, "")))
				if !slices.Contains(command, verb) {
					continue
				}
				if got := command[len(command)-1]; got != name {
					t.Fatalf("%s: %s of %s after %d channels, want %s", what, verb, got, i, name)
				}
				break
			}
		}
	}
	sub, r := subscriber(t, s.driver(t, at(server)))
	for _, name := range names {
		sub.Subscribe(name, false)
	}
	want("subscribe", "wanted")
	r.awaitSubscribed(t, names[channels-1], 0)
	server.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
	want("subscribe", "after the connection was lost")
	for _, name := range names {
		sub.Unsubscribe(name, false)
	}
	want("unsubscribe", "not wanted")
}

// races: after concurrent changes, the last one counts.
func (s suite) races(t *testing.T, server *redistest.Server) {
	sub, r := subscriber(t, s.driver(t, at(server)))
	const channels, rounds = 20, 100
	var wg sync.WaitGroup
	for i := range channels {
		wg.Go(func() {
			ch := fmt.Sprint("race:", i)
			for range rounds {
				sub.Subscribe(ch, false)
				sub.Unsubscribe(ch, false)
			}
			if i%2 == 0 {
				sub.Subscribe(ch, false)
			}
		})
	}
	wg.Wait()
	for i := range channels {
		ch := fmt.Sprint("race:", i)
		eventuallySubscribers(t, server, ch, int64(1-i%2))
		if i%2 == 0 {
			server.Must(t, "PUBLISH", ch, "end")
			r.awaitMessage(t, ch, "end")
		}
	}
}

// refusedChannel: a channel that the user may not subscribe to does not disturb the others. When the right was
// granted, meanwhile may look how often a refused channel was confirmed.
func (s suite) refusedChannel(t *testing.T, server *redistest.Server, meanwhile func(confirmed func() int)) {
	target := withUser(t, at(server), "listener", "~* resetchannels &app:* +@all", server)
	sub, r := subscriber(t, s.driver(t, target))
	for _, ch := range []string{"app:1", "foreign:1", "app:2", "foreign:2", "app:3"} {
		sub.Subscribe(ch, false)
	}
	for _, ch := range []string{"app:1", "app:2", "app:3"} {
		r.awaitSubscribed(t, ch, 0)
	}
	r.await(t, "refusal", func() bool { return len(r.refused) == 2 })
	for _, ch := range []string{"foreign:1", "foreign:2"} {
		wantClass(t, r.refused[ch], driver.Denied)
		if r.confirmations(ch) != 0 {
			t.Errorf("%s is refused and confirmed", ch)
		}
	}
	// The right is granted, but the driver asks again only when the channel is wanted anew.
	server.Must(t, "ACL", "SETUSER", target.Username, "&foreign:*")
	meanwhile(func() int { return r.confirmations("foreign:1") + r.confirmations("foreign:2") })
	sub.Unsubscribe("foreign:1", false)
	sub.Subscribe("foreign:1", false)
	r.awaitSubscribed(t, "foreign:1", 0)
	if n := r.confirmations("foreign:2"); n != 0 {
		t.Errorf("another channel that was refused was asked for again")
	}
}

// resubscribe: after every way to lose a subscription comes a new Subscribed.
func (s suite) resubscribe(t *testing.T, server *redistest.Server) {
	t.Run("killed connection", func(t *testing.T) { s.killedConnection(t, server) })
	t.Run("server that comes later", func(t *testing.T) { s.serverThatComesLater(t, server) })
}

// subscribed returns what two channels of d receive, re:1 and re:2.
func subscribed(t *testing.T, d driver.Driver) *recorder {
	t.Helper()
	sub, r := subscriber(t, d)
	sub.Subscribe("re:1", false)
	sub.Subscribe("re:2", false)
	r.awaitSubscribed(t, "re:1", 0)
	r.awaitSubscribed(t, "re:2", 0)
	return r
}

// wantResubscribed waits until each of these channels is confirmed more than n times, and then for a
// message.
func wantResubscribed(t *testing.T, server *redistest.Server, r *recorder, n int, payload string) {
	t.Helper()
	for _, ch := range []string{"re:1", "re:2"} {
		r.awaitSubscribed(t, ch, n)
		server.Must(t, "PUBLISH", ch, payload)
		r.awaitMessage(t, ch, payload)
	}
}

func (s suite) killedConnection(t *testing.T, server *redistest.Server) {
	r := subscribed(t, s.driver(t, at(server)))
	for i := range 3 {
		n := max(r.confirmations("re:1"), r.confirmations("re:2"))
		server.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		wantResubscribed(t, server, r, n, fmt.Sprint("kill ", i))
	}
}

func (s suite) serverThatComesLater(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, 0)
	eval(t, d, incr, []string{"re:first"})
	p.Refuse()
	p.CutAll()
	sub, r := subscriber(t, d)
	sub.Subscribe("re:1", false)
	sub.Subscribe("re:2", false)
	p.Accept(t)
	wantResubscribed(t, server, r, 0, "later")
}
