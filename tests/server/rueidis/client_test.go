package rueidis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// channels is a driver.Sink that passes on what it receives.
type channels struct {
	subscribed, messages chan string
}

func (h channels) Message(_, payload string)    { h.messages <- payload }
func (h channels) Subscribed(channel string)    { h.subscribed <- channel }
func (h channels) Refused(ch string, err error) { h.subscribed <- ch + " refused: " + err.Error() }

func want(t *testing.T, from chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
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
		t.Fatalf("Eval = %v, %v, want %s", v, err, `[1 "a" nil []]`)
	}
	h := channels{make(chan string, 10), make(chan string, 10)}
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

// A reply that no script of mortise returns is an error, not a wrong value.
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

// A call that waits for a connection which a cancelled call was opening must
// not fail with the other's cancellation: it was not sent, and can be.
func TestForeignCancellation(t *testing.T) {
	server := redistest.Single(t)
	dialing := make(chan struct{})
	var hold atomic.Bool
	client, err := redis.NewClient(redis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if hold.CompareAndSwap(true, false) {
				close(dialing)
				<-ctx.Done()
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := rueidis.Wrap(client)
	defer d.Close()
	one := driver.Call{Script: driver.NewScript("one", "return 1")}
	if _, err := d.Eval(t.Context(), one); err != nil { // so that the connection is read in the background
		t.Fatal(err)
	}
	hold.Store(true)
	server.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	first, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for hold.Load() { // until a call finds the connection gone, and opens one
			client.Do(first, client.B().Ping().Build())
		}
	}()
	<-dialing
	result := make(chan error, 1)
	go func() { _, err := d.Eval(t.Context(), one); result <- err }()
	redistest.Eventually(t, "both wait for the connection", func() error {
		buf := make([]byte, 1<<20)
		if n := bytes.Count(buf[:runtime.Stack(buf, true)], []byte("(*mux)._pipe(")); n < 2 {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
	cancel()
	if err := <-result; err != nil {
		t.Errorf("a call at the same time as a cancelled one: %v", err)
	}
}
