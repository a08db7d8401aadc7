package script_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// fillSieve writes keys of all sorts, and returns those that may be held.
func (w *world) fillSieve(t *testing.T) (held, other []string) {
	t.Helper()
	w.hold(t, "lock", lease, java, "3")
	w.hold(t, "of a transaction", none, javaT, "1")
	w.hold(t, "read", lease, "mode", "read", java, "1", javaN, "2")
	w.hold(t, "write", lease, "mode", "write", java+":write", "1")
	w.hold(t, "election", lease, "mode", "election", java, "1", "value", "x", "term", "7", "edition", "1")
	w.hold(t, "group", lease, "v", java, "v:"+java+":expire_time", "9", "v:"+java+":lock_count", "1")
	w.fillGroup(t, "large group", 334)
	w.must(t, "SET", "permits", "3")
	w.must(t, "ZADD", keyspace.PermitExpiries("permits"), "9", "id")
	w.must(t, "SET", "{braced}x", "text") // a closer look tells that it is no number
	w.must(t, "ZADD", keyspace.PermitExpiries("{braced}x"), "9", "id")
	held = []string{"lock", "of a transaction", "read", "write", "election", "group", "large group", "permits", "{braced}x"}

	w.hold(t, "a user", none, "name", "x")
	w.hold(t, "almost a lock", none, java[:36]+":", "1")
	w.hold(t, "almost a group", none, "a", "1", "b", "2", "c", "3")
	w.hold(t, "two fields", none, "a", "1", java, "1")
	w.hold(t, "another mode", none, "mode", "dark", java, "1")
	w.hold(t, "a long mode", none, "mode", string(make([]byte, 1<<16)), java, "1")
	w.must(t, "SET", "number", "5")
	w.must(t, "RPUSH", "list", "a")
	w.must(t, "SADD", "set", java)
	w.must(t, "ZADD", "zset", "1", java)
	other = []string{"a user", "almost a lock", "almost a group", "two fields", "another mode", "a long mode", "number", "list", "set", "zset", "none"}
	return held, other
}

// fillGroup writes so many values of a GroupLock.
func (w *world) fillGroup(t *testing.T, key string, values int) {
	t.Helper()
	command := []string{"HSET", key}
	for i := range values {
		v := fmt.Sprint("v", i)
		command = append(command, v, java, v+":"+java+":expire_time", "9", v+":"+java+":lock_count", "1")
	}
	w.must(t, command...)
}

func TestSift(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		held, other := w.fillSieve(t)
		mixed := slices.Concat(other, held, other[:3], held[:2])
		want := slices.Concat(held, held[:2])
		if got, answered := script.Sift(t.Context(), w, mixed); !slices.Equal(got, want) || !answered {
			t.Errorf("of %q it leaves %q (answered: %v), want %q", mixed, got, answered, want)
		}
		if got, _ := script.Sift(t.Context(), w, nil); len(got) != 0 {
			t.Errorf("of nothing it leaves %q", got)
		}
		if got, answered := script.Sift(t.Context(), lossy{w}, mixed); !slices.Equal(got, mixed) || answered {
			t.Errorf("where the replies are lost it leaves %q (answered: %v), want all", got, answered)
		}
	})
}

// What it cannot read it does not judge. Each right to read is missing once.
func TestSiftWithoutRights(t *testing.T) {
	server := single(t)
	onServer(t, "redis-server", server, func(t *testing.T, w *world) {
		held, other := w.fillSieve(t)
		all := slices.Concat(held, other)
		for _, right := range []string{"type", "hlen", "hkeys", "hstrlen", "hget", "hrandfield"} {
			got, _ := script.Sift(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right), all)
			for _, name := range held {
				if !slices.Contains(got, name) {
					t.Errorf("without the right to %s it leaves out %q, which may be held", right, name)
				}
			}
		}
		got, _ := script.Sift(t.Context(), w.login(t, "+@all", "~lock", "&*"), all)
		if !slices.Equal(got, all) {
			t.Errorf("without the right to other keys it leaves %q, want all", got)
		}
	})
}

