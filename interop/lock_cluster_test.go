//go:build interop

package interop

import (
	"maps"
	"slices"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// fleet is how the two sides of a cluster announce releases.
type fleet struct {
	object  string // for the table
	sharded string // Redisson's setting, empty for its default
	pubsub  mortise.PubSub
}

// fleetsOf returns the fleets in which a Go client and that release of
// Redisson wake each other. In a cluster, Redisson 3.22 and later speaks with
// SPUBLISH and receives nothing else, and since 3.29 it can be told not to; older
// ones know PUBLISH only. Either receives the messages of a Go client that does both.
func fleetsOf(t testing.TB, version string) []fleet {
	t.Helper()
	const sharded, classic, both = "Lock, cluster, sharded", "Lock, cluster, classic", "Lock, cluster, Go both"
	if !atLeast(t, version, "3.22.0") {
		return []fleet{{classic, "", mortise.PubSubClassic}, {both, "", mortise.PubSubBoth}}
	}
	fleets := []fleet{{sharded, "", mortise.PubSubAuto}, {both, "", mortise.PubSubBoth}}
	if atLeast(t, version, "3.29.0") {
		fleets = append(fleets, fleet{classic, "off", mortise.PubSubClassic})
	}
	return fleets
}

// TestLockInCluster tries what a cluster can change: whether messages arrive.
func TestLockInCluster(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 0)
			for _, f := range fleetsOf(t, version) {
				w := &world{
					version: version, nodes: cluster.Masters, cluster: cluster, kind: lockKinds["Lock"],
					sharded: f.sharded, pubsub: f.pubsub,
				}
				w.java = w.startAgent(t)
				for _, transport := range slices.Sorted(maps.Keys(transports)) {
					w.transport = transport
					run(t, w, []trial{
						{claim{f.object, "excludes", "Go <-> Java"}, exclusion},
						{claim{f.object, "release wakes the waiter", "Go -> Java"}, goReleaseWakesJava},
						{claim{f.object, "release wakes the waiter", "Java -> Go"}, javaReleaseWakesGo},
					})
				}
			}
		})
	}
}

// TestKindsInCluster tries the same of the other kinds of lock, with the
// current release.
func TestKindsInCluster(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lockKinds)) {
		if name == "Lock" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			trials := []trial{
				{claim{name, "excludes", "Go <-> Java"}, exclusion},
				{claim{name, "release wakes the waiter", "Go -> Java"}, goReleaseWakesJava},
				{claim{name, "release wakes the waiter", "Java -> Go"}, javaReleaseWakesGo},
			}
			if name == "FairLock" {
				trials = append(trials, trial{claim{name, "first come, first served, 200 waiters", "Go <-> Java"}, fairOrder})
			}
			inCluster(t, about(name, trials))
		})
	}
}
