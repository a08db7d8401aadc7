package goredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
)

// cluster is the part of a cluster client that the driver needs beyond Client.
type cluster interface {
	// MasterForKey does I/O only as long as the client knows no topology.
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	// ForEachMaster reads the topology again before it calls fn.
	ForEachMaster(ctx context.Context, fn visit) error
}

// Shard implements driver.Driver.
func (d *Driver) Shard(key string) string {
	if node := d.owner(key); node != nil {
		return node.Options().Addr
	}
	return ""
}

// owner returns the client of the master that is believed to serve key, nil if there is no cluster
// or its topology is not known yet. It does no I/O.
func (d *Driver) owner(key string) *redis.Client {
	if d.cluster == nil || !d.located.Load() {
		return nil
	}
	node, err := d.cluster.MasterForKey(context.Background(), key)
	if err != nil {
		return nil
	}
	return node
}

// masters makes the client read the topology and returns a client of each master.
func (d *Driver) masters(ctx context.Context) ([]*redis.Client, error) {
	return d.nodes(ctx, d.cluster.ForEachMaster)
}

// known is masters with the replicas, one of which may be a master by now.
func (d *Driver) known(ctx context.Context) ([]*redis.Client, error) {
	if all, ok := d.client.(interface {
		ForEachShard(context.Context, visit) error
	}); ok {
		return d.nodes(ctx, all.ForEachShard)
	}
	return d.masters(ctx)
}

// visit is called with the client of a node.
type visit = func(ctx context.Context, node *redis.Client) error

// nodes makes the client read the topology and returns the clients of the nodes that each visits.
func (d *Driver) nodes(ctx context.Context, each func(context.Context, visit) error) ([]*redis.Client, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var (
		mu    sync.Mutex // guards nodes: each calls its function concurrently
		nodes []*redis.Client
		err   error
	)
	returned := d.attend(ctx, func(ctx context.Context) {
		err = each(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
	})
	switch {
	case !returned:
		return nil, d.left(ctx, driver.NotSent)
	case err != nil:
		return nil, d.classify(err, false)
	case len(nodes) == 0:
		return nil, &driver.Error{Class: driver.Passing, Err: errors.New("goredis: the cluster has no master with slots")}
	}
	d.located.Store(true)
	return nodes, nil
}

// doubtPause is the least time between two reloads of the map of slots by doubt.
const doubtPause = 100 * time.Millisecond

var started = time.Now()

// doubt makes a cluster client reload its map of slots, in the background. The client itself does
// so only every ten seconds, and after a reply with MOVED; a master that cannot be reached does
// not make it reload.
func (d *Driver) doubt() {
	if d.cluster == nil {
		return
	}
	now, last := int64(time.Since(started)), d.doubted.Load()
	if last != 0 && time.Duration(now-last) < doubtPause || !d.doubted.CompareAndSwap(last, now) {
		return
	}
	if d.begin(context.Background()) != nil {
		return
	}
	go func() {
		defer d.running.Done()
		_, _ = d.masters(context.Background())
	}()
}

// Topology implements driver.Driver.
func (d *Driver) Topology(ctx context.Context) (driver.Topology, error) {
	if t := d.topology.Load(); t != nil {
		return *t, nil
	}
	if d.refused != nil {
		return driver.Topology{}, d.refused
	}
	var t driver.Topology
	if d.cluster != nil {
		var err error
		if t, err = d.probe(ctx); err != nil {
			return driver.Topology{}, err
		}
	}
	d.topology.Store(&t)
	return t, nil
}

// probe asks the masters until one replies.
func (d *Driver) probe(ctx context.Context) (driver.Topology, error) {
	nodes, err := d.masters(ctx)
	if err != nil {
		return driver.Topology{}, err
	}
	return scan.First(ctx, nodes, func(ctx context.Context, node *redis.Client) (driver.Topology, error) {
		return d.probeNode(ctx, bounded(node))
	})
}

func (d *Driver) probeNode(ctx context.Context, node processor) (driver.Topology, error) {
	// The cluster client of go-redis can also serve a master and its replicas under sentinels.
	// These servers may know sharded pub/sub as well, but Redisson does not use it there.
	text, err := d.probeReply(ctx, node, "cluster", "info")
	if err != nil {
		return driver.Topology{}, err
	}
	if strings.Contains(text, "cluster support disabled") {
		return driver.Topology{}, nil
	}
	// A server that denies a subcommand that it knows includes its name in the error.
	text, err = d.probeReply(ctx, node, "pubsub", "shardnumsub")
	if err != nil {
		return driver.Topology{}, err
	}
	return driver.Topology{Cluster: true, Sharded: text == "" || strings.Contains(strings.ToLower(text), "|shardnumsub'")}, nil
}

// probeReply runs a command and returns the text of its refusal, "" if it was not refused, or the
// error for which there was no reply.
func (d *Driver) probeReply(ctx context.Context, node processor, name, sub string) (refusal string, err error) {
	_, err = d.do(ctx, node, newCommand(ctx, name, sub))
	if err == nil {
		return "", nil
	}
	var reply redis.Error
	if errors.As(err, &reply) && (driver.ClassOf(err) == driver.Other || strings.HasPrefix(reply.Error(), "NOPERM ")) {
		return reply.Error(), nil
	}
	return "", err
}

// scanCount is how many keys a server examines for one page of Scan.
const scanCount = "500"

// Scan implements driver.Scanner.
func (d *Driver) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	if d.cluster == nil {
		return d.scanNode(ctx, d.client, match, fn)
	}
	nodes, err := d.masters(ctx)
	if err != nil {
		return err
	}
	masters := make(map[string]*redis.Client, len(nodes))
	for _, node := range nodes {
		masters[node.Options().Addr] = node
	}
	return scan.All(ctx, slices.Sorted(maps.Keys(masters)), func(ctx context.Context, addr string, fn func([]string) error) error {
		return d.scanNode(ctx, bounded(masters[addr]), match, fn)
	}, fn)
}

func (d *Driver) scanNode(ctx context.Context, node processor, match string, fn func([]string) error) error {
	cursor := "0"
	for {
		reply, err := d.do(ctx, node, newCommand(ctx, "scan", cursor, "match", match, "count", scanCount))
		if err != nil {
			return err
		}
		var keys []string
		if cursor, keys, err = scanPage(reply); err != nil {
			return err
		}
		if err := fn(keys); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
}

// scanPage parses a reply of SCAN.
func scanPage(reply any) (cursor string, keys []string, err error) {
	fields, _ := reply.([]any)
	if len(fields) == 2 {
		cursor, _ = fields[0].(string)
		page, _ := fields[1].([]any)
		for _, k := range page {
			key, ok := k.(string)
			if !ok {
				cursor = ""
			}
			keys = append(keys, key)
		}
	}
	if _, bad := strconv.ParseUint(cursor, 10, 64); bad != nil {
		return "", nil, &driver.Error{Class: driver.Other, Err: fmt.Errorf("goredis: unexpected reply of SCAN: %.100v", reply)}
	}
	return cursor, keys, nil
}
