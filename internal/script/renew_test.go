package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// leased is possible content of a key to renew, and its content afterwards.
type leased struct {
	name  string
	put   func(t *testing.T, w *world, key string)
	state int
	after string
	ttl   time.Duration
}

func put(ttl time.Duration, fields ...string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, key string) { w.hold(t, key, ttl, fields...) }
}

var leases = []leased{
	{"mine", put(time.Minute, me, "1"), script.Renewed, "hash " + me + "=1", lease},
	{"mine, counted", put(time.Minute, me, "4"), script.Renewed, "hash " + me + "=4", lease},
	{"mine, for longer", put(10*time.Minute, me, "1"), script.Renewed, "hash " + me + "=1", 10 * time.Minute},
	{"mine, without TTL", put(none, me, "1"), script.Renewed, "hash " + me + "=1", lease},
	{"mine, count that is no number", put(time.Minute, me, "x"), script.Renewed, "hash " + me + "=x", lease},
	{"mine, among others", put(time.Minute, me, "1", "mode", "read", java, "1"), script.Renewed, "hash " + me + "=1 " + java + "=1 mode=read", lease},
	{"gone", func(*testing.T, *world, string) {}, script.Gone, "nothing", absent},
	{"Java's", put(time.Minute, java, "1"), script.Taken, "hash " + java + "=1", time.Minute},
	{"Java's, without TTL", put(none, javaN, "2"), script.Taken, "hash " + javaN + "=2", none},
	{"another number of this client", put(time.Minute, mine2, "1"), script.Taken, "hash " + mine2 + "=1", time.Minute},
	{"write lock", put(time.Minute, "mode", "write", java+":write", "1"), script.Taken, "hash " + java + ":write=1 mode=write", time.Minute},
	{"string", func(t *testing.T, w *world, key string) { w.must(t, "SET", key, "5") }, script.Taken, "string 5", none},
	{"list", func(t *testing.T, w *world, key string) { w.must(t, "RPUSH", key, "a") }, script.Taken, `list ["a"]`, none},
}

// A full batch, in which each kind of key occurs several times: one that is
// lost or broken must not harm its neighbours.
func TestRenewFullBatches(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		groups := make([][]script.Renewal, 3)
		which := func(g, i int) leased { return leases[(g*script.RenewBatch+i)%len(leases)] }
		key := func(g, i int) string { return fmt.Sprintf("job:%d:%d", g, i) }
		sizes := []int{script.RenewBatch, script.RenewBatch, 1}
		for g, size := range sizes {
			for i := range size {
				which(g, i).put(t, w, key(g, i))
				groups[g] = append(groups[g], script.LockRenewal(key(g, i), me, lease))
			}
		}
		for _, run := range []string{"first", "repeat"} {
			results := script.Renew(t.Context(), w, groups)
			for g, size := range sizes {
				if results[g].Err != nil {
					t.Fatalf("%s: group %d: %v", run, g, results[g].Err)
				}
				for i := range size {
					k := which(g, i)
					if got := results[g].States[i]; got != k.state {
						t.Errorf("%s: %s (%s) is %d, want %d", run, key(g, i), k.name, got, k.state)
					}
					w.wantDump(t, key(g, i), k.after)
					w.wantTTL(t, key(g, i), k.ttl)
				}
			}
		}
		for _, r := range script.Renew(t.Context(), lossy{w}, groups) {
			if r.Err == nil || driver.ClassOf(r.Err) != driver.Unknown {
				t.Errorf("with a lost reply: %v, %v, want class unknown", r.States, r.Err)
			}
		}
	})
}

func TestRenewEachWithItsOwnLease(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.hold(t, "a", time.Minute, me, "1")
		w.hold(t, "b", time.Minute, mine2, "1")
		r := script.Renew(t.Context(), w, [][]script.Renewal{{
			script.LockRenewal("a", me, 5*time.Minute),
			script.LockRenewal("b", mine2, 10*time.Minute+999*time.Microsecond),
			script.LockRenewal("b", me, time.Hour),
		}})[0]
		if want := []int{script.Renewed, script.Renewed, script.Taken}; !slices.Equal(r.States, want) {
			t.Errorf("the states are %v, %v, want %v", r.States, r.Err, want)
		}
		w.wantTTL(t, "a", 5*time.Minute)
		w.wantTTL(t, "b", 10*time.Minute)
	})
}

func TestRenewNothing(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		if r := script.Renew(t.Context(), w, nil); len(r) != 0 {
			t.Errorf("no groups: got %v, want nothing", r)
		}
	})
}
