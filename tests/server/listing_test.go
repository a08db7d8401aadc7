package server

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A walk over a cluster finds what is held on each server among other keys, also while a slot is on its way:
// with keys that have gone already, and keys that have not.
func TestRealLocksOfACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		const locks, other = 30, 3000
		prefix := driver + ":"
		c := dial(&mortise.Options{Prefix: prefix})
		want := map[string]bool{}
		hold := func(name string) {
			h, _ := mustLock(t, c.Lock(name), t.Context())
			t.Cleanup(func() { _ = h.Unlock() })
			want[name] = true
		}
		for i := range locks {
			hold(fmt.Sprint("job", i))
		}
		hold("{moving}:gone")
		hold("{moving}:stays")
		for i := range other {
			key := fmt.Sprint(prefix, "user", i)
			set.Owner(t, key).Must(t, "HSET", key, "name", "x", "age", "1", "mail", "y")
		}
		list := func(when string) {
			t.Helper()
			got := map[string]bool{}
			for state, err := range c.Locks(t.Context(), "*") {
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				got[state.Name] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s it lists %q, want %q", when, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
		list("at rest")
		key := prefix + "{moving}:gone"
		slot, from := set.Slot(t, key), set.Owner(t, key)
		to := set.Nodes()[0]
		if to == from {
			to = set.Nodes()[1]
		}
		set.BeginMove(t, slot, from, to)
		set.MoveKeys(t, slot, from, to, key)
		list("with a slot on its way")
		rest, _ := from.Do("CLUSTER", "GETKEYSINSLOT", fmt.Sprint(slot), "100")
		var keys []string
		for _, k := range rest.([]any) {
			keys = append(keys, fmt.Sprint(k))
		}
		set.MoveKeys(t, slot, from, to, keys...)
		set.EndMove(t, slot, to)
		list("with a slot that has moved")
	})
}
