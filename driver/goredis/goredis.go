// Package goredis lets mortise work through a client of
// github.com/redis/go-redis/v9, version 9.22.0 or later, for a single server,
// sentinels or a cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client := mortise.New(goredis.Wrap(rdb), nil)
//
// # What the client does by default, and what the driver makes of it
//
//   - MaxRetries: go-redis sends a command again when its reply is lost, up to
//     three times, and a script would run twice. The driver's commands say that
//     they must not be sent again, alone and in pipelines, so the option does
//     not concern them.
//   - ContextTimeoutEnabled: go-redis ignores a context once it has a
//     connection, and, with the option, a cancellation without a deadline. The
//     driver returns when the context ends, with and without the option. The
//     call that was given up ends in the background, when the client's
//     ReadTimeout or the reply comes. One that had not been sent by then never
//     is.
//   - ReadTimeout and WriteTimeout: five seconds by default. A [redis.Client]
//     with more than three, or without a limit, is used through a copy made by
//     its WithTimeout, which shares its connections: a connection that a silent
//     network holds is one that renewals do not get. So hooks must be added
//     before Wrap. Of a [redis.ClusterClient] there are no such copies: choose
//     three seconds or less.
//   - DialerRetries: five by default, a tenth of a second apart, so a call to a
//     server that is down takes half a second to fail, and a batch a second.
//     Callers of locks try again by themselves: one is better.
//   - PoolSize: calls share the pool with the rest of the application. Whoever
//     waits for a lock holds no connection. Subscriptions have connections of
//     their own: one, and in a cluster one for each master with channels.
//   - Pub/sub: a subscription of go-redis does not notice when the network
//     falls silent, and one that has several sharded channels asks a wrong node
//     for some. The driver watches and replaces its connections itself.
//   - MaintNotificationsConfig: plain Redis and Valkey refuse the handshake
//     that it adds, which go-redis logs and which does no harm.
//     maintnotifications.ModeDisabled spares both.
//
// A [redis.Ring] is refused: every call fails. It gives the keys of a server
// that it cannot reach to another one, each process by its own judgement, and
// then a lock has two holders.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// Client is what the driver needs of a go-redis client. *redis.Client,
// *redis.ClusterClient and every redis.UniversalClient have it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Driver is a driver.Driver on a go-redis client. It also is a driver.Scanner.
// It is safe for concurrent use.
type Driver struct {
	client  Client
	cluster cluster // nil unless client is one
	refused error   // why no call is possible, or nil

	located  atomic.Bool // the cluster client has its map of slots
	topology atomic.Pointer[driver.Topology]

	closing chan struct{} // closed when Close begins
	mu      sync.RWMutex  // guards closed and subs; held while running grows
	closed  bool
	subs    []*subscriber
	running sync.WaitGroup // calls, and the goroutines of calls that were given up
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Scanner = (*Driver)(nil)

	_ Client = (*redis.Client)(nil)
	_ Client = (*redis.ClusterClient)(nil)
	_ Client = redis.UniversalClient(nil)
)

// errClosed is why calls fail after Close.
var errClosed = errors.New("goredis: the driver is closed")

// Wrap returns a driver that works through client. It does no I/O. Closing the
// driver leaves the client open: it belongs to the caller, who closes it after
// the driver.
//
// If client is of a kind that locks cannot work with, every call of the driver
// fails with an error of class Denied that says so.
func Wrap(client Client) *Driver {
	d := &Driver{closing: make(chan struct{}), refused: refuse(client)}
	if d.refused != nil {
		return d
	}
	d.client = client
	if single, ok := client.(*redis.Client); ok {
		d.client = bounded(single)
	}
	d.cluster, _ = client.(cluster)
	return d
}

// refuse returns why client cannot be used, or nil.
func refuse(client Client) error {
	reason := ""
	// SetAddrs is what only a Ring has, also one inside another type.
	if _, ring := client.(interface{ SetAddrs(map[string]string) }); ring {
		reason = "a redis.Ring moves keys between servers on its own judgement, so two processes could hold one lock; " +
			"use a client of one server, of sentinels or of a cluster"
	}
	if client == nil {
		reason = "the client is nil"
	}
	if reason == "" {
		return nil
	}
	return &driver.Error{Class: driver.Denied, Err: fmt.Errorf("goredis: cannot work with a client of type %T: %s", client, reason)}
}

// ioLimit is the longest that a call waits for a connection's reply.
const ioLimit = 3 * time.Second

// bounded returns client, or a copy with shorter limits on the same pools.
func bounded(client *redis.Client) *redis.Client {
	limit, options := ioLimit, client.Options()
	long := false
	for _, t := range []time.Duration{options.ReadTimeout, options.WriteTimeout} {
		if t <= 0 || t > ioLimit { // not positive: no limit
			long = true
		} else {
			limit = min(limit, t)
		}
	}
	if !long {
		return client
	}
	return client.WithTimeout(limit)
}

// Close makes calls under way fail, ends the goroutines that the driver
// started, and returns when they have ended. If the network is silent, that
// takes until the client gives a connection up: three seconds with a
// redis.Client, its ReadTimeout with a redis.ClusterClient, and, while a
// subscription is being connected, its DialTimeout if it uses TLS. Further
// calls of Close do nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	subs := d.subs
	close(d.closing)
	d.mu.Unlock()

	var closers sync.WaitGroup
	for _, s := range subs {
		closers.Go(s.shutdown)
	}
	closers.Wait()
	d.running.Wait()
	return nil
}

// Subscriber implements driver.Driver.
func (d *Driver) Subscriber(sink driver.Sink) driver.Subscriber {
	s := newSubscriber(d, sink)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.closed = true
	} else {
		d.subs = append(d.subs, s)
	}
	return s
}
