// Package driver is the seam between mortise and a Redis client library.
//
// Applications do not use it: they pass their own client to driver/goredis or driver/rueidis, or
// let package connect choose one. It is public because the adapters are packages of their own; it
// is not a stable API for third-party adapters, and methods may be added in any minor release.
//
// A driver knows scripts and channels. It knows nothing of locks.
//
// # What every driver promises
//
// Package drivertest tests these promises for every driver.
//
//   - At most once. A script is sent to Redis once per call. It is sent again only where the
//     server itself replied that it did not run the first copy: NOSCRIPT (then as EVAL), MOVED
//     and ASK. After a timeout, a closed connection or a lost reply nothing is sent again: the
//     caller gets [Unknown] and decides.
//   - On time. A call returns as soon as its ctx ends, whatever the network does. If ctx never ends, a script
//     returns within [Longest], and the client's own I/O timeout. For a [Deadline] with a later Latest, it returns
//     by then, and within the client's I/O timeout after the deadline.
//   - Classified. Every error is an [*Error] with a [Class].
//   - One subscription connection per node carries all channels. A connection that has gone
//     silent is noticed and replaced within seconds, and a sharded channel is followed to the
//     node that now serves its slot.
package driver

import "context"

// Driver runs scripts on Redis and listens to its channels. All methods are
// safe for concurrent use.
//
// A Driver belongs to one mortise client, which closes it.
type Driver interface {
	// Eval runs one script on the master that serves its keys, and returns its reply. The
	// script is sent at most once, see the package documentation.
	Eval(ctx context.Context, call Call) (Value, error)

	// Batch runs many scripts with as few round trips as possible: one pipeline per node.
	// Result i belongs to call i. The calls are independent: one may fail while the others
	// succeed, and their order is not guaranteed. Each is sent at most once.
	Batch(ctx context.Context, calls []Call) []Result

	// Shard returns the server that is believed to serve key, for grouping calls so that a
	// slow server does not delay the others. It does no I/O. It may be out of date, and is
	// empty if there is only one server.
	Shard(key string) string

	// Topology returns the kind of deployment behind the driver. The first call may ask Redis;
	// a successful answer is kept. After it, Shard knows the servers, unless the user has no right to
	// ask for them.
	Topology(ctx context.Context) (Topology, error)

	// Subscriber opens the one subscriber that the mortise client uses. It does no I/O: the
	// first Subscribe opens the connections.
	Subscriber(sink Sink) Subscriber

	// Close ends the goroutines that the driver started, and waits for them. It closes the
	// underlying client only if the driver created it. Calls in flight fail; calls after
	// Close, and after the application has closed the underlying client, fail with class
	// Closed.
	Close() error
}

// Scanner is a Driver that can list keys. It is a separate interface because only inspection
// needs it.
type Scanner interface {
	// Scan calls fn with pages of the keys that match the glob pattern match, from every
	// master, using SCAN: also with pages without keys, which say that a server answers. A key may appear more than once. Scan stops when fn returns an
	// error, and returns that error. A master that cannot be scanned keeps nobody from the keys of
	// the others: then the error names it.
	Scan(ctx context.Context, match string, fn func(keys []string) error) error
}

// Commander is a Driver that can send plain commands to each server. It is a separate interface
// because only a diagnosis needs it: locks need nothing but scripts, which cannot run commands such
// as INFO.
type Commander interface {
	// Servers returns the addresses of the servers that the client knows, in order: of a cluster
	// the masters, and perhaps replicas; otherwise the one server that scripts run on. It may ask
	// Redis. Without a cluster the address may be a name that the client gives to its server.
	Servers(ctx context.Context) ([]string, error)

	// Command sends a command to one of these servers, at most once, and returns its reply. There
	// must be at least one word. A map is returned as an array of its keys, in order, and values in
	// turn; a boolean as 0 or 1; a number with a fraction as a string. It must not be a command that
	// blocks, subscribes, or changes the state of the connection.
	Command(ctx context.Context, server string, words ...string) (Value, error)
}

// Call is one run of a script.
type Call struct {
	Script *Script
	Keys   []string // all in one slot
	Args   []string
}

// Result is the outcome of one call of a batch.
type Result struct {
	Value Value
	Err   error
}

// Topology is what a driver knows about the deployment behind it.
type Topology struct {
	// Cluster is true for Redis Cluster.
	Cluster bool
	// Sharded is true if the deployment is a cluster whose servers know
	// sharded pub/sub (Redis 7.0, Valkey): the condition under which Redisson
	// 3.22 and later publishes with SPUBLISH.
	Sharded bool
}

// Subscriber keeps a set of channels subscribed. Its methods never block: they change the wanted
// set, and the subscriber subscribes accordingly, now or as soon as Redis can be reached, for as
// long as a channel is wanted. On one connection channels are subscribed in the order in which
// they were wanted, also after an interruption, and unsubscribed in the order in which that
// ended: a client that marks its subscriptions by a second channel is never seen without the
// mark.
type Subscriber interface {
	// Subscribe adds channel to the wanted set. A channel may be wanted as a classic and as a
	// sharded one at the same time. Each call is answered by a later Sink.Subscribed or
	// Sink.Refused, even if the channel is already subscribed or was unsubscribed a moment ago.
	Subscribe(channel string, sharded bool)
	// Unsubscribe removes channel from the wanted set.
	Unsubscribe(channel string, sharded bool)
	// Close ends the subscriber, its connections and its goroutines. After it returns, the sink
	// is not called any more.
	Close() error
}

// Sink receives the events of a [Subscriber]. Its methods are called from the subscriber's
// goroutines, possibly several at once, and must not block.
type Sink interface {
	// Message is called for each message.
	Message(channel, payload string)
	// Subscribed is called each time Redis has confirmed a subscription to channel: the first
	// time, and again after each interruption. Earlier messages may have been missed.
	Subscribed(channel string)
	// Refused is called when Redis refuses the subscription permanently, for example by an ACL
	// rule. The subscriber does not ask again until the channel is wanted again.
	Refused(channel string, err error)
}
