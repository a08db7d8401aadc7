package lease

import "testing"

// What ends may start something else, while Close waits for all of it.
func TestRunningRisesWhileCloseWaits(t *testing.T) {
	for range 20_000 {
		r := running{fell: make(chan struct{}, 1)}
		var last bool
		r.add()
		go func() {
			r.done()
			r.add() // as background work does that a message causes
			r.done()
		}()
		r.add()
		go func() {
			r.add()
			r.done()
			last = true
			r.done()
		}()
		r.wait(nil)
		if !last {
			t.Fatal("wait has returned before the work has ended")
		}
	}
}

func TestRunningIsNotWaitedForTooLong(t *testing.T) {
	r, over := running{fell: make(chan struct{}, 1)}, make(chan struct{})
	r.add()
	close(over)
	r.wait(over)
	r.done()
	r.wait(nil)
}
