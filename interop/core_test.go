//go:build interop

package interop

import (
	"flag"
	"slices"
	"testing"
	"time"
)

// core is what each change must pass; see run.sh.
var core = flag.Bool("core", false, "prove only what is in coreClaims, with the newest release, and judge no real time")

// The object, and what is claimed of it in both directions: for each kind that the two sides share that they write
// the same, exclude each other, wake each other, and let no stranger release what others hold.
var coreClaims = map[string][]string{
	"Lock":            coreOfLocks,
	"FairLock":        append([]string{"queue position and deadline are read", "one attempt does not queue or overtake"}, coreOfLocks...),
	"FencedLock":      append([]string{"tokens rise by one with each acquisition", "newest token is read"}, coreOfLocks...),
	"SpinLock":        append([]string{"release is noticed within a back-off"}, coreOfLocks...),
	"RWLock":          {"writers exclude each other", "writers and readers exclude each other", "readers read together, with exact keys", "writer's release wakes all readers", "last reader's release wakes a writer", "unlock by a stranger is refused"},
	"MultiLock":       {"excludes each member, all or none", "release wakes the waiter", "one name on several servers"},
	"Redlock":         {"excludes", "a majority is enough", "release wakes the waiter"},
	"GroupLock":       {"values have the same fields", "excludes where values overlap", "values that do not overlap are free", "release wakes all waiters"},
	"Semaphore":       {"never more out than there are", "release wakes a waiter for n", "set, acquired, drained, deleted: the same number"},
	"PermitSemaphore": {"permits are counted alike", "never more out than there are", "release wakes the waiter", "released by id", "released by id, holder notices"},
	"CountDownLatch":  {"at zero all waiters go on", "both count down, each sees the count"},
}

var coreOfLocks = []string{"excludes", "count and TTL are read", "release wakes the waiter", "unlock by a stranger is refused"}

// ofCore returns the trials that are to be run: all of them, or those of the core.
func ofCore(trials []trial) []trial {
	if !*core {
		return trials
	}
	return slices.DeleteFunc(slices.Clone(trials), func(c trial) bool { return !slices.Contains(coreClaims[c.object], c.says) })
}

// untimed makes real time irrelevant to what the core proves: who is not woken waits for longer than the test, no
// lease ends, and one try is enough.
func untimed() {
	shortLease, longLease, pastLease, rounds = 30*time.Second, 2*time.Hour, 0, 1
}

// Each claim of the core has a trial, or it is proved no more when somebody words it differently.
func TestCoreIsKnown(t *testing.T) {
	known := map[string][]string{}
	for _, trials := range [][]trial{
		lockTrials, about("FairLock", lockTrials), about("FairLock", fairTrials), about("FencedLock", lockTrials), fencedTrials, spinTrials,
		rwTrials, multiTrials, redlockTrials, groupTrials, semaphoreTrials, permitTrials, latchTrials,
	} {
		for _, c := range trials {
			known[c.object] = append(known[c.object], c.says)
		}
	}
	for object, claims := range coreClaims {
		for _, says := range claims {
			if object == "SpinLock" && says == "release wakes the waiter" {
				continue // nobody wakes who spins
			}
			if !slices.Contains(known[object], says) {
				t.Errorf("there is no trial of %s: %s", object, says)
			}
		}
	}
}
