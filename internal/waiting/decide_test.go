package waiting

import (
	"testing"
	"time"
)

// The table covers the views that a waiter can have.
func TestDecide(t *testing.T) {
	now := time.Now()
	soon, before := now.Add(time.Millisecond), now.Add(-time.Millisecond)
	for _, test := range []struct {
		name string
		view view
		want action
	}{
		{"a lease was handed to it", view{position: handedOff}, acceptHandoff},
		{"a lease was handed to it, though it has asked just now", view{position: handedOff, cause: Asked}, acceptHandoff},
		{"its client was granted the lock", view{position: granted}, acceptGrant},
		{"its client was granted the lock, which others would have had first", view{position: granted, notBefore: soon}, acceptGrant},
		{"its client was granted the lock after a refusal", view{position: granted, cause: Asked}, acceptGrant},

		{"others of its client are before it", view{position: Behind}, sleepBehind},
		{"a message woke it behind others", view{position: Behind, cause: Notified}, sleepBehind},
		{"the poll of the first is not its own", view{position: Behind, cause: Elapsed}, sleepBehind},
		{"its owner holds the other side", view{position: Behind, pass: besideOwn}, askBypassing},
		{"its owner holds the other side, and it was refused", view{position: Behind, pass: besideOwn, cause: Asked}, sleepBehind},
		{"it was told to ask", view{position: Behind, pass: called}, askBypassing},
		{"it was told to ask while it was refused", view{position: Behind, pass: called, cause: Asked}, askBypassing},

		{"it has just become the first", view{position: First, cause: Woken}, askFirst},
		{"it is the first from the start", view{position: First, cause: Started}, askFirst},
		{"a message says that the lock may be free", view{position: First, cause: Notified}, askFirst},
		{"no message came for long", view{position: First, cause: Elapsed}, askFirst},
		{"it was refused", view{position: First, cause: Asked}, sleepRefused},
		{"it was refused, and others have the next chance", view{position: First, cause: Asked, notBefore: soon}, sleepRefused},

		{"the lock is left to others", view{position: First, cause: Notified, notBefore: soon}, sleepYielding},
		{"it is woken while the lock is left to others", view{position: First, cause: Woken, notBefore: soon}, sleepYielding},
		{"the lock was left to others", view{position: First, cause: Notified, notBefore: before}, askFirst},
		{"its sleep is over before the others' chance", view{position: First, cause: Elapsed, notBefore: soon}, askFirst},

		{"a goroutine of its client holds the lock", view{position: First, cause: Woken, occupancy: occupied}, sleepOccupied},
		{"a message comes while one of its client holds the lock", view{position: First, cause: Notified, occupancy: occupied}, sleepOccupied},
		{"one of its client holds the lock, and nothing happens for long", view{position: First, cause: Elapsed, occupancy: occupied}, askFirst},
		{"another goroutine asks without a queue", view{position: First, cause: Woken, occupancy: othersAsk}, sleepOccupied},
		{"another goroutine asks without a queue for long", view{position: First, cause: Elapsed, occupancy: othersAsk}, sleepOccupied},
		{"the lock is left to others, and one of its client holds it", view{position: First, cause: Woken, occupancy: occupied, notBefore: soon}, sleepYielding},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := decide(&test.view, now); got != test.want {
				t.Errorf("decided on action %d, want %d", got, test.want)
			}
		})
	}
}

// For every view: a waiter that sleeps until it is woken is behind others, which wake it.
// Only the first waiter asks without being told to, and not right after a refusal.
func TestDecideNeverSleepsForEver(t *testing.T) {
	now := time.Now()
	for _, v := range allViews(now) {
		do := decide(&v, now)
		if wrong := wrongAction(&v, do, now); wrong != "" {
			t.Errorf("%+v: action %d: it %s", v, do, wrong)
		}
	}
}

// allViews returns every view that a waiter can have.
func allViews(now time.Time) (views []view) {
	for position := Behind; position <= handedOff; position++ {
		for occupancy := unoccupied; occupancy <= occupied; occupancy++ {
			for cause := Started; cause <= Asked; cause++ {
				for pass := inOrder; pass <= called; pass++ {
					for _, notBefore := range []time.Time{{}, now.Add(time.Second)} {
						views = append(views, view{position, occupancy, pass, notBefore, cause})
					}
				}
			}
		}
	}
	return views
}

// wrongAction says what is wrong with an action, and nothing if it is sound.
func wrongAction(v *view, do action, now time.Time) string {
	switch {
	case do == sleepBehind && v.position != Behind:
		return "sleeps though no waiter is there to wake it"
	case do == askFirst && (v.position != First || v.cause == Asked):
		return "asks as the first"
	case do == askBypassing && v.pass == inOrder:
		return "asks though it is not its turn"
	case do == acceptGrant != (v.position == granted), do == acceptHandoff != (v.position == handedOff):
		return "accepts what it was not offered, or not what it was offered"
	case do == sleepYielding && !now.Before(v.notBefore):
		return "waits for others whose chance is over"
	case do == sleepOccupied && v.occupancy == unoccupied:
		return "waits though nothing is in the way"
	}
	return ""
}
