package mortisetest

import (
	"sync"
	"time"
)

// roads are the calls and messages that are under way, which may outlive the client that sent or
// wants them. A server owns them.
type roads struct {
	closed chan struct{}
	wg     sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	ended bool
	n     int
	idle  chan struct{} // closed when n becomes 0; nil if nobody waits
}

// send runs f, which is under way until it returns.
func (r *roads) send(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.n++
	r.wg.Go(func() {
		defer r.arrived()
		f()
	})
}

func (r *roads) arrived() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// sleep waits for d. It reports false if the server was closed meanwhile.
func (r *roads) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.closed:
		return false
	}
}

func (r *roads) settle() {
	for {
		r.mu.Lock()
		if r.n == 0 {
			r.mu.Unlock()
			return
		}
		if r.idle == nil {
			r.idle = make(chan struct{})
		}
		idle := r.idle
		r.mu.Unlock()
		<-idle
	}
}

// close ends all that is under way, and waits for it.
func (r *roads) close() {
	r.mu.Lock()
	first := !r.ended
	r.ended = true
	r.mu.Unlock()
	if first {
		close(r.closed)
	}
	r.wg.Wait()
}
