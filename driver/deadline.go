package driver

import (
	"context"
	"sync"
	"time"
)

// Longest is how long a driver waits for a connection and for the reply to a script, whatever its ctx.
const Longest = 10 * time.Second

// Deadline is a context that ends at an instant, and earlier only if its parent ends.
//
// Unlike context.WithDeadline it starts no timer until Done is called, and it tells a driver whether
// the caller can leave earlier.
type Deadline struct {
	parent     context.Context // nil if there is none that can end or has values
	at, latest time.Time

	mu    sync.Mutex // guards the fields below
	done  chan struct{}
	timer *time.Timer
	leave func() bool // ends the watch over parent; nil if there is none
}

var _ context.Context = (*Deadline)(nil)

// Until returns a context that ends at at. Call Stop when it is not needed any more.
func Until(at time.Time) *Deadline { return &Deadline{at: at, latest: at} }

// UntilAbout is Until for a caller that need not leave before latest, if it costs less to make it
// wait for the client's own limits.
func UntilAbout(at, latest time.Time) *Deadline { return &Deadline{at: at, latest: latest} }

// Init makes d what [UntilAbout] returns, for a caller that has d in something larger. It must not be in
// use. Parent may be nil; if it is a Deadline, d ends when that does, and does not refer to it.
func (d *Deadline) Init(parent context.Context, at, latest time.Time) {
	if outer, ok := parent.(*Deadline); ok {
		if outer.at.Before(at) {
			at, latest = outer.at, outer.latest
		}
		parent = outer.parent
	}
	if parent == context.Background() {
		parent = nil
	}
	d.parent, d.at, d.latest = parent, at, latest
}

// Latest returns the time at which the caller must have left.
func (d *Deadline) Latest() time.Time { return d.latest }

// Left returns a channel that is closed when the parent ends, or nil if it never does.
func (d *Deadline) Left() <-chan struct{} {
	if d.parent == nil {
		return nil
	}
	return d.parent.Done()
}

// Values returns a context with the same values, which may end at another time.
func (d *Deadline) Values() context.Context {
	if d.parent == nil {
		return context.Background()
	}
	return d.parent
}

// Deadline implements context.Context.
func (d *Deadline) Deadline() (time.Time, bool) {
	if d.parent != nil {
		if at, ok := d.parent.Deadline(); ok && at.Before(d.at) {
			return at, true
		}
	}
	return d.at, true
}

// Value implements context.Context.
func (d *Deadline) Value(key any) any {
	if d.parent == nil {
		return nil
	}
	return d.parent.Value(key)
}

// Err implements context.Context.
func (d *Deadline) Err() error {
	if d.parent != nil {
		if err := d.parent.Err(); err != nil {
			return err
		}
	}
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
		end := sync.OnceFunc(func() { close(done) })
		d.timer = time.AfterFunc(time.Until(d.at), end)
		if d.Left() != nil {
			d.leave = context.AfterFunc(d.parent, end)
		}
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
	if d.leave != nil {
		d.leave()
	}
}
