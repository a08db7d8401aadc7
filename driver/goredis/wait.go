package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// EvalWait implements driver.Waiter. A pipeline of go-redis uses one connection, but on a cluster
// client the caller cannot choose it, so this uses the client of the master itself.
func (d *Driver) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	return wait.Run(calls, func(todo []int, source []bool) ([]driver.Result, error) {
		via, err := d.waiter(ctx, calls[todo[0]], wait)
		if err != nil {
			return nil, err
		}
		var cmds []*command
		for _, i := range todo {
			if source[i] {
				cmds = append(cmds, bySource(ctx, calls[i]))
			} else {
				cmds = append(cmds, byDigest(ctx, calls[i]))
			}
		}
		for _, c := range wait.Commands() {
			cmds = append(cmds, newCommand(ctx, c[0], c[1:]...))
		}
		return d.together(ctx, via, cmds)
	}, func() bool {
		if d.cluster == nil {
			return false
		}
		_, err := d.masters(ctx) // reads the topology
		return err == nil
	})
}

// together sends commands in one pipeline and returns the reply to each.
func (d *Driver) together(ctx context.Context, via pipeliner, cmds []*command) ([]driver.Result, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var err error
	returned := d.attend(ctx, func(ctx context.Context) {
		_, err = via.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range cmds {
				if err := p.Process(ctx, cmd); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if !returned {
		return nil, d.left(ctx, cmds[0].abandon()) // the first is written first
	}
	replies := make([]driver.Result, len(cmds))
	for j, cmd := range cmds {
		replies[j] = d.result(cmd, err)
	}
	return replies, nil
}

// pipeliner is a client, or the client of one node.
type pipeliner interface {
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// waiter returns a client of the master that serves a script's keys, with a read limit that leaves
// WAIT its time.
func (d *Driver) waiter(ctx context.Context, call driver.Call, wait driver.Wait) (pipeliner, error) {
	if d.refused != nil {
		return nil, d.refused
	}
	if d.cluster == nil {
		if single, ok := d.client.(interface {
			Options() *redis.Options
			WithTimeout(time.Duration) *redis.Client
		}); ok && !suffices(single.Options().ReadTimeout, wait) {
			return single.WithTimeout(wait.Timeout + shortLimit), nil
		}
		return d.client, nil
	}
	if !d.located.Load() {
		if _, err := d.masters(ctx); err != nil {
			return nil, err
		}
	}
	var node *redis.Client
	var err error
	if len(call.Keys) == 0 {
		var nodes []*redis.Client
		if nodes, err = d.masters(ctx); err != nil {
			return nil, err
		}
		node = nodes[0]
	} else if node, err = d.cluster.MasterForKey(ctx, call.Keys[0]); err != nil { // no I/O
		return nil, d.failure(err, false)
	}
	if node = bounded(node); !suffices(node.Options().ReadTimeout, wait) {
		node = node.WithTimeout(wait.Timeout + shortLimit)
	}
	return node, nil
}

// suffices reports whether a read limit leaves a second in addition to the waiting.
func suffices(limit time.Duration, wait driver.Wait) bool {
	return limit <= 0 || limit >= wait.Timeout+time.Second
}
