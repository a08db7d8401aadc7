package rueidis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/pipeline"
	"github.com/mortise-go/mortise/internal/scan"
)

// Eval implements driver.Driver.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if err := d.check(call); err != nil {
		return driver.Value{}, err
	}
	msg, err := d.script(ctx, &call, "EVALSHA", call.Script.SHA())
	if err != nil && driver.ClassOf(err) == driver.NoScript {
		msg, err = d.script(ctx, &call, "EVAL", call.Script.Source())
	}
	if err != nil {
		return driver.Value{}, err
	}
	return value(&msg)
}

// script sends one script and returns its reply.
func (d *Driver) script(ctx context.Context, call *driver.Call, name, text string) (redis.RedisMessage, error) {
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return redis.RedisMessage{}, driver.ContextError(ctx, driver.NotSent)
		}
		r := route{pipeline: d.pipelineOf(call)}
		result, err := d.run(ctx, r.pipeline, d.command(name, text, call))
		if err != nil {
			return redis.RedisMessage{}, err
		}
		if attempt < tries && isForeign(result.NonRedisError()) && d.life.Err() == nil {
			continue
		}
		msg, err := result.ToMessage()
		if failed := d.failure(err, r); failed == nil || !d.cluster || len(call.Keys) == 0 || driver.ClassOf(failed) != driver.NotSent {
			return msg, failed
		}
		if node := d.successor(ctx, call.Keys[0], err); node != nil {
			return d.do(ctx, node, d.command(name, text, call))
		}
		return msg, d.failure(err, r)
	}
}

// command builds EVALSHA or EVAL. rueidis resends only commands marked as read-only, which these
// are not, and after MOVED and ASK.
func (d *Driver) command(name, text string, call *driver.Call) redis.Completed {
	keys := int64(len(call.Keys))
	if name == "EVALSHA" {
		return d.client.B().Evalsha().Sha1(text).Numkeys(keys).Key(call.Keys...).Arg(call.Args...).Build()
	}
	return d.client.B().Eval().Script(text).Numkeys(keys).Key(call.Keys...).Arg(call.Args...).Build()
}

// check refuses calls on which the client's builder would panic.
func (d *Driver) check(call driver.Call) error {
	if !d.cluster || len(call.Keys) == 0 {
		return nil
	}
	d.slots.touch()
	for _, key := range call.Keys[1:] {
		if slotOf(key) != slotOf(call.Keys[0]) {
			return &driver.Error{Class: driver.CrossSlot, Err: fmt.Errorf(
				"rueidis: the keys %q and %q of script %s are in different slots of the cluster", call.Keys[0], key, call.Script.Name())}
		}
	}
	return nil
}

// Batch implements driver.Driver.
func (d *Driver) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	todo := make([]int, 0, len(calls)) // indexes of the calls still to be sent
	for i, call := range calls {
		if results[i].Err = d.check(call); results[i].Err == nil {
			todo = append(todo, i)
		}
	}
	// In the first round all calls are sent by digest, in the second those whose script was not
	// known. There each node gets the text of a script once, and the calls behind it on the same
	// connection rely on that. In the third all are sent as text; only a change of the topology
	// makes it necessary.
	for round := 1; len(todo) > 0 && round <= 3; round++ {
		d.round(ctx, calls, todo, results, round)
		missing := todo[:0]
		for _, i := range todo {
			if err := results[i].Err; err != nil && driver.ClassOf(err) == driver.NoScript {
				missing = append(missing, i)
			}
		}
		todo = missing
	}
	return results
}

// round sends the calls with the indexes todo, one pipeline for each node, and
// fills in their results.
func (d *Driver) round(ctx context.Context, calls []driver.Call, todo []int, results []driver.Result, round int) {
	if ctx.Err() != nil {
		fail(results, todo, driver.ContextError(ctx, driver.NotSent))
		return
	}
	parts := d.parts(calls, todo)
	var others sync.WaitGroup
	for _, p := range parts[1:] {
		others.Go(func() { d.part(ctx, calls, p, results, round) })
	}
	d.part(ctx, calls, parts[0], results, round)
	others.Wait()
}

// part is what goes through one pipeline.
type part struct {
	pipeline *nodePipeline
	indexes  []int
}

