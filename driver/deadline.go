package driver

import (
	"context"
	"sync"
	"time"
)

// Deadline is a context that ends at an instant, and for no other reason. It
// has neither parent nor values.
//
// Unlike that of context.WithDeadline it starts no timer before somebody asks
// for Done, and a driver can tell from it that the caller cannot leave earlier.
type Deadline struct {
	at time.Time

	mu    sync.Mutex // guards what follows
	done  chan struct{}
	timer *time.Timer
}

var _ context.Context = (*Deadline)(nil)

// Until returns a context that ends at at. Stop it when it is not needed any
// more.
func Until(at time.Time) *Deadline { return &Deadline{at: at} }

// Deadline implements context.Context.
func (d *Deadline) Deadline() (time.Time, bool) { return d.at, true }

// Value implements context.Context.
func (d *Deadline) Value(any) any { return nil }

// Err implements context.Context.
func (d *Deadline) Err() error {
	if time.Now().Before(d.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// Done implements context.Context.
func (d *Deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		done := make(chan struct{})
		d.done = done
		d.timer = time.AfterFunc(time.Until(d.at), func() { close(done) })
	}
	return d.done
}

// Stop ends the timer, if there is one: Done may stay open from then on.
func (d *Deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}
