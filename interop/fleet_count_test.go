//go:build interop

package interop

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

var operations = flag.Int("operations", 1200, "how often TestMixedFleets has locks acquired, in all; from 100000 on it also asks how fast the sides wake each other")

// TestMixedFleets counts: threads of Redisson and goroutines of mortise add to counters that only the
// locks protect. A missing count at the end is two holders at once.
func TestMixedFleets(t *testing.T) { canary.Judge(t, mixedFleets) }

func mixedFleets(t *testing.T, b *canary.Bounds) {
	type fleet struct{ version, kind string }
	var fleets []fleet
	for _, version := range redissons(t) {
		for _, kind := range slices.Sorted(maps.Keys(lockKinds)) {
			if atLeast(t, version, lockKinds[kind].since) {
				fleets = append(fleets, fleet{version, kind})
			}
		}
	}
	each := (*operations + len(fleets) - 1) / len(fleets)
	sum, javas := 0, 0
	var toGo, toJava []time.Duration
	for i, f := range fleets {
		t.Run(f.version+"/"+f.kind, func(t *testing.T) {
			transport := slices.Sorted(maps.Keys(transports))[i%len(transports)]
			w := *newWorld(t, f.version, transport)
			w.kind, w.bounds = lockKinds[f.kind], b
			inGo, inJava := w.mix(t, each)
			sum, javas = sum+inGo+inJava, javas+inJava
			client := w.client(t, shortLease)
			for n := range max(1, each/100) {
				toJava = append(toJava, wakeJava(t, &w, client, fmt.Sprint("mixed-to-java:", f.kind, n)))
				toGo = append(toGo, wakeGo(t, &w, client, fmt.Sprint("mixed-to-go:", f.kind, n)))
			}
		})
	}
	t.Logf("%d acquisitions in %d mixed fleets, %d of them by Redisson", sum, len(fleets), javas)
	if sum < *operations || javas < *operations/20 {
		t.Errorf("%d acquisitions, %d of them by Redisson; want %d and %d at least", sum, javas, *operations, *operations/20)
	}
	for to, took := range map[string][]time.Duration{"Java": toJava, "Go": toGo} {
		if len(took) == 0 {
			t.Errorf("%s was never woken", to)
			continue
		}
		slices.Sort(took)
		p99 := took[(len(took)-1)*99/100]
		t.Logf("%s was woken %d times, after p50 %v, p99 %v, max %v", to, len(took), took[len(took)/2], p99, took[len(took)-1])
		if *operations >= 100_000 {
			b.Within("the p99 of waking "+to, p99, 50*time.Millisecond)
		}
	}
}

// mix has both sides take a lock so many times in all, and returns how often each has had it.
func (w *world) mix(t *testing.T, total int) (inGo, inJava int) {
	f := w.newField(t, "mixed:"+w.kind.object)
	f.startJava(t, 3, 0, total)
	f.startGo(t, 2, 2, 0, total)
	mustUnlock(t, f.gate)
	f.finish(t, total)
	return f.inGo.Times, f.inJava.Times
}
