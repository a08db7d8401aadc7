package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// cluster is what the driver needs of a cluster client beyond Client.
type cluster interface {
	// MasterForKey does I/O only as long as the client knows no topology.
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	// ForEachMaster reads the topology anew before it calls fn.
	ForEachMaster(ctx context.Context, fn func(ctx context.Context, node *redis.Client) error) error
}

// Shard implements driver.Driver.
func (d *Driver) Shard(key string) string {
	if node := d.owner(key); node != nil {
		return node.Options().Addr
	}
	return ""
}

// owner returns the client of the master that is believed to serve key, nil if
// there is no cluster or its topology is not known yet. It does no I/O.
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

// masters has the client read the topology and returns a client of each
// master.
func (d *Driver) masters(ctx context.Context) ([]*redis.Client, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var (
		mu    sync.Mutex // guards nodes: ForEachMaster calls at once for all
		nodes []*redis.Client
		err   error
	)
	returned := d.attend(ctx, func(ctx context.Context) {
		err = d.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
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

// doubtPause is how long the map of slots is left alone after it was doubted.
const doubtPause = 100 * time.Millisecond

var started = time.Now()

// doubt has a cluster client read its map of slots anew, in the background. By
// itself it does that once in ten seconds, and when a server answers with MOVED;
// of a master that cannot be reached it learns nothing.
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

// probe asks one master after the other until one answers.
func (d *Driver) probe(ctx context.Context) (driver.Topology, error) {
	nodes, err := d.masters(ctx)
	for _, node := range nodes {
		var t driver.Topology
		if t, err = d.probeNode(ctx, bounded(node)); err == nil || ctx.Err() != nil {
			return t, err
		}
	}
	return driver.Topology{}, err
}

func (d *Driver) probeNode(ctx context.Context, node processor) (driver.Topology, error) {
	// The cluster client of go-redis also serves a master and its replicas that
	// sentinels watch over. Those may know sharded pub/sub as well, but
	// Redisson does not use it there.
	text, err := d.probeReply(ctx, node, "cluster", "info")
	if err != nil {
		return driver.Topology{}, err
	}
	if strings.Contains(text, "cluster support disabled") {
		return driver.Topology{}, nil
	}
	// A server that denies a subcommand that it knows names it.
	text, err = d.probeReply(ctx, node, "pubsub", "shardnumsub")
	if err != nil {
		return driver.Topology{}, err
	}
	return driver.Topology{Cluster: true, Sharded: text == "" || strings.Contains(strings.ToLower(text), "|shardnumsub'")}, nil
}

// probeReply runs a command and returns the text of a refusal of this command,
// "" if there was none, or the error for which there was no answer.
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

// scanCount is how many keys a server looks at for one page of Scan.
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
	for _, node := range nodes {
		if err := d.scanNode(ctx, bounded(node), match, fn); err != nil {
			return err
		}
	}
	return nil
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
		if len(keys) > 0 {
			if err := fn(keys); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// scanPage takes a reply of SCAN apart.
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