// However much there is in keys, a script reads a bounded part of it, and leaves the rest to the caller.
func TestSiftIsBounded(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		var names []string
		for i := range 20 { // 18,000 fields in all
			command := []string{"HSET", fmt.Sprint("big", i)}
			for j := range 900 {
				command = append(command, fmt.Sprint("f", j), "v")
			}
			w.must(t, command...)
			names = append(names, command[1])
		}
		huge := []string{"HSET", "huge"}
		for j := range 3003 {
			huge = append(huge, fmt.Sprint("f", j), "v")
		}
		w.must(t, huge...)
		w.fillGroup(t, "group", 1001)
		w.hold(t, job, lease, me, "1")
		got, _ := script.Sift(t.Context(), w, append(names, "huge", "group", job))
		if want := append(names[11:len(names):len(names)], "group", job); !slices.Equal(got, want) {
			t.Errorf("it leaves %q, want the hashes behind the first 10,000 fields, the group, and %s", got, job)
		}
		if got, _ := script.Sift(t.Context(), w, []string{"huge", "group"}); !slices.Equal(got, []string{"group"}) {
			t.Errorf("of two large hashes it leaves %q, want the group", got)
		}
	})
}

// Names come in one script for up to 250 of a server.
func TestSiftInParts(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		var names, want []string
		for i := range 1201 {
			name := fmt.Sprint("name:", i)
			names = append(names, name)
			if i%400 == 0 {
				w.hold(t, name, lease, me, "1")
				want = append(want, name)
			}
		}
		count := &counted{Driver: w}
		if got, _ := script.Sift(t.Context(), count, names); !slices.Equal(got, want) {
			t.Errorf("it leaves %q, want %q", got, want)
		}
		if count.calls != 5 || count.batches != 1 {
			t.Errorf("%d scripts in %d batches, want 5 in one", count.calls, count.batches)
		}
		for _, reply := range []driver.Value{{}, driver.IntValue(1), driver.StringValue("x"), driver.ArrayValue([]driver.Value{driver.IntValue(0)}),
			driver.ArrayValue([]driver.Value{driver.IntValue(1), driver.IntValue(252)}), driver.ArrayValue([]driver.Value{driver.StringValue("1")})} {
			if got, _ := script.Sift(t.Context(), &counted{Driver: w, reply: &reply}, names); !slices.Equal(got, names) {
				t.Errorf("of the reply %v it makes %d names, want all", reply, len(got))
			}
		}
	})
}

// counted counts scripts, and may reply to them itself.
type counted struct {
	driver.Driver
	calls, batches int
	reply          *driver.Value
}

func (d *counted) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	d.calls, d.batches = d.calls+len(calls), d.batches+1
	if d.reply == nil {
		return d.Driver.Batch(ctx, calls)
	}
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Value = *d.reply
	}
	return results
}

// On a cluster, names are sorted by their server, and come back in their order.
func TestSiftOnShards(t *testing.T) {
	t.Parallel()
	d := &shards{}
	names := []string{"a1", "b1", "a2", "c1", "b2", "a3"}
	if got, _ := script.Sift(t.Context(), d, names); !slices.Equal(got, []string{"a1", "b1", "c1"}) {
		t.Errorf("it leaves %q, want the first of each server", got)
	}
	if want := []string{"a1 3", "b1 2", "c1 1"}; !slices.Equal(d.calls, want) {
		t.Errorf("the calls are %q, want %q", d.calls, want)
	}
	d.broken = true
	if got, _ := script.Sift(t.Context(), d, names); !slices.Equal(got, []string{"a1", "b1", "c1", "b2"}) {
		t.Errorf("where a server fails it leaves %q, want all of that one", got)
	}
}

// shards is a cluster whose servers have the names of one letter each, of which the first is held.
type shards struct {
	driver.Driver
	broken bool
	calls  []string
}

func (d *shards) Shard(key string) string { return key[:1] }

func (d *shards) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

func (d *shards) Batch(_ context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		d.calls = append(d.calls, fmt.Sprint(call.Keys[0], " ", len(call.Args)/2))
		if results[i].Value = driver.ArrayValue([]driver.Value{driver.IntValue(1)}); d.broken && call.Keys[0] == "b1" {
			results[i] = driver.Result{Err: &driver.Error{Class: driver.Passing, Err: errors.New("down")}}
		}
	}
	return results
}
