//go:build interop

package interop

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/mortise-go/mortise"
)

// lockTrials are what is claimed of Lock together with Redisson's RLock.
var lockTrials = []trial{
	{claim{"Lock", "excludes", "Go <-> Java"}, exclusion},
	{claim{"Lock", "release wakes the waiter", "Go -> Java"}, goReleaseWakesJava},
	{claim{"Lock", "release wakes the waiter", "Java -> Go"}, javaReleaseWakesGo},
	{claim{"Lock", "a limited wait names the holder, or has the lock", "Java -> Go"}, limitedWait},
	{claim{"Lock", "unusual names mean the same lock", "Go <-> Java"}, unusualNames},
	{claim{"Lock", "count and TTL are read", "Go -> Java"}, javaReadsGoState},
	{claim{"Lock", "count and TTL are read", "Java -> Go"}, goReadsJavaState},
	{claim{"Lock", "unlock by a stranger is refused", "Go -> Java"}, javaCannotUnlockGo},
	{claim{"Lock", "unlock by a stranger is refused", "Java -> Go"}, goCannotUnlockJava},
	{claim{"Lock", "watchdog outlasts the lease", "Go -> Java"}, goWatchdogOutlastsLease},
	{claim{"Lock", "watchdog outlasts the lease", "Java -> Go"}, javaWatchdogOutlastsLease},
	{claim{"Lock", "fixed lease ends by itself", "Go -> Java"}, goFixedLeaseEnds},
	{claim{"Lock", "fixed lease ends by itself", "Java -> Go"}, javaFixedLeaseEnds},
	{claim{"Lock", "TTL of its own", "Go -> Java"}, goTTLOfItsOwn},
	{claim{"Lock", "MaxHold ends a renewed hold", "Go -> Java"}, goMaxHoldEnds},
	{claim{"Lock", "MinHold keeps a released lock", "Go -> Java"}, goMinHoldKeeps},
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

// lockKind is a kind of lock that both sides have. All kinds are tried in the
// same ways.
type lockKind struct {
	object string // mortise's name of it
	java   string // the agent's
	since  string // the first release that has it, empty for all
	open   func(c *mortise.Client, name string, o mortise.LockOptions) taker
	// channels returns where the waiters for the lock listen now. It does
	// not ask mortise, which is on trial.
	channels func(t testing.TB, w *world, name string) []string
	// pollsSince is the first release whose waiters find out by themselves
	// that a lease has ended. Before 3.32.0, a waiter for a fair lock whose
	// holder renews is told a negative time, and then trusts in messages.
	pollsSince string
	// lenient tells that Redisson lets a stranger unlock what nobody holds.
	lenient bool
}

// verb returns the agent's command for a verb of the kind.
func (k lockKind) verb(verb string) string { return (&thread{kind: k.java}).verb(verb) }

// lockChannels: all listen to one channel, but for the mortise clients that wait
// for a lock of mortise's. Each of those has a turn, and a channel of its own.
func lockChannels(t testing.TB, w *world, name string) []string {
	t.Helper()
	channels := []string{channelOf(name)}
	holders := w.holders(t, name)
	if len(holders) != 1 || !mortiseOwner.MatchString(holders[0]) {
		return channels
	}
	return append(channels, w.turns(t, name)...)
}

// holders returns the fields of a lock's hash: its holders.
func (w *world) holders(t testing.TB, name string) (holders []string) {
	t.Helper()
	for _, holder := range w.serverOf(t, name).Must(t, "HKEYS", name).([]any) {
		holders = append(holders, holder.(string))
	}
	return holders
}

// mortiseOwner matches a holder or waiter that is mortise's: the UUID has version
// 8. Redisson's has 4.
var mortiseOwner = regexp.MustCompile(`^.{14}8.{21}:`)

var lockKinds = map[string]lockKind{
	"Lock": {
		object: "Lock", channels: lockChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.Lock(name).With(o) },
	},
	"FairLock": {
		object: "FairLock", java: "fair", lenient: true, pollsSince: "3.32.0", channels: fairChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.FairLock(name).With(o) },
	},
	"FencedLock": {
		object: "FencedLock", java: "fenced", since: "3.19.0", channels: lockChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.FencedLock(name).With(o) },
	},
}

// TestKinds tries all other kinds of lock as Lock is tried.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		for _, name := range slices.Sorted(maps.Keys(lockKinds)) {
			if name == "Lock" {
				continue
			}
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel()
				// What a driver can do wrong is tried with Lock: one is enough here.
				run(t, newWorld(t, version, "rueidis"), about(name, lockTrials))
			})
		}
	}
}

func TestLock(t *testing.T) { everywhere(t, lockTrials) }