// parts divides calls by the node that is believed to serve them, so that a node that does not
// reply fails only its own, and into pipelines.
func (d *Driver) parts(calls []driver.Call, todo []int) []part {
	var parts []part
	current := map[*nodePipeline]int{}
	for _, i := range todo {
		l := d.pipelineOf(&calls[i])
		p, ok := current[l]
		if !ok || len(parts[p].indexes) == maxPipeline {
			p = len(parts)
			current[l] = p
			parts = append(parts, part{pipeline: l})
		}
		parts[p].indexes = append(parts[p].indexes, i)
	}
	return parts
}

func (d *Driver) part(ctx context.Context, calls []driver.Call, p part, results []driver.Result, round int) {
	mine := func(r redis.RedisResult) bool { return !isForeign(r.NonRedisError()) }
	var j *job
	for i := 0; i == 0 || i < tries && !slices.ContainsFunc(j.Load.results, mine) && d.life.Err() == nil; i++ {
		j = d.jobOf(calls, p, round)
		if err := p.pipeline.Run(ctx, j); err != nil {
			fail(results, p.indexes, err)
			return
		}
	}
	for k, i := range p.indexes {
		msg, err := j.Load.results[k].ToMessage()
		if err = d.failure(err, route{pipeline: p.pipeline}); err != nil {
			results[i] = driver.Result{Err: err}
			continue
		}
		results[i].Value, results[i].Err = value(&msg)
	}
}

// jobOf returns the commands for the scripts of a part.
func (d *Driver) jobOf(calls []driver.Call, p part, round int) *job {
	j := pipeline.NewJob[load]()
	j.Weight, j.Load.results = len(p.indexes), make([]redis.RedisResult, len(p.indexes))
	known := map[*driver.Script]bool{}
	for _, i := range p.indexes {
		script := calls[i].Script
		name, text := "EVALSHA", script.SHA()
		if round == 3 || round == 2 && !known[script] {
			name, text = "EVAL", script.Source()
			known[script] = true
		}
		j.Load.cmds = append(j.Load.cmds, d.command(name, text, &calls[i]))
	}
	return j
}

func fail(results []driver.Result, indexes []int, err error) {
	for _, i := range indexes {
		results[i] = driver.Result{Err: err}
	}
}

// Scan implements driver.Scanner.
func (d *Driver) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	if !d.cluster {
		return d.scanNode(ctx, d.client, match, fn)
	}
	if err := d.slots.refresh(ctx); err != nil {
		return err
	}
	nodes := d.client.Nodes()
	return scan.All(ctx, d.slots.masters(), func(ctx context.Context, addr string, fn func([]string) error) error {
		node, ok := nodes[addr]
		if !ok {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("rueidis: the client does not know this master yet, try again")}
		}
		return d.scanNode(ctx, node, match, fn)
	}, fn)
}

func (d *Driver) scanNode(ctx context.Context, node redis.Client, match string, fn func([]string) error) error {
	var cursor uint64
	for {
		msg, err := d.scanPage(ctx, node, cursor, match)
		if err != nil {
			return err
		}
		entry, err := msg.AsScanEntry()
		if err != nil {
			return &driver.Error{Class: driver.Other, Err: errors.Join(errors.New("rueidis: unexpected reply of SCAN"), err)}
		}
		if err := fn(entry.Elements); err != nil {
			return err
		}
		if cursor = entry.Cursor; cursor == 0 {
			return nil
		}
	}
}

// scanPage reads one page. The client sends commands marked as read-only again, but the client of
// one node of a cluster does so forever if the node is gone or the client of the cluster is closed.
func (d *Driver) scanPage(ctx context.Context, node redis.Client, cursor uint64, match string) (redis.RedisMessage, error) {
	if !d.cluster {
		return d.do(ctx, node, node.B().Scan().Cursor(cursor).Match(match).Count(500).Build())
	}
	for again := false; ; again = true {
		cmd := node.B().Arbitrary("SCAN", strconv.FormatUint(cursor, 10), "MATCH", match, "COUNT", "500").Build()
		msg, err := d.do(ctx, node, cmd)
		if err == nil || again || driver.ClassOf(err) != driver.Unknown || ctx.Err() != nil {
			return msg, err
		}
	}
}
