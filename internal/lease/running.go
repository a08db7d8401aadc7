package lease

import "sync/atomic"

// running counts the operations and the background work of a client, for which Close
// waits. It may rise from zero while Close waits, because what ends there may start
// something else; a [sync.WaitGroup] panics then.
type running struct {
	n    atomic.Int64
	fell chan struct{} // capacity 1: n has fallen to zero since wait last looked
}

func (r *running) add() { r.n.Add(1) }

func (r *running) done() {
	if r.n.Add(-1) > 0 {
		return
	}
	select {
	case r.fell <- struct{}{}:
	default:
	}
}

// wait blocks until nothing runs, or until over is closed. Only one goroutine may wait.
func (r *running) wait(over <-chan struct{}) {
	for r.n.Load() > 0 {
		select {
		case <-r.fell:
		case <-over:
			return
		}
	}
}
