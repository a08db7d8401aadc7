package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// Eval implements driver.Driver.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if err := d.check(call); err != nil {
		return driver.Value{}, err
	}
	msg, err := d.do(ctx, d.client, d.command("EVALSHA", call.Script.SHA(), call))
	if err != nil && driver.ClassOf(err) == driver.NoScript {
		msg, err = d.do(ctx, d.client, d.command("EVAL", call.Script.Source(), call))
	}
	if err != nil {
		return driver.Value{}, err
	}
	return value(&msg)
}

// command builds EVALSHA or EVAL. rueidis sends again only what is marked as
// read-only, which this is not, and what MOVED and ASK ask it to.
func (d *Driver) command(name, script string, call driver.Call) redis.Completed {
	return d.client.B().Arbitrary(name, script, strconv.Itoa(len(call.Keys))).
		Keys(call.Keys...).Args(call.Args...).Build()
}

// check refuses what the client's builder would panic on.
func (d *Driver) check(call driver.Call) error {
	if !d.cluster || len(call.Keys) == 0 {
		return nil
	}
	d.slots.touch()
	for _, key := range call.Keys[1:] {
		if slotOf(key) != slotOf(call.Keys[0]) {
			return &driver.Error{Class: driver.CrossSlot, Err: fmt.Errorf(
				"rueidis: the keys %q and %q of script %s lie in different slots of the cluster", call.Keys[0], key, call.Script.Name())}
		}
	}
	return nil
}

// Batch implements driver.Driver.
func (d *Driver) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	todo := make([]int, 0, len(calls)) // calls to be sent
	for i, call := range calls {
		if results[i].Err = d.check(call); results[i].Err == nil {
			todo = append(todo, i)
		}
	}
	// In the first round all are sent by digest, in the second those whose
	// script was not known. There each node gets the text of a script once,
	// and the calls behind it on the same connection rely on that. In the
	// third, which only a change of the topology makes necessary, all are
	// sent as text.
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
	var flights []*flight
	var indexes [][]int
	for _, group := range d.groups(calls, todo) {
		f := &flight{caller: ctx, many: make([]redis.Completed, len(group))}
		known := map[*driver.Script]bool{}
		for j, i := range group {
			name, text := "EVALSHA", calls[i].Script.SHA()
			if round == 3 || round == 2 && !known[calls[i].Script] {
				name, text = "EVAL", calls[i].Script.Source()
				known[calls[i].Script] = true
			}
			f.many[j] = d.command(name, text, calls[i])
		}
		if err := d.start(f, d.client); err != nil {
			fail(results, group, err)
			continue
		}
		flights, indexes = append(flights, f), append(indexes, group)
	}
	for k, f := range flights {
		if err := d.wait(f); err != nil {
			fail(results, indexes[k], err)
			continue
		}
		for j, i := range indexes[k] {
			msg, err := f.results[j].ToMessage()
			if err = d.failure(err); err != nil {
				results[i] = driver.Result{Err: err}
				continue
			}
			results[i].Value, results[i].Err = value(&msg)
		}
	}
}

// groups divides calls by the node that is believed to serve them, so that a
// node that does not answer fails only its own. The client would divide them
// as well, but returns nothing before all have answered.
func (d *Driver) groups(calls []driver.Call, todo []int) [][]int {
	if !d.cluster {
		return [][]int{todo}
	}
	byNode := map[string]int{}
	var groups [][]int
	for _, i := range todo {
		node := "no key" // which the client does not let mix with others
		if len(calls[i].Keys) > 0 {
			node = d.slots.owner(slotOf(calls[i].Keys[0]))
		}
		g, ok := byNode[node]
		if !ok {
			g = len(groups)
			byNode[node] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
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
	for _, addr := range d.slots.masters() {
		node, ok := nodes[addr]
		if !ok {
			return &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("rueidis: the client does not know master %s yet, try again", addr)}
		}
		if err := d.scanNode(ctx, node, match, fn); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) scanNode(ctx context.Context, node redis.Client, match string, fn func([]string) error) error {
	var cursor uint64
	for {
		msg, err := d.do(ctx, node, node.B().Scan().Cursor(cursor).Match(match).Count(500).Build())
		if err != nil {
			return err
		}
		entry, err := msg.AsScanEntry()
		if err != nil {
			return &driver.Error{Class: driver.Other, Err: errors.Join(errors.New("rueidis: unexpected reply of SCAN"), err)}
		}
		if len(entry.Elements) > 0 {
			if err := fn(entry.Elements); err != nil {
				return err
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			return nil
		}
	}
}
