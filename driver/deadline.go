package driver

import (
	"context"
	"sync"
	"time"
)

// Deadline is a context that ends at an instant, and for no other reason. It has neither parent
// nor values.
//
// Unlike context.WithDeadline it starts no timer until Done is called, and it tells a driver that
// the caller cannot leave earlier.
type Deadline struct {
	at, latest time.Time

	mu    sync.Mutex // guards the fields below
	done  chan struct{}
	timer *time.Timer
}

var _ context.Context = (*Deadline)(nil)

// Until returns a context that ends at at. Call Stop when it is not needed any more.
func Until(at time.Time) *Deadline { return &Deadline{at: at, latest: at} }

// UntilAbout is Until for a caller that need not leave before latest, if it costs less to make it
// wait for the client's own limits.
func UntilAbout(at, latest time.Time) *Deadline { return &Deadline{at: at, latest: latest} }

// Init makes d what [UntilAbout] returns, for a caller that has d in something larger. It must not be in
// use.
func (d *Deadline) Init(at, latest time.Time) { d.at, d.latest = at, latest }

// Latest returns the time at which the caller must have left.
func (d *Deadline) Latest() time.Time { return d.latest }

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

// Stop stops the timer, if there is one: from then on, Done may stay open.
func (d *Deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}
