package goredis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// events is a driver.Sink. Its channels have room for all that a test awaits.
type events struct{ subscribed, refused, messages chan string }

func newEvents() events {
	return events{make(chan string, 100), make(chan string, 100), make(chan string, 100)}
}

func (e events) Subscribed(channel string)         { e.subscribed <- channel }
func (e events) Refused(channel string, err error) { e.refused <- channel + ": " + err.Error() }
func (e events) Message(channel, payload string)   { e.messages <- channel + ": " + payload }

// next returns the next event, or fails the test if none comes.
func next(t *testing.T, what string, from <-chan string) string {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(time.Minute):
		t.Fatalf("no %s within a minute", what)
		return ""
	}
}

// TestEachSubscribeIsAnswered: also for a channel that is subscribed already.
func TestEachSubscribeIsAnswered(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	sink := newEvents()
	sub := wrap(t, redis.NewClient(&redis.Options{Addr: server.Addr()})).Subscriber(sink)
	for range 5 {
		sub.Subscribe("ch", false)
		next(t, "confirmation", sink.subscribed)
	}
	if got := server.Subscribers(t); got != 1 {
		t.Errorf("%d subscriber connections, want 1", got)
	}
}

// TestQuietSubscription: while nothing is published, signs of life keep the
// connection, in both protocols.
func TestQuietSubscription(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			server.Must(t, "ACL", "SETUSER", "default", "resetchannels", "&ch")
			pings := func() (calls int) {
				stat, err := server.Info("commandstats", "cmdstat_ping")
				if _, scanErr := fmt.Sscanf(stat, "calls=%d,", &calls); err != nil || scanErr != nil {
					t.Fatalf("commandstats: %q, %v, %v", stat, err, scanErr)
				}
				return calls
			}
			sink := newEvents()
			sub := wrap(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol})).Subscriber(sink)
			sub.Subscribe("foreign", false)
			sub.Subscribe("ch", false)
			next(t, "confirmation", sink.subscribed)
			if got := next(t, "refusal", sink.refused); !strings.HasPrefix(got, "foreign: NOPERM") {
				t.Errorf("refused: %q", got)
			}
			before := pings()
			redistest.Eventually(t, "more pings than come before a silent connection is given up", func() error {
				if n := pings() - before; n < 4 {
					return fmt.Errorf("%d came", n)
				}
				return nil
			})
			if n := len(sink.subscribed); n != 0 {
				t.Errorf("the connection was replaced %d times, want 0", n)
			}
			server.Must(t, "PUBLISH", "ch", "hello")
			if got := next(t, "message", sink.messages); got != "ch: hello" {
				t.Errorf("received %q, want %q", got, "ch: hello")
			}
		})
	}
}

// TestShardDoesNoIO, nor does Wrap, and no node is asked for its commands.
func TestShardDoesNoIO(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 0)
	var dials atomic.Int64
	d := wrap(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}))
	if got := d.Shard("key"); got != "" || dials.Load() != 0 {
		t.Errorf("Shard = %q after %d dials, want none and none", got, dials.Load())
	}
	if _, err := d.Eval(t.Context(), callIncr("key")); err != nil {
		t.Fatal(err)
	}
	before := dials.Load()
	if got, want := d.Shard("key"), c.Owner(t, "key").Addr(); got != want || dials.Load() != before {
		t.Errorf("Shard = %q after %d dials, want %q without any", got, dials.Load()-before, want)
	}
	for _, m := range c.Masters {
		if got, err := m.Info("commandstats", "cmdstat_command"); err != nil || got != "" {
			t.Errorf("%s was asked for COMMAND: %q, %v, want %q", m.Addr(), got, err, "")
		}
	}
}

// TestClusterClientOfAPlainServer: the type of the client is that of a cluster,
// as of redis.NewFailoverClusterClient, but the server is none.
func TestClusterClientOfAPlainServer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	d := wrap(t, redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: server.Addr()}}}}, nil
		},
	}))
	if got, err := d.Topology(t.Context()); err != nil || got != (driver.Topology{}) {
		t.Errorf("Topology = %+v, %v, want no cluster", got, err)
	}
	if v, err := d.Eval(t.Context(), callIncr("k")); err != nil || v.Int() != 1 {
		t.Errorf("Eval = %v, %v, want 1", v, err)
	}
	sink := newEvents()
	d.Subscriber(sink).Subscribe("ch", false)
	next(t, "confirmation", sink.subscribed)
	server.Must(t, "PUBLISH", "ch", "hello")
	if got := next(t, "message", sink.messages); got != "ch: hello" {
		t.Errorf("received %q, want %q", got, "ch: hello")
	}
}
