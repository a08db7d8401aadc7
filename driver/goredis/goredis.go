// Package goredis lets mortise work through a client of
// github.com/redis/go-redis/v9, version 9.22.0 or later, for a single server,
// sentinels or a cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client := mortise.New(goredis.Wrap(rdb), nil)
//
// # What the client does by default, and how the driver deals with it
//
//   - MaxRetries: go-redis resends a command whose reply is lost, up to three times, so a script
//     would run twice. The driver's commands forbid that, alone and in pipelines, so the option
//     does not affect them.
//   - ContextTimeoutEnabled: go-redis ignores a context once it has a connection, and, with the
//     option, a cancellation without a deadline. The driver returns when the context ends, with
//     and without the option. The abandoned call ends in the background, when the client's
//     ReadTimeout or the reply comes. If it had not been sent by then, it never is.
//   - ReadTimeout and WriteTimeout: five seconds by default. Three are better: renewals cannot
//     use a connection that waits for a silent network. A [redis.Client] with more than thirty,
//     or without a limit, is used through a copy with three seconds. The copy shares its
//     connections, but not its hooks: go-redis works that way. A [redis.ClusterClient] cannot be
//     copied like this, so it must have limits.
//   - DialerRetries: five by default, a tenth of a second apart, so a call to a server that is
//     down takes half a second to fail, and a batch a second. Callers of locks retry themselves:
//     one is better.
//   - PoolSize: calls share the pool with the rest of the application. Waiting for a lock takes
//     no connection. Scripts of several callers share one pipeline, and at most five scripts or
//     pipelines for each node, apart from renewals, are in flight at a time. Subscriptions have
//     connections of their own: one, and in a cluster one for each master with channels.
//   - Hooks see the values of the caller's context, such as spans, for a script that is sent
//     alone, and none for a pipeline. They must not keep commands, which are reused.
//   - Durable locks: a pipeline with WAIT keeps its connection for as long as replicas need. If
//     ReadTimeout is too short for that, it also goes through such a copy.
//   - Pub/sub: a subscription of go-redis does not notice when the network falls silent, and one
//     with several sharded channels asks a wrong node for some. The driver watches and replaces
//     its connections itself.
//   - MaintNotificationsConfig: plain Redis and Valkey refuse the handshake that it adds;
//     go-redis logs that, and it does no harm. maintnotifications.ModeDisabled avoids both.
//
// A [redis.Ring] is refused: every call fails, with an error of class Unfit. When it cannot reach a server, it moves the keys
// to another one, and each process decides that for itself; then a lock has two holders.
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
	"github.com/mortise-go/mortise/internal/pipeline"
)

// Client is the part of a go-redis client that the driver needs. *redis.Client,
// *redis.ClusterClient and every redis.UniversalClient implement it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Driver is a driver.Driver on a go-redis client. It is also a driver.Scanner and a driver.Waiter.
// It is safe for concurrent use.
type Driver struct {
	client  Client
	cluster cluster       // nil unless client is a cluster client
	refused error         // why every call fails, or nil
	limit   time.Duration // of the client, for writing plus reading; 0: not known
	secure  *redis.Client // if client uses TLS; else nil

	pipelines *pipeline.Nodes[load] // nil if refused
	only      *nodePipeline         // without a cluster, and for scripts without keys
	over      *pipeline.Context     // ends with closing

	located  atomic.Bool   // the cluster client has its map of slots
	failures atomic.Uint64 // of commands
	doubted  atomic.Int64  // when a reload was last requested, in nanoseconds since started
	topology atomic.Pointer[driver.Topology]

	closing chan struct{} // closed when Close begins
	mu      sync.RWMutex  // guards closed and subs; held while running grows, except by pipelines
	closed  bool
	subs    []*subscriber
	running sync.WaitGroup // calls, workers, and the goroutines of abandoned calls
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

// Wrap returns a driver that works through client. It does no I/O. Closing the driver leaves the
// client open: it belongs to the caller, which closes it after the driver.
//
// If locks cannot work with this kind of client, every call of the driver fails with an error of
// class Unfit that says so. Wrap panics if client is nil.
func Wrap(client Client) *Driver {
	if isNil(client) {
		panic("goredis: nil client")
	}
	d := &Driver{closing: make(chan struct{}), refused: refuse(client)}
	if d.refused != nil {
		return d
	}
	d.client = client
	switch c := client.(type) {
	case *redis.Client:
		c = bounded(c)
		d.client, d.limit = c, c.Options().ReadTimeout+c.Options().WriteTimeout // both are positive
		if c.Options().TLSConfig != nil {
			d.secure = c
		}
	case *redis.ClusterClient:
		if o := c.Options(); o.ReadTimeout > 0 && o.WriteTimeout > 0 {
			d.limit = o.ReadTimeout + o.WriteTimeout
		}
	}
	d.cluster, _ = client.(cluster)
	d.over = pipeline.NewContext(d.closing)
	d.pipelines = pipeline.NewNodes(pipeline.Config[load]{
		Send: d.send, Left: d.leave, Most: pipelineSize, Closing: d.closing, Closed: errClosed, Running: &d.running,
	})
	d.only = d.pipelines.To(pipeline.NoNode)
	return d
}

// isNil reports whether client is nil, or a nil pointer to a client of go-redis.
func isNil(client Client) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	case *redis.Ring:
		return c == nil
	}
	return client == nil
}

// refuse returns why client cannot be used, or nil.
func refuse(client Client) error {
	reason := ""
	// Only a Ring has SetAddrs, even if it is embedded in another type.
	if _, ring := client.(interface{ SetAddrs(map[string]string) }); ring {
		reason = "a redis.Ring moves keys between servers on its own judgement, so two processes could hold one lock; " +
			"use a client of one server, of sentinels or of a cluster"
	}
	if reason == "" {
		return nil
	}
	return &driver.Error{Class: driver.Unfit, Err: fmt.Errorf("goredis: cannot work with a client of type %T: %s", client, reason)}
}

const (
	// longestLimit is the longest limit for the I/O of one command that is accepted, and
	// shortLimit the one that replaces longer ones.
	longestLimit = 30 * time.Second
	shortLimit   = 3 * time.Second
)

// bounded returns client, or, if its limits are too long, a copy with shorter ones on the same
// pools. The copy lacks the client's hooks.
func bounded(client *redis.Client) *redis.Client {
	options := client.Options()
	for _, limit := range []time.Duration{options.ReadTimeout, options.WriteTimeout} {
		if limit <= 0 || limit > longestLimit { // not positive: no limit
			return client.WithTimeout(shortLimit)
		}
	}
	return client
}

// Close makes calls in flight fail, ends the goroutines that the driver started, and returns when
// they have ended. If the network is silent, that takes until the client gives a connection up,
// after its ReadTimeout, or, while a subscription is being connected by TLS, its DialTimeout.
// Further calls of Close do nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	subs := d.subs // those added later are closed from the start
	close(d.closing)
	d.mu.Unlock()
	if d.pipelines != nil {
		d.pipelines.Close()
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
