package script_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

func TestInspect(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.hold(t, "lock", lease, java, "3")
		w.hold(t, "forever", none, javaN, "many")
		w.hold(t, "rw", 10*time.Minute, "mode", "read", java, "1", javaN, "2")
		w.must(t, "SET", "string", "5", "PX", "600000")
		w.must(t, "RPUSH", "list", "a", "b")
		want := map[string]script.Key{
			"lock":    {Type: "hash", TTL: lease, Size: 1, Fields: map[string]string{java: "3"}},
			"forever": {Type: "hash", TTL: -1, Size: 1, Fields: map[string]string{javaN: "many"}},
			"rw":      {Type: "hash", TTL: 10 * time.Minute, Size: 3, Fields: map[string]string{"mode": "read", java: "1", javaN: "2"}},
			"string":  {Type: "string", TTL: 10 * time.Minute, Text: "5"},
			"list":    {Type: "list", TTL: -1},
			"none":    {Type: "none", TTL: -1},
		}
		keys := []string{"lock", "forever", "rw", "string", "list", "none", "lock"}
		for range 2 { // it changes nothing
			results := script.Inspect(t.Context(), w, keys...)
			if len(results) != len(keys) {
				t.Fatalf("%d results for %d keys", len(results), len(keys))
			}
			for i, key := range keys {
				got, want := results[i].Key, want[key]
				if results[i].Err != nil {
					t.Errorf("%s: %v", key, results[i].Err)
				}
				if got.Type != want.Type || got.Size != want.Size || got.Text != want.Text || !w.near(got.TTL, want.TTL) || !maps.Equal(got.Fields, want.Fields) {
					t.Errorf("%s is %+v, want %+v", key, got, want)
				}
			}
		}
		if r := script.Inspect(t.Context(), w); len(r) != 0 {
			t.Errorf("no keys: got %v, want nothing", r)
		}
		for _, r := range script.Inspect(t.Context(), lossy{w}, keys...) {
			if r.Err == nil || driver.ClassOf(r.Err) != driver.Unknown {
				t.Errorf("with a lost reply: %+v, %v, want class unknown", r.Key, r.Err)
			}
		}
	})
}

// Keys that are derived from a name belong to it.
func TestInspectBesideTheName(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		id := "\x00\x01\xff\xfe23456789abcdef"[:16]
		w.fillDerived(t, id)
		for range 2 {
			results := script.Inspect(t.Context(), w, job, "permits", "odd", "none", "{open", "a}b")
			for i, r := range results {
				if r.Err != nil {
					t.Fatalf("%d: %v", i, r.Err)
				}
			}
			w.wantWaiters(t, results[0].Key)
			w.wantPermits(t, results[1].Key, id)
			for i, want := range map[int]string{2: "string", 3: "none", 4: "none", 5: "none"} {
				if k := results[i].Key; k.Type != want || k.Token != "" || k.Queue != nil || k.Permits != nil {
					t.Errorf("%d is %+v, want a %s alone", i, k, want)
				}
			}
		}
	})
}

// fillDerived writes keys that are derived from three names. Id is one of the permits.
func (w *world) fillDerived(t *testing.T, id string) {
	f := fair{w, t, script.Fair{FairKeys: script.NewFairKeys(job)}}
	f.hold(t, job, lease, java, "1")
	f.enqueue(me, step)
	f.enqueue(mine2, 2*step)
	w.must(t, "ZREM", keyspace.FairDeadlines(job), mine2)
	w.must(t, "SET", keyspace.Token(job), "42")
	w.must(t, "SET", "permits", "-3")
	w.must(t, "ZADD", keyspace.PermitExpiries("permits"), fmt.Sprint(f.now()+time.Hour.Milliseconds()), id,
		"922337203685477", "old style id", fmt.Sprint(f.now()-time.Hour.Milliseconds()), "over")
	// We have no keys of other types.
	w.must(t, "SET", "odd", "text")
	w.must(t, "RPUSH", keyspace.Token("odd"), "x")
	w.must(t, "SET", keyspace.PermitExpiries("odd"), "x")
	w.must(t, "SET", keyspace.FairQueue("none"), "x")
}

func (w *world) wantWaiters(t *testing.T, k script.Key) {
	t.Helper()
	if k.Token != "42" || len(k.Queue) != 2 || k.Queue[0].ID != me || !w.near(k.Queue[0].Left, step) || k.Queue[0].Ever ||
		k.Queue[1].ID != mine2 || !k.Queue[1].Ever || k.Permits != nil {
		t.Errorf("%s is %+v, want token 42 and two waiters, the second without a deadline", job, k)
	}
}

func (w *world) wantPermits(t *testing.T, k script.Key, id string) {
	t.Helper()
	if k.Text != "-3" || len(k.Permits) != 3 || k.Queue != nil ||
		k.Permits[0].ID != "over" || k.Permits[0].Left >= 0 ||
		k.Permits[1].ID != id || !w.near(k.Permits[1].Left, time.Hour) ||
		k.Permits[2].ID != "old style id" || !k.Permits[2].Ever {
		t.Errorf("permits is %+v, want -3 and three permits", k)
	}
}

