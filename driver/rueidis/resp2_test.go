package rueidis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// hearing is a driver.Sink that passes on what it hears.
type hearing struct {
	subscribed, messages chan string
}

func (h hearing) Message(_, payload string)    { h.messages <- payload }
func (h hearing) Subscribed(channel string)    { h.subscribed <- channel }
func (h hearing) Refused(ch string, err error) { h.subscribed <- ch + " refused: " + err.Error() }

func want(t *testing.T, from chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no %q", want)
	}
}

// Servers without RESP3, such as miniredis, get a second connection for
// pub/sub from rueidis. It must work and recover like the first.
func TestRESP2(t *testing.T) {
	server := redistest.Single(t)
	client, err := redis.NewClient(redis.ClientOption{
		InitAddress: []string{server.Addr()}, AlwaysRESP2: true, DisableCache: true, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := rueidis.Wrap(client)
	defer d.Close()

	script := driver.NewScript("kinds", "return {1, 'a', false, {}}")
	v, err := d.Eval(t.Context(), driver.Call{Script: script, Keys: []string{"k"}})
	if err != nil || v.String() != `[1 "a" nil []]` {
		t.Fatalf("Eval = %v, %v", v, err)
	}
	h := hearing{make(chan string, 10), make(chan string, 10)}
	sub := d.Subscriber(h)
	defer sub.Close()
	sub.Subscribe("ch", false)
	for range 3 {
		want(t, h.subscribed, "ch")
		server.Must(t, "PUBLISH", "ch", "hello")
		want(t, h.messages, "hello")
		server.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
}

// A reply that no script of mortise gives is an error, not a wrong value.
func TestUnexpectedReply(t *testing.T) {
	server := redistest.Single(t)
	client, err := redis.NewClient(redis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := rueidis.Wrap(client)
	defer d.Close()
	for _, lua := range []string{"redis.setresp(3); return {double=1.5}", "redis.setresp(3); return {{map={a=1}}}"} {
		v, err := d.Eval(t.Context(), driver.Call{Script: driver.NewScript("odd", lua)})
		if err == nil || driver.ClassOf(err) != driver.Other {
			t.Errorf("%s: %v, %v, want an error of class other", lua, v, err)
		}
	}
}

// A call that shares the opening of a connection with one that is cancelled
// must not fail with the other's cancellation.
func TestForeignCancellation(t *testing.T) {
	server := redistest.Single(t)
	p := redistest.NewProxy(t, server.Addr())
	client, err := redis.NewClient(redis.ClientOption{
		InitAddress: []string{p.Addr()}, ForceSingleClient: true, PipelineMultiplex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := rueidis.Wrap(client)
	defer d.Close()
	call := driver.Call{Script: driver.NewScript("one", "return 1")}
	for range 20 {
		p.Delay(5 * time.Millisecond) // so that opening takes a while
		p.CutAll()
		redistest.Eventually(t, "the client has noticed", func() error { return noConnection(p) })
		first, cancel := newCancel(t)
		var calls sync.WaitGroup
		calls.Go(func() { client.Do(first, client.B().Ping().Build()) }) // it is cancelled, and may fail
		for range 10 {
			calls.Go(func() {
				if v, err := d.Eval(t.Context(), call); err != nil && driver.ClassOf(err) != driver.Unknown {
					t.Errorf("a call beside a cancelled one: %v, %v", v, err)
				}
			})
		}
		cancel()
		calls.Wait()
	}
}

func noConnection(p *redistest.Proxy) error {
	if n := p.Connections(); n != 0 {
		return fmt.Errorf("%d connections are open", n)
	}
	return nil
}

func newCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
