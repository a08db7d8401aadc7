package rueidis

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

func TestPatience(t *testing.T) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"without an end": {context.Background(), true},
		"cancellable":    {cancellable, false},
		"soon":           {driver.Until(time.Now().Add(replyLimit)), false},
		"late":           {driver.Until(time.Now().Add(time.Hour)), true},
	} {
		if _, got := patient(tt.ctx); got != tt.want {
			t.Errorf("%s: patient = %v", name, got)
		}
	}
}

// Those who carry, one after the other, share a timer. Each must leave at its
// own time, whichever of them the timer was set for.
func TestCarriersLeaveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(&Driver{})
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		ends := func(s *sending, want time.Duration) {
			t.Helper()
			<-s.over
			if got := time.Since(start); got != want {
				t.Errorf("it had to leave after %v, want %v", got, want)
			}
			l.exit()
		}
		l.enter(at(30 * time.Second))
		l.exit() // long before
		later := l.enter(at(40 * time.Second))
		if l.enter(time.Time{}) != nil {
			t.Error("two carry at the same time")
		}
		ends(later, 40*time.Second)

		for range crowdLasts {
			if l.enter(time.Time{}) != nil {
				t.Error("one may carry just after several came at once")
			}
		}
		l.enter(at(time.Hour))
		l.exit()
		ends(l.enter(at(time.Minute)), time.Minute)

		s := l.enter(time.Time{})
		time.Sleep(24 * time.Hour)
		if s.Err() != nil {
			t.Error("one that need not leave has to")
		}
		l.close()
		<-s.over
		l.exit()
		if l.enter(time.Time{}) != nil {
			t.Error("one carries in a lane that is closed")
		}
	})
}
