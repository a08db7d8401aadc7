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
//   - ReadTimeout and WriteTimeout: five seconds by default. Three are better: a
//     connection that a silent network holds is one that renewals do not get.
//     A [redis.Client] with more than thirty, or without a limit, is used
//     through a copy with three, which shares its connections, but not its
//     hooks: go-redis makes it so. Of a [redis.ClusterClient] there is no such
//     copy, so it must have limits.
//   - DialerRetries: five by default, a tenth of a second apart, so a call to a
//     server that is down takes half a second to fail, and a batch a second.
//     Callers of locks try again by themselves: one is better.
//   - PoolSize: calls share the pool with the rest of the application. Whoever
//     waits for a lock holds no connection. Scripts of several callers go in one
//     pipeline, and at most five scripts or pipelines for each node, apart from
//     renewals, are under way at a time. Subscriptions have connections of their
//     own: one, and in a cluster one for each master with channels.
//   - Hooks see the values of the caller's context, such as spans, of a script
//     that goes alone, and none of a pipeline. They must not keep commands, which
//     are used again.
//   - Durable locks: a pipeline with WAIT keeps its connection for as long as
//     replicas need. If ReadTimeout is too short for that, it goes through such
//     a copy, too.
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
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/pipeline"
)

// Client is what the driver needs of a go-redis client. *redis.Client,
// *redis.ClusterClient and every redis.UniversalClient have it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Driver is a driver.Driver on a go-redis client. It also is a driver.Scanner
// and a driver.Waiter. It is safe for concurrent use.
type Driver struct {
	client  Client
	cluster cluster       // nil unless client is one
	refused error         // why no call is possible, or nil
	limit   time.Duration // for writing and reading, of the client; 0: not known

	config pipeline.Config[load]
	only   *nodePipeline     // without a cluster, and of scripts without keys
	over   *pipeline.Context // ends with closing

	located  atomic.Bool  // the cluster client has its map of slots
	doubted  atomic.Int64 // when it was last told to read that anew, as nanoseconds since started
	topology atomic.Pointer[driver.Topology]

	closing   chan struct{} // closed when Close begins
	mu        sync.RWMutex  // guards closed, lanes and subs; held while running grows, but for lanes
	closed    bool
	pipelines map[string]*nodePipeline // of a cluster, by node
	subs      []*subscriber
	running   sync.WaitGroup // calls, pumps, and the goroutines of calls that were given up
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Scanner = (*Driver)(nil)
	_ driver.Waiter  = (*Driver)(nil)

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
	switch c := client.(type) {
	case *redis.Client:
		c = bounded(c)
		d.client, d.limit = c, c.Options().ReadTimeout+c.Options().WriteTimeout // both are positive
	case *redis.ClusterClient:
		if o := c.Options(); o.ReadTimeout > 0 && o.WriteTimeout > 0 {
			d.limit = o.ReadTimeout + o.WriteTimeout
		}
	}
	d.cluster, _ = client.(cluster)
	d.pipelines, d.over = map[string]*nodePipeline{}, pipeline.NewContext(d.closing)
	d.config = pipeline.Config[load]{
		Send: d.send, Left: d.leave, Most: pipelineSize, Closing: d.closing, Closed: errClosed, Running: &d.running,
	}
	d.only = pipeline.New(&d.config)
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

const (
	// longestLimit is the longest limit for the I/O of one command that is
	// left as it is, and shortLimit the one that replaces longer ones.
	longestLimit = 30 * time.Second
	shortLimit   = 3 * time.Second
)

// bounded returns client, or, if its limits are too long, a copy with shorter
// ones on the same pools. The copy lacks the client's hooks.
func bounded(client *redis.Client) *redis.Client {
	options := client.Options()
	for _, limit := range []time.Duration{options.ReadTimeout, options.WriteTimeout} {
		if limit <= 0 || limit > longestLimit { // not positive: none
			return client.WithTimeout(shortLimit)
		}
	}
	return client
}

// Close makes calls under way fail, ends the goroutines that the driver
// started, and returns when they have ended. If the network is silent, that
// takes until the client gives a connection up, after its ReadTimeout, or,
// while a subscription is being connected by TLS, its DialTimeout. Further
// calls of Close do nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	pipelines, subs := maps.Clone(d.pipelines), d.subs // what is added later is closed from the start
	close(d.closing)
	d.mu.Unlock()
	if d.only != nil {
		d.only.Close()
	}
	for _, l := range pipelines {
		l.Close()
	}

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
