package rueidis

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
)

// The nodes of a cluster. Low serves the lower half of the slots, high the upper half.
const (
	low, high = "10.0.0.1:6379", "10.0.0.2:6379"

	ofLow, ofHigh = "bar", "foo" // keys in the slots 5061 and 12182

	mapOfSlots = "*2\r\n" +
		"*3\r\n:0\r\n:8191\r\n*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n" +
		"*3\r\n:8192\r\n:16383\r\n*2\r\n$8\r\n10.0.0.2\r\n:6379\r\n"
)

// twoNodes is a cluster that replies to each script with 1.
type twoNodes struct {
	admit chan struct{}          // closed: high takes connections
	slots atomic.Pointer[string] // the reply to CLUSTER SLOTS
}

func (n *twoNodes) dial(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if addr == high {
		<-n.admit
	}
	client, server := net.Pipe()
	go n.serve(server)
	return client, nil
}

func (n *twoNodes) serve(conn net.Conn) {
	defer conn.Close()
	for r := bufio.NewReader(conn); ; {
		command, err := resp.Read(r)
		if err != nil {
			return
		}
		reply := ":1\r\n"
		switch command.At(0).Str() {
		case "HELLO":
			reply = "-ERR unknown command 'HELLO'\r\n"
		case "CLUSTER":
			reply = *n.slots.Load()
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// closedButForHigh runs f in virtual time with the driver of a client of a cluster that was closed
// while it connected to high, and uses that connection all the same.
func closedButForHigh(t *testing.T, f func(t *testing.T, nodes *twoNodes, d *Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, slots := &twoNodes{admit: make(chan struct{})}, mapOfSlots
		nodes.slots.Store(&slots)
		client, err := redis.NewClient(redis.ClientOption{
			InitAddress: []string{low}, DialCtxFn: nodes.dial,
			AlwaysRESP2: true, DisableCache: true, ClientSetInfo: redis.DisableClientSetInfo,
		})
		if err != nil {
			t.Fatal(err)
		}
		d := Wrap(client)
		defer func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second) // until the client has read the map of slots for the last time
			client.Close()              // the connection to high too
		}()
		if err := eval(d, ofLow); err != nil {
			t.Fatal(err)
		}
		ping := func() error {
			node := client.Nodes()[high]
			return node.Do(context.Background(), node.B().Ping().Build()).Error()
		}
		go ping() //nolint:errcheck // it only makes the client connect
		synctest.Wait()
		client.Close()
		synctest.Wait()
		close(nodes.admit)
		synctest.Wait()
		if err := ping(); err != nil {
			t.Fatalf("the closed client does not use its new connection: %v", err)
		}
		f(t, nodes, d)
	})
}

var one = driver.NewScript("one", "return 1")

// eval runs a script inline: a job would be reused in another bubble.
func eval(d *Driver, key string) error {
	_, err := d.Eval(context.Background(), driver.Call{Script: one, Keys: []string{key}})
	return err
}

func evalWait(d *Driver, key string) error {
	return d.EvalWait(context.Background(), []driver.Call{{Script: one, Keys: []string{key}}}, driver.Wait{Replicas: 1, Timeout: time.Second})[0].Err
}

// soon is when a closed client must be said to be closed.
const soon = time.Second

// saidToBeClosed calls f as often as callers do that try again, and fails the test unless f soon
// fails because the client is closed. It calls others in between.
func saidToBeClosed(t *testing.T, f func() error, others ...func() error) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil {
			t.Fatal("a command of a closed client succeeded")
		}
		if class := driver.ClassOf(err); class == driver.Closed {
			return
		} else if class != driver.Unknown {
			t.Fatalf("%v has class %v, want %v or %v", err, class, driver.Unknown, driver.Closed)
		}
		if took := time.Since(start); took > soon {
			t.Fatalf("after %v a closed client is not said to be closed: %v", took, err)
		}
		for _, other := range others {
			if err := other(); err != nil {
				t.Fatalf("another command: %v", err)
			}
		}
	}
}

// TestClosedClient: what other nodes reply does not hide that the client is closed.
func TestClosedClient(t *testing.T) {
	t.Run("the map of slots is read", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error { return eval(d, ofLow) })
		})
	})
	t.Run("the map of slots is read by others", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error { return eval(d, ofLow) },
				func() error { return d.slots.refresh(context.Background()) })
		})
	})
	t.Run("the map of slots is refused", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, nodes *twoNodes, d *Driver) {
			loading := "-LOADING Redis is loading the dataset in memory\r\n"
			nodes.slots.Store(&loading)
			saidToBeClosed(t, func() error { return eval(d, ofLow) })
		})
	})
	t.Run("scripts of another node run", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error { return eval(d, ofLow) }, func() error { return eval(d, ofHigh) })
		})
	})
	t.Run("a batch has scripts of another node", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error {
				results := d.Batch(context.Background(), []driver.Call{
					{Script: one, Keys: []string{ofLow}}, {Script: one, Keys: []string{ofHigh}},
				})
				if err := results[1].Err; err != nil {
					return fmt.Errorf("of the open node: %w", err)
				}
				return results[0].Err
			})
		})
	})
	t.Run("scripts without WAIT run", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error { return evalWait(d, ofHigh) }, func() error { return eval(d, ofHigh) })
		})
	})
	t.Run("the keys of all nodes are scanned", func(t *testing.T) {
		closedButForHigh(t, func(t *testing.T, _ *twoNodes, d *Driver) {
			saidToBeClosed(t, func() error {
				ctx, cancel := context.WithTimeout(context.Background(), soon)
				defer cancel()
				return d.Scan(ctx, "*", func([]string) error { return nil })
			})
		})
	})
}

// TestClosings: a client that replaces connections now and then is not taken for a closed one.
func TestClosings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := route{pipeline: &nodePipeline{}}, route{pipeline: &nodePipeline{}}
		var c closings
		reported := func(r route, after, want time.Duration) {
			t.Helper()
			time.Sleep(after)
			if got := c.reported(r); got != want {
				t.Errorf("reported for %v, want %v", got, want)
			}
		}
		reported(a, 0, 0)
		reported(a, swapped, swapped)
		reported(a, apart, swapped+apart)
		reported(b, 0, 0)
		c.other(b)
		reported(a, swapped, 2*swapped+apart)
		reported(b, 0, 0)
		c.other(a)
		reported(a, swapped, 0)
		reported(b, 0, swapped)
		reported(a, apart+1, 0)
		c.other(a) // forgets b too, as that is long ago
		if c.some.Load() {
			t.Errorf("%d routes are remembered, want none", len(c.routes))
		}
		for range 2 {
			reported(route{}, swapped, 0)
			c.other(route{}) // of another node, perhaps
			reported(route{}, swapped, swapped)
			time.Sleep(apart)
		}
	})
}
