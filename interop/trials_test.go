//go:build interop

package interop

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/canary"
)

// trial is a claim and the test that proves it in one world.
type trial struct {
	claim
	prove func(t *testing.T, w *world)
}

// everywhere proves the trials with each release, over each transport.
func everywhere(t *testing.T, trials []trial) {
	t.Helper()
	t.Parallel()
	for _, version := range redissons(t) {
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				run(t, newWorld(t, version, transport), trials)
			})
		}
	}
}

// inCluster proves the trials with the current release on a cluster, over
// each transport. The table has them apart: what holds on one server may not
// hold there. It is not parallel, so that all such tests share one cluster.
func inCluster(t *testing.T, trials []trial) {
	t.Helper()
	apart := slices.Clone(trials)
	for i := range apart {
		apart[i].object += ", cluster"
	}
	w := newClusterWorld(t, redissons(t)[0], "")
	for _, transport := range slices.Sorted(maps.Keys(transports)) {
		w.transport = transport
		t.Run(transport, func(t *testing.T) { run(t, w, apart) })
		if !empty(w.nodes) {
			t.Fatal("cannot delete the keys of the trials")
		}
	}
}

// run proves the trials one after the other and notes the outcome of those
// that -run has not left out.
func run(t *testing.T, w *world, trials []trial) {
	t.Helper()
	for _, c := range ofCore(trials) {
		name := strings.ReplaceAll(c.says+", "+c.direction, " ", "_")
		tried, lacks := false, ""
		held := t.Run(name, func(t *testing.T) {
			tried = true
			lacks = w.judge(t, c.prove)
		})
		switch {
		case !tried:
		case held && lacks != "":
			proofs.noteAbsent(c.claim, w.String(), lacks)
		default:
			proofs.note(c.claim, w.String(), held)
		}
	}
}

// judge tries what prove proves, with its bounds on real time beside a canary, and returns the release that it
// lacks. A trial that is repeated begins in an empty world. The core has no bounds: when somebody comes is not judged.
func (w *world) judge(t *testing.T, prove func(t *testing.T, w *world)) (lacks string) {
	try := func(t *testing.T, b *canary.Bounds) {
		own := *w
		own.bounds = b
		prove(t, &own)
		lacks = cmp.Or(lacks, proofs.lacks(t.Name()))
	}
	if *core {
		try(t, new(canary.Bounds))
		return lacks
	}
	again := false
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		if again && !empty(slices.Concat(w.nodes, w.servers)) {
			t.Fatal("cannot delete the keys of the trial before")
		}
		again = true
		try(t, b)
	})
	return lacks
}

// since limits the trials to releases that have what they are about.
func since(release string, trials []trial) []trial {
	limited := slices.Clone(trials)
	for i, c := range limited {
		limited[i].prove = func(t *testing.T, w *world) {
			if !w.lacks(t, release) {
				c.prove(t, w)
			}
		}
	}
	return limited
}

// about makes the trials ones of a kind of lock, which is a key of lockKinds.
func about(kind string, trials []trial) []trial {
	changed := slices.Clone(trials)
	for i, c := range changed {
		changed[i].object = kind
		changed[i].prove = func(t *testing.T, w *world) {
			other := *w
			other.kind = lockKinds[kind]
			c.prove(t, &other)
		}
	}
	return since(lockKinds[kind].since, changed)
}

// lacks reports whether the world's Redisson is older than the given release,
// for a trial of what came with that one. The table says so in place of a
// result: nothing is proved.
func (w *world) lacks(t testing.TB, release string) bool {
	t.Helper()
	if atLeast(t, w.version, release) {
		return false
	}
	proofs.lack(t.Name(), release)
	return true
}
