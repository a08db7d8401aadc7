package lane

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Those who carry, one after the other, share a timer. Each must leave at its
// own time, whichever of them the timer was set for.
func TestCarriersLeaveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(&Config[int]{Running: new(sync.WaitGroup)})
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		ends := func(s *Over, want time.Duration) {
			t.Helper()
			<-s.Done()
			if got := time.Since(start); got != want {
				t.Errorf("it had to leave after %v, want %v", got, want)
			}
			l.Exit()
		}
		l.Enter(at(30 * time.Second))
		l.Exit() // long before
		later := l.Enter(at(40 * time.Second))
		if l.Enter(time.Time{}) != nil {
			t.Error("two carry at the same time")
		}
		ends(later, 40*time.Second)

		for range crowdLasts {
			if l.Enter(time.Time{}) != nil {
				t.Error("one may carry just after several came at once")
			}
		}
		l.Enter(at(time.Hour))
		l.Exit()
		ends(l.Enter(at(time.Minute)), time.Minute)

		s := l.Enter(time.Time{})
		time.Sleep(24 * time.Hour)
		if s.Err() != nil {
			t.Error("one that need not leave has to")
		}
		l.Close()
		<-s.Done()
		l.Exit()
		if l.Enter(time.Time{}) != nil {
			t.Error("one carries in a lane that is closed")
		}
	})
}
