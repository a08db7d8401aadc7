package pipeline

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Inline callers, one after the other, share a timer. Each must leave at its own
// time, whichever of them the timer was set for.
func TestInlineCallersLeaveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&Config[int]{Running: new(sync.WaitGroup)})
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		ends := func(s *Context, want time.Duration) {
			t.Helper()
			<-s.Done()
			if got := time.Since(start); got != want {
				t.Errorf("it had to leave after %v, want %v", got, want)
			}
			p.EndInline()
		}
		p.BeginInline(at(30 * time.Second))
		p.EndInline() // long before
		later := p.BeginInline(at(40 * time.Second))
		if p.BeginInline(time.Time{}) != nil {
			t.Error("two callers send inline at the same time")
		}
		ends(later, 40*time.Second)

		for range batchBias {
			if p.BeginInline(time.Time{}) != nil {
				t.Error("a caller may send inline just after several came at once")
			}
		}
		p.BeginInline(at(time.Hour))
		p.EndInline()
		ends(p.BeginInline(at(time.Minute)), time.Minute)

		s := p.BeginInline(time.Time{})
		time.Sleep(24 * time.Hour)
		if s.Err() != nil {
			t.Error("a caller without a limit had to leave")
		}
		p.Close()
		<-s.Done()
		p.EndInline()
		if p.BeginInline(time.Time{}) != nil {
			t.Error("a caller sends inline on a closed pipeline")
		}
	})
}
