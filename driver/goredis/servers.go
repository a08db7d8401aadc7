package goredis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

var _ driver.Commander = (*Driver)(nil)

// onlyServer is the address of a server whose client does not know it.
const onlyServer = "server"

// Servers implements driver.Commander.
func (d *Driver) Servers(ctx context.Context) ([]string, error) {
	nodes, err := d.reachable(ctx)
	if err != nil {
		return nil, err
	}
	var servers []string
	for _, node := range nodes {
		servers = append(servers, node.addr)
	}
	slices.Sort(servers)
	return servers, nil
}

// Command implements driver.Commander.
func (d *Driver) Command(ctx context.Context, server string, words ...string) (driver.Value, error) {
	nodes, err := d.reachable(ctx)
	if err != nil {
		return driver.Value{}, err
	}
	for _, node := range nodes {
		if node.addr != server {
			continue
		}
		reply, err := d.do(ctx, node.via, newCommand(ctx, words[0], words[1:]...))
		if err != nil {
			return driver.Value{}, err
		}
		return plain(reply)
	}
	return driver.Value{}, &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("goredis: the client does not know a server %q", server)}
}

// server is a server and the client for it.
type server struct {
	addr string
	via  processor
}

// reachable returns the servers that the client knows.
func (d *Driver) reachable(ctx context.Context) ([]server, error) {
	if d.refused != nil {
		return nil, d.refused
	}
	if d.cluster == nil {
		addr := onlyServer
		if c, ok := d.client.(*redis.Client); ok {
			addr = c.Options().Addr
		}
		return []server{{addr, d.client}}, nil
	}
	nodes, err := d.known(ctx)
	if err != nil {
		return nil, err
	}
	servers := make([]server, len(nodes))
	for i, node := range nodes {
		servers[i] = server{node.Options().Addr, bounded(node)}
	}
	return servers, nil
}

// plain converts a reply of any command.
func plain(reply any) (driver.Value, error) {
	switch v := reply.(type) {
	case bool:
		if v {
			return driver.IntValue(1), nil
		}
		return driver.IntValue(0), nil
	case float64:
		return driver.StringValue(strconv.FormatFloat(v, 'g', -1, 64)), nil
	case map[any]any:
		return plainMap(v)
	case []any:
		items := make([]driver.Value, len(v))
		for i := range v {
			var err error
			if items[i], err = plain(v[i]); err != nil {
				return driver.Value{}, err
			}
		}
		return driver.ArrayValue(items), nil
	}
	return value(reply)
}

func plainMap(pairs map[any]any) (driver.Value, error) {
	type pair struct {
		key   string
		value any
	}
	sorted := make([]pair, 0, len(pairs))
	for key, v := range pairs {
		sorted = append(sorted, pair{fmt.Sprint(key), v})
	}
	slices.SortFunc(sorted, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	var values []driver.Value
	for _, p := range sorted {
		v, err := plain(p.value)
		if err != nil {
			return driver.Value{}, err
		}
		values = append(values, driver.StringValue(p.key), v)
	}
	return driver.ArrayValue(values), nil
}
