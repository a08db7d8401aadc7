package torture

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

const (
	// wallEvery is how often the clock of the machine is read, and wallStep by how much it must
	// change against the monotonic one to have been set: an adjusted clock changes by far less in that time.
	wallEvery, wallStep = 10 * time.Millisecond, 5 * time.Millisecond
	// wallBlur is how far apart the readings of two clocks may be taken to be of one instant.
	wallBlur = time.Millisecond
)

// wallClock notes when the clock of the machine is set. Redis ends leases by that clock, and clients
// trust them by the monotonic one: where somebody sets it, as a host may do with a virtual machine
// that it has stopped for a while, two can have a lock at once, and neither Redis nor a client is at fault.
type wallClock struct {
	mu    sync.Mutex // guards the fields below
	known bool
	ahead int64 // of the monotonic clock, when it was read last
	steps []wallSet
}

// wallSet is one setting of the clock.
type wallSet struct {
	at int64 // of torture.Now, when it was seen
	by time.Duration
}

// watchWallClock watches the clock until the end of the test.
func watchWallClock(t *testing.T) *wallClock {
	t.Helper()
	c, done := &wallClock{}, make(chan struct{})
	c.read()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(wallEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.read()
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		running.Wait()
	})
	return c
}

func (c *wallClock) read() {
	before := torture.Now()
	wall := time.Now().UnixNano()
	c.note(before, wall, torture.Now())
}

// note takes a reading of the clock, and the instants before and after it.
func (c *wallClock) note(before, wall, after int64) {
	if after-before > int64(wallBlur) {
		return // the process stood still in between
	}
	ahead := wall - after
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := time.Duration(ahead - c.ahead); c.known && by.Abs() >= wallStep {
		c.steps = append(c.steps, wallSet{after, by})
	}
	c.known, c.ahead = true, ahead
}

// show says whether the clock was set in a span, or in the time of a lease before it.
func (c *wallClock) show(s span, ttl time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	for _, set := range c.steps {
		if set.at >= s.from-int64(ttl) && set.at <= s.to+int64(wallEvery) {
			text += fmt.Sprintf("\n        the clock of this machine was set by %+v, seen at %+v: leases end by it", set.by, time.Duration(set.at-s.from).Round(time.Microsecond))
		}
	}
	if text == "" {
		return "\n        the clock of this machine was not set in this time"
	}
	return text
}

func TestWallClock(t *testing.T) {
	const ms = int64(time.Millisecond)
	c := &wallClock{}
	for i := range int64(100) { // a clock that runs fast by 500 ppm, and is never set
		at := i * 10 * ms
		c.note(at, 1e15+at+at/2000, at)
	}
	if len(c.steps) != 0 {
		t.Errorf("%v were noted of a clock that was only fast", c.steps)
	}
	c.note(1000*ms, 1e15+5000*ms, 1000*ms+2*ms) // a stop between the two readings says nothing
	if len(c.steps) != 0 {
		t.Errorf("%v were noted of readings that are not of one instant", c.steps)
	}
	c.note(1010*ms, 1e15+1010*ms+1200*ms, 1010*ms)
	c.note(1020*ms, 1e15+1020*ms+1200*ms, 1020*ms)
	c.note(1030*ms, 1e15+1030*ms, 1030*ms)
	if len(c.steps) != 2 || c.steps[0].at != 1010*ms || c.steps[1].at != 1030*ms || c.steps[0].by < 1199*time.Millisecond || c.steps[1].by > -1199*time.Millisecond {
		t.Fatalf("settings noted: %v, want one forward by 1.2s at 1.01s, and one back at 1.03s", c.steps)
	}
	for _, want := range []struct {
		span
		ttl time.Duration
		set bool
	}{
		{span{0, 900 * ms}, time.Second, false},
		{span{1005 * ms, 1015 * ms}, 0, true},
		{span{1100 * ms, 1200 * ms}, 0, false},
		{span{1100 * ms, 1200 * ms}, time.Second, true},
	} {
		text := c.show(want.span, want.ttl)
		if got := text != "\n        the clock of this machine was not set in this time"; got != want.set {
			t.Errorf("of %v, and %v before it, it says %q, want set %v", want.span, want.ttl, text, want.set)
		}
	}
}
