package script

import (
	"context"
	"slices"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var sift = load("sift")

// siftMost is how many keys one script looks at: it runs for about a millisecond.
const siftMost = 250

// Sift returns those of the names that may be held, in their order, with one script for up to 250
// names of a server; [Inspect] reads them. A name is left out only if Redis has said that it is not held. Answered reports
// whether it has replied to each script.
func Sift(ctx context.Context, d driver.Driver, names []string) (list []string, answered bool) {
	t, err := d.Topology(ctx)
	var calls []driver.Call
	var of [][]int // the places of their names
	for _, places := range byShard(d, names) {
		for part := range slices.Chunk(places, siftMost) {
			call := driver.Call{Script: sift}
			if err != nil || t.Cluster { // elsewhere the user may have no right to the key
				call.Keys = []string{names[part[0]]}
			}
			for _, i := range part {
				call.Args = append(call.Args, names[i], keyspace.PermitExpiries(names[i]))
			}
			calls, of = append(calls, call), append(of, part)
		}
	}
	var held []int
	answered = true
	for i, r := range d.Batch(ctx, calls) {
		held = append(held, sifted(r, of[i])...)
		if class := driver.ClassOf(r.Err); r.Err != nil && (class == driver.NotSent || class == driver.Unknown) {
			answered = false
		}
	}
	slices.Sort(held)
	list = make([]string, len(held))
	for i, place := range held {
		list[i] = names[place]
	}
	return list, answered
}

// byShard returns the places of names, those of one server together.
func byShard(d driver.Driver, names []string) (groups [][]int) {
	at := make(map[string]int)
	for i, name := range names {
		shard := d.Shard(name)
		g, ok := at[shard]
		if !ok {
			g = len(groups)
			at[shard], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// sifted returns those of the places that the reply names; all of them if there is none.
func sifted(r driver.Result, places []int) (held []int) {
	if r.Err != nil || r.Value.Kind() != driver.Array {
		return places
	}
	for i := range r.Value.Len() {
		n := r.Value.At(i).Int()
		if n < 1 || n > int64(len(places)) {
			return places
		}
		held = append(held, places[n-1])
	}
	return held
}
