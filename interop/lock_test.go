//go:build interop

package interop

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// trial is a claim and the test that proves it in one world.
type trial struct {
	claim
	prove func(t *testing.T, w *world)
}

// run proves the trials one after the other and notes the outcome of those
// that -run has not left out.
func run(t *testing.T, w *world, trials []trial) {
	t.Helper()
	for _, c := range trials {
		name := strings.ReplaceAll(c.says+", "+c.direction, " ", "_")
		tried := false
		held := t.Run(name, func(t *testing.T) {
			tried = true
			c.prove(t, w)
		})
		if tried {
			proofs.note(c.claim, w.String(), held)
		}
	}
}

// lockTrials are what is claimed of Lock beside Redisson's RLock.
var lockTrials = []trial{
	{claim{"Lock", "excludes", "Go <-> Java"}, exclusion},
	{claim{"Lock", "release wakes the waiter", "Go -> Java"}, goReleaseWakesJava},
	{claim{"Lock", "release wakes the waiter", "Java -> Go"}, javaReleaseWakesGo},
	{claim{"Lock", "unusual names mean the same lock", "Go <-> Java"}, unusualNames},
	{claim{"Lock", "count and TTL are read", "Go -> Java"}, javaReadsGoState},
	{claim{"Lock", "count and TTL are read", "Java -> Go"}, goReadsJavaState},
	{claim{"Lock", "unlock by a stranger is refused", "Go -> Java"}, javaCannotUnlockGo},
	{claim{"Lock", "unlock by a stranger is refused", "Java -> Go"}, goCannotUnlockJava},
	{claim{"Lock", "watchdog outlasts the lease", "Go -> Java"}, goWatchdogOutlastsLease},
	{claim{"Lock", "watchdog outlasts the lease", "Java -> Go"}, javaWatchdogOutlastsLease},
	{claim{"Lock", "fixed lease ends by itself", "Go -> Java"}, goFixedLeaseEnds},
	{claim{"Lock", "fixed lease ends by itself", "Java -> Go"}, javaFixedLeaseEnds},
	{claim{"Lock", "killed holder: free at the lease's end", "Go -> Java"}, killedGoHolder},
	{claim{"Lock", "killed holder: free at the lease's end", "Java -> Go"}, killedJavaHolder},
	{claim{"Lock", "frozen holder: finds out when it wakes", "Go -> Java"}, frozenGoHolder},
	{claim{"Lock", "frozen holder: finds out when it wakes", "Java -> Go"}, frozenJavaHolder},
	{claim{"Lock", "forced: waiter wakes, holder notices", "Go forces Go"}, goForcesGo},
	{claim{"Lock", "forced: waiter wakes, holder notices", "Go forces Java"}, goForcesJava},
	{claim{"Lock", "forced: waiter wakes, holder notices", "Java forces Go"}, javaForcesGo},
	{claim{"Lock", "forced: waiter wakes, holder notices", "Java forces Java"}, javaForcesJava},
	{claim{"Lock", "inflated count is survived", "Java -> Go"}, inflatedCount},
	{claim{"Lock", "key without TTL is survived", "foreign -> Go"}, keyWithoutTTL},
	{claim{"Lock", "unlock latch keys do not disturb", "Java -> Go"}, unlockLatchKeys},
}

func TestLock(t *testing.T) {
	for _, version := range redissons(t) {
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				run(t, newWorld(t, version, transport), lockTrials)
			})
		}
	}
}
