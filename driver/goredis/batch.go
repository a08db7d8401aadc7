package goredis

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// pipelineSize is how many calls share a pipeline. The client allows a whole pipeline the time of
// one command, and if it breaks, the outcome of all its calls is unknown.
const pipelineSize = 1000

// Batch implements driver.Driver.
func (d *Driver) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	todo := make([]int, len(calls)) // indexes of the calls still to be sent
	for i := range calls {
		todo[i] = i
	}
	// In the first round all calls are sent by digest, in the second those whose script was not
	// known. There each pipeline carries the text of a script once, and the calls behind it rely
	// on that. In the third all are sent as text; only a server that forgets scripts at once or a
	// change of the topology makes it necessary.
	for round := 1; len(todo) > 0 && round <= 3; round++ {
		d.round(ctx, calls, todo, results, round)
		todo = slices.DeleteFunc(todo, func(i int) bool {
			return results[i].Err == nil || driver.ClassOf(results[i].Err) != driver.NoScript
		})
	}
	return results
}

// round sends the calls with the indexes todo and fills in their results. The cluster client would
// also divide them by node, but returns nothing before the last node has replied.
func (d *Driver) round(ctx context.Context, calls []driver.Call, todo []int, results []driver.Result, round int) {
	byNode := map[string][]int{}
	for _, i := range todo {
		node := ""
		if len(calls[i].Keys) > 0 {
			node = d.Shard(calls[i].Keys[0])
		}
		byNode[node] = append(byNode[node], i)
	}
	var nodes sync.WaitGroup
	for _, group := range byNode {
		if len(byNode) == 1 {
			d.node(ctx, calls, group, results, round)
			return
		}
		nodes.Go(func() { d.node(ctx, calls, group, results, round) })
	}
	nodes.Wait()
}

// node sends the calls of one node in pipelines, one after another. When one breaks, it does not
// try the next: if a server is down, each would take as long as the first.
func (d *Driver) node(ctx context.Context, calls []driver.Call, todo []int, results []driver.Result, round int) {
	var broken error
	for part := range slices.Chunk(todo, pipelineSize) {
		if broken == nil {
			broken = d.pipeline(ctx, calls, part, results, round)
			continue
		}
		err := driver.ContextError(ctx, driver.NotSent)
		if ctx.Err() == nil {
			err = &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("not sent, as an earlier part of the batch failed: %w", broken)}
		}
		for _, i := range part {
			results[i] = driver.Result{Err: err}
		}
	}
}

// pipeline sends calls in one pipeline and fills in their results. It returns an error if there was
// no connection, or if the connection broke before the last reply.
func (d *Driver) pipeline(ctx context.Context, calls []driver.Call, todo []int, results []driver.Result, round int) (broken error) {
	if err := d.begin(ctx); err != nil {
		for _, i := range todo {
			results[i] = driver.Result{Err: err}
		}
		return err
	}
	cmds := pipelined(ctx, calls, todo, round)
	var err error
	returned := d.attend(ctx, func(ctx context.Context) {
		_, err = d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range cmds {
				if err := p.Process(ctx, cmd); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for j, i := range todo {
		if !returned {
			broken = d.left(ctx, cmds[j].abandon())
			results[i] = driver.Result{Err: broken}
			continue
		}
		if results[i] = d.result(cmds[j], err); results[i].Err != nil {
			if class := driver.ClassOf(results[i].Err); class == driver.Unknown || class == driver.NotSent {
				broken = results[i].Err
			}
		}
	}
	return broken
}

// result returns the outcome of a command of a pipeline that returned err.
func (d *Driver) result(cmd *command, err error) driver.Result {
	own := cmd.Err()
	if own == nil && cmd.Val() == nil {
		own = err
	}
	reply, err := d.outcome(cmd, own)
	if err != nil {
		return driver.Result{Err: err}
	}
	v, err := value(reply)
	return driver.Result{Value: v, Err: err}
}

// pipelined returns the commands of one pipeline, see Batch for the rounds.
func pipelined(ctx context.Context, calls []driver.Call, todo []int, round int) []*command {
	cmds := make([]*command, len(todo))
	known := map[*driver.Script]bool{}
	for j, i := range todo {
		script := calls[i].Script
		if round == 3 || round == 2 && !known[script] {
			cmds[j], known[script] = bySource(ctx, calls[i]), true
		} else {
			cmds[j] = byDigest(ctx, calls[i])
		}
	}
	return cmds
}