// A name may hold any hash, of any size.
func TestInspectHugeHash(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		command := []string{"HSET", job}
		for i := range 1000 {
			command = append(command, fmt.Sprint("f", i), "v")
		}
		w.must(t, command...)
		k := script.Inspect(t.Context(), w, job)[0].Key
		if k.Size != 1000 || len(k.Fields) != 1000 {
			t.Errorf("a hash of 1000 fields: got size %d and %d fields, want all", k.Size, len(k.Fields))
		}
		w.must(t, "HSET", job, "one more", "v", "mode", "read")
		for range 3 {
			k = script.Inspect(t.Context(), w, job)[0].Key
			if n := len(k.Fields); k.Size != 1002 || n != 1001 || k.Unlisted() != 1 || k.Fields["mode"] != "read" {
				t.Errorf("a hash of 1002 fields: got size %d, %d fields, %d unlisted and mode %q, want the mode and a thousand", k.Size, len(k.Fields), k.Unlisted(), k.Fields["mode"])
			}
			for f, v := range k.Fields {
				if f != "mode" && (v != "v" || !strings.HasPrefix(f, "f") && f != "one more") {
					t.Errorf("it lists %q as %q, which it has not", f, v)
				}
			}
		}
	})
}

// Without the right to read any of its fields at random, as in a Redis before 6.2 which cannot, the first ones are listed; without
// that to read the first ones, too, only the mode.
func TestInspectHugeHashWithoutRights(t *testing.T) {
	server := single(t)
	onServer(t, "redis-server", server, func(t *testing.T, w *world) {
		command := []string{"HSET", job, "mode", "write"}
		for i := range 1000 {
			command = append(command, fmt.Sprint("f", i), "v")
		}
		w.must(t, command...)
		for right, want := range map[string]int{"hrandfield": 1000, "hrandfield -hscan": 1, "hget": 0, "hstrlen": 1000} {
			rights := append([]string{"+@all", "~*", "&*"}, strings.Fields("-"+right)...)
			r := script.Inspect(t.Context(), w.login(t, rights...), job)[0]
			if n := len(r.Key.Fields); r.Err != nil || r.Key.Type != "hash" || r.Key.Size != 1001 || n < want || n > want+1 {
				t.Errorf("without the right to %s: size %d and %d fields, %v, want 1001 and %d", right, r.Key.Size, n, r.Err, want)
			}
		}
	})
}

// So may the permits of a semaphore.
func TestInspectManyPermits(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "SET", "permits", "7")
		command := []string{"ZADD", keyspace.PermitExpiries("permits")}
		for i := range 1000 {
			command = append(command, fmt.Sprint(i), fmt.Sprint("id", i))
		}
		w.must(t, command...)
		for more, id := range []string{"id0", "another"} {
			w.must(t, "ZADD", keyspace.PermitExpiries("permits"), "5000", id)
			k := script.Inspect(t.Context(), w, "permits")[0].Key
			if k.Size != 1000+more || len(k.Permits) != 1000 || k.Unlisted() != more {
				t.Errorf("%d permits: got size %d, %d permits and %d unlisted", 1000+more, k.Size, len(k.Permits), k.Unlisted())
			}
		}
	})
}

// Of fields with long names, too, whatever their number: on both sides of the numbers of names that are read at first.
func TestInspectLongNames(t *testing.T) {
	server := single(t)
	for _, n := range []int{1, 3, 4, 5, 6, 29, 30, 31, 32} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				command := []string{"HSET", job, "mode", "read"}
				for i := range n {
					command = append(command, fmt.Sprintf("%060000d", i), "v")
				}
				w.must(t, command...)
				k := script.Inspect(t.Context(), w, job)[0].Key
				if want := min(n, 4) + 1; k.Size != n+1 || len(k.Fields) != want || k.Fields["mode"] != "read" {
					t.Errorf("of %d names of 60 kB: size %d, %d fields and mode %q, want %d with the mode", n, k.Size, len(k.Fields), k.Fields["mode"], want)
				}
			})
		})
	}
}

// Of long fields only as many are listed as are 256 KiB together, and the mode.
func TestInspectLongHash(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "HSET", job, "a", strings.Repeat("x", 64<<10), "b", strings.Repeat("x", 64<<10))
		if k := script.Inspect(t.Context(), w, job)[0].Key; len(k.Fields) != 2 {
			t.Errorf("a hash of 128 KiB: got %d fields, want both", len(k.Fields))
		}
		w.must(t, "HSET", job, "c", strings.Repeat("x", 1<<20))
		if k := script.Inspect(t.Context(), w, job)[0].Key; k.Size != 3 || len(k.Fields) != 2 || k.Fields["c"] != "" {
			t.Errorf("a hash with a megabyte: got size %d and %d fields, want the two others", k.Size, len(k.Fields))
		}
		w.must(t, "HSET", job, "a", strings.Repeat("x", 250<<10), "b", strings.Repeat("x", 250<<10), "mode", "write")
		if k := script.Inspect(t.Context(), w, job)[0].Key; k.Size != 4 || len(k.Fields) != 2 || k.Fields["mode"] != "write" {
			t.Errorf("a hash of which one field fits: got size %d, %d fields and mode %q, want the mode and one", k.Size, len(k.Fields), k.Fields["mode"])
		}
	})
}
