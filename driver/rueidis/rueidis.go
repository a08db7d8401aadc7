// Package rueidis lets mortise work through a client of
// github.com/redis/rueidis, for a single server, sentinels or a cluster.
//
//	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := mortise.New(mortiserueidis.Wrap(rdb), nil)
//
// # Options of the client
//
// The client works with its defaults. For locks, note:
//
//   - ConnLifetime must stay 0. With it rueidis resends commands that are in flight when their
//     connection reaches its age, and a script could run twice.
//   - ConnWriteTimeout is the time after which a silent connection is given up. It is ten seconds
//     by default; three are better. A connection that was never used by two calls at once is
//     given up after three in any case.
//   - Sentinel.TopologyRefreshInterval should be a few seconds: without it, a client that misses
//     one message of the sentinels keeps the old master.
//   - ClusterOption.MaxMovedRedirections should be a few, such as 16. Without it, a client asks
//     servers that name each other as the owner of a slot in turn, without a pause, until they agree
//     or the call's ctx ends.
//   - ReadBufferEachConn and WriteBufferEachConn are half a megabyte each by default; 16 KiB are
//     enough.
//   - SendToReplicas does not affect mortise: its scripts are never sent there, unless the function
//     returns true for EVALSHA and EVAL, which it must not. ReplicaOnly must be false: replicas refuse the scripts, so
//     each call fails with READONLY after its RetryFor.
//   - BlockingPoolSize bounds how many durable locks wait for replicas at a time: each of them uses
//     a connection of its own. The default is 1024.
//   - AlwaysRESP2 and DisableCache are needed for servers that do not know RESP3.
//
// Behind one address, such as that of a proxy or of a service, a server may hand its role over, while
// established connections still lead to it. The client keeps them, and the server refuses all writes on
// them, until the server closes them: CLIENT KILL TYPE normal.
//
// Scripts of several callers go to Redis as one pipeline. The client then sees no caller's
// context, nor values in it, such as spans.
//
// A client leaves a connection open that it is opening when it is closed, as of version 1.0.79. When
// the driver has been closed, its calls open none; but a client of a cluster may be about to ask for
// the slots.
//
// In a cluster the user needs the right to CLUSTER SLOTS, as rueidis itself does for servers before
// Redis 8.
package rueidis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/pipeline"
	"github.com/mortise-go/mortise/internal/scan"
)

// Driver is a driver.Driver on a rueidis client. It is also a driver.Scanner and a driver.Waiter.
// It is safe for concurrent use.
type Driver struct {
	client  redis.Client
	owned   bool
	cluster bool
	slots   slots

	pipelines *pipeline.Nodes[load]
	only      *nodePipeline // without a cluster, and for scripts without keys
	topology  atomic.Pointer[driver.Topology]
	closings  closings

	life    context.Context // ends when Close begins
	end     context.CancelFunc
	closing chan struct{}     // closed when Close begins
	over    *pipeline.Context // ends with closing

	mu      sync.RWMutex // guards closed and subs; held by enter
	closed  bool
	subs    []*subscriber
	running sync.WaitGroup // grows only while the driver, or a pipeline, is open
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Scanner = (*Driver)(nil)
	_ driver.Waiter  = (*Driver)(nil)
)

// errClosed is why calls fail after Close.
var errClosed = errors.New("rueidis: the driver is closed")

// Wrap returns a driver that works through client. It does no I/O. Closing the driver leaves the
// client open: it belongs to the caller, which closes it after the driver. Wrap panics if client is
// nil.
func Wrap(client redis.Client) *Driver {
	if client == nil {
		panic("rueidis: nil client")
	}
	d := &Driver{client: client, cluster: client.Mode() == redis.ClientModeCluster}
	d.life, d.end = context.WithCancel(context.Background())
	d.closing = make(chan struct{})
	d.over = pipeline.NewContext(d.closing)
	d.pipelines = pipeline.NewNodes(pipeline.Config[load]{
		Send: d.send, Most: maxPipeline, Closing: d.closing, Closed: errClosed, Running: &d.running,
	})
	d.only = d.pipelines.To(pipeline.NoNode)
	d.slots.driver = d
	return d
}

// Own is Wrap for a client that belongs to the driver: Close closes it.
func Own(client redis.Client) *Driver {
	d := Wrap(client)
	d.owned = true
	return d
}

// Close makes calls in flight fail, ends the goroutines that the driver started, and returns when
// they have ended. If the client is just opening a connection on a silent network, that takes as
// long as the client needs to give it up: at most its dial timeout. Further calls of Close do
// nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	subs := d.subs // those added later are closed from the start
	d.end()
	close(d.closing)
	d.mu.Unlock()
	d.pipelines.Close()

	var closers sync.WaitGroup
	for _, s := range subs {
		closers.Go(s.shutdown)
	}
	closers.Wait()
	if d.owned {
		d.client.Close()
	}
	d.running.Wait()
	return nil
}

// enter reports whether the driver is open. If so, Close waits for a d.running.Done.
func (d *Driver) enter() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.running.Add(1)
	return true
}

// Topology implements driver.Driver.
func (d *Driver) Topology(ctx context.Context) (driver.Topology, error) {
	if t := d.topology.Load(); t != nil {
		return *t, nil
	}
	t := driver.Topology{Cluster: d.cluster}
	if d.cluster {
		if d.slots.current.Load() == nil {
			_ = d.slots.refresh(ctx) // a user without the right to it can do without the map
		}
		var err error
		if t.Sharded, err = d.knowsSharded(ctx); err != nil {
			return driver.Topology{}, err
		}
	}
	d.topology.Store(&t)
	return t, nil
}

// knowsSharded reports whether the servers know sharded pub/sub.
func (d *Driver) knowsSharded(ctx context.Context) (bool, error) {
	return scan.First(ctx, slices.Collect(maps.Values(d.client.Nodes())), func(ctx context.Context, node redis.Client) (bool, error) {
		_, err := d.do(ctx, node, node.B().PubsubShardnumsub().Build())
		switch {
		case driver.ClassOf(err) == driver.Denied && strings.HasPrefix(err.Error(), "NOPERM "):
			// A server that denies a subcommand that it knows includes its name in the error.
			return strings.Contains(strings.ToLower(err.Error()), "|shardnumsub'"), nil
		case err != nil && driver.ClassOf(err) == driver.Other:
			return false, nil
		}
		return true, err
	})
}

// Shard implements driver.Driver.
func (d *Driver) Shard(key string) string {
	if !d.cluster {
		return ""
	}
	d.slots.touch()
	return d.slots.owner(slotOf(key))
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
