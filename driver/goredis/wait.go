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
	return wait.Run(calls, func(where driver.Where, todo []int, source []bool, follow [][]string) ([]driver.Result, error) {
		via, err := d.waiter(ctx, where, calls[todo[0]], wait)
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
		for _, c := range follow {
			cmds = append(cmds, newCommand(ctx, c[0], c[1:]...))
		}
		return d.together(ctx, via, cmds, where.Asking)
	}, d.cluster != nil)
}

// together sends commands in one pipeline, each after ASKING if that is wanted, and returns the reply
// to each.
func (d *Driver) together(ctx context.Context, via pipeliner, cmds []*command, asking bool) ([]driver.Result, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var err error
	returned := d.attend(ctx, func(ctx context.Context) {
		_, err = via.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range cmds {
				if asking {
					_ = p.Process(ctx, redis.NewCmd(ctx, "asking")) // queues it, and cannot fail
				}
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

// waiter returns a client of the server at where, or of the master that serves a script's keys, with a
// read limit that leaves WAIT its time.
func (d *Driver) waiter(ctx context.Context, where driver.Where, call driver.Call, wait driver.Wait) (pipeliner, error) {
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
	node, err := d.nodeFor(ctx, where, call)
	if err != nil {
		return nil, err
	}
	if node = bounded(node); !suffices(node.Options().ReadTimeout, wait) {
		node = node.WithTimeout(wait.Timeout + shortLimit)
	}
	return node, nil
}

// nodeFor returns the client of a cluster's node at where, or of the master that serves a script's
// keys.
func (d *Driver) nodeFor(ctx context.Context, where driver.Where, call driver.Call) (*redis.Client, error) {
	if where.Addr != "" {
		nodes, err := d.known(ctx)
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			if node.Options().Addr == where.Addr {
				return node, nil
			}
		}
	}
	if !d.located.Load() || len(call.Keys) == 0 {
		nodes, err := d.masters(ctx)
		if err != nil {
			return nil, err
		}
		if len(call.Keys) == 0 {
			return nodes[0], nil
		}
	}
	node, err := d.cluster.MasterForKey(ctx, call.Keys[0]) // no I/O
	if err != nil {
		return nil, d.failure(err, false)
	}
	return node, nil
}

// suffices reports whether a read limit leaves a second in addition to the waiting.
func suffices(limit time.Duration, wait driver.Wait) bool {
	return limit <= 0 || limit >= wait.Timeout+time.Second
}
