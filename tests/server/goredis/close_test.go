package goredis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// dialer opens connections slowly, and counts those that are open.
type dialer struct{ open atomic.Int64 }

func (k *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	time.Sleep(rand.N(2 * time.Millisecond)) // the network is slow
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	k.open.Add(1)
	return &dialed{Conn: conn, of: k}, nil
}

type dialed struct {
	net.Conn
	of   *dialer
	once sync.Once
}

func (c *dialed) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

// deaf is a sink.
type deaf struct{}

func (deaf) Message(string, string) {}
func (deaf) Subscribed(string)      {}
func (deaf) Refused(string, error)  {}

// TestClosedWhileConnecting: nothing stays open, whatever a driver on a cluster is about to do when it
// is closed: it connects, subscribes, has lost connections, or looks for the master of a slot.
func TestClosedWhileConnecting(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 0)
	var k dialer
	for i := range 20 {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Dialer: k.dial, DialerRetries: 1})
		d := goredis.Wrap(client)
		var calls sync.WaitGroup
		begun := make(chan struct{}, 4)
		for j := range 4 {
			calls.Go(func() { callUntilClosed(d, fmt.Sprint("close:", i, ":", j), begun) })
		}
		for range 4 {
			<-begun
		}
		sub := d.Subscriber(deaf{})
		for j := range 12 {
			sub.Subscribe(fmt.Sprint("close:", j), j%2 == 0 && redistest.Sharded(t))
		}
		c.Masters[i%3].Must(t, "CLIENT", "KILL", "TYPE", []string{"pubsub", "normal"}[i%2])
		time.Sleep(rand.N(5 * time.Millisecond)) // at any moment
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		redistest.Eventually(t, "nothing is open", func() error {
			if n := k.open.Load(); n != 0 {
				return fmt.Errorf("%d connections are open after round %d", n, i)
			}
			return nil
		})
	}
}

// callUntilClosed sends scripts, also with WAIT, until d is closed. It tells when the first has ended.
func callUntilClosed(d *goredis.Driver, key string, begun chan<- struct{}) {
	for n := 0; ; n++ {
		_, err := d.Eval(context.Background(), callIncr(key))
		if n%2 == 1 {
			err = d.EvalWait(context.Background(), []driver.Call{callIncr(key)}, driver.Wait{Timeout: time.Millisecond})[0].Err
		}
		if n == 0 {
			begun <- struct{}{}
		}
		if err != nil && driver.ClassOf(err) == driver.Closed {
			return
		}
	}
}
