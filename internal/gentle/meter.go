// Package gentle reads a Redis that has other things to do: it bounds how many commands it sends in a
// second, and for how long it occupies the server.
package gentle

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
)

// Meter bounds commands. It is a bucket that holds as many commands as may be sent in a second.
type Meter struct {
	rate float64

	mu   sync.Mutex // guards the fields below
	left float64    // may be negative: then it is owed
	at   time.Time
	sent int64
	idle time.Duration // that callers have waited
}

// NewMeter returns a meter for so many commands in a second, on average: after a pause, as many may be
// sent at once as in a second.
func NewMeter(rate float64) *Meter { return &Meter{rate: rate, left: rate, at: time.Now()} }

// Sent returns how many commands were sent.
func (m *Meter) Sent() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent
}

// Waited returns how long callers have waited.
func (m *Meter) Waited() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.idle
}

// Owed returns how long it takes until n commands may be sent.
func (m *Meter) Owed(n int) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owed(n)
}

// owed is Owed, called with mu held.
func (m *Meter) owed(n int) time.Duration {
	m.fill()
	missing := min(float64(n), m.rate) - m.left
	return max(0, time.Duration(missing/m.rate*float64(time.Second)))
}

// fill adds what has come since. It is called with mu held.
func (m *Meter) fill() {
	now := time.Now()
	m.left = min(m.rate, m.left+now.Sub(m.at).Seconds()*m.rate)
	m.at = now
}

// take notes that n commands are sent.
func (m *Meter) take(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fill()
	m.left -= float64(n)
	m.sent += int64(n)
}

// wait waits until n commands may be sent, and takes them. Callers have their turns in the order in which they came,
// whatever they want to send: otherwise a search whose batches are small passes over a look for as long as it lasts.
func (m *Meter) wait(ctx context.Context, n int) error {
	m.mu.Lock()
	d := m.owed(n)
	m.left -= float64(n)
	m.sent += int64(n)
	m.idle += d
	m.mu.Unlock()
	if d == 0 {
		return nil
	}
	err := Sleep(ctx, d)
	if err != nil {
		m.take(-n)
	}
	return err
}

// Sleep waits for d. It returns the cause if ctx ends before. For a scan it is no time in which Redis is silent.
func Sleep(ctx context.Context, d time.Duration) (err error) {
	scan.Aside(ctx, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	})
	return err
}

// Driver is a driver whose commands a meter bounds.
type Driver struct {
	driver.Driver
	Meter *Meter
}

// Eval implements driver.Driver. It does not wait: what it sends is owed.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	d.Meter.take(1)
	return d.Driver.Eval(ctx, call)
}

// small is how many commands a batch may have to be sent at once, and owed: what a look reads one after
// the other belongs together.
const small = 4

// Batch implements driver.Driver. It waits until its commands may be sent, unless it is small.
func (d *Driver) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	if len(calls) <= small {
		d.Meter.take(len(calls))
		return d.Driver.Batch(ctx, calls)
	}
	if err := d.Meter.wait(ctx, len(calls)); err != nil {
		results := make([]driver.Result, len(calls))
		for i := range results {
			results[i].Err = &driver.Error{Class: driver.NotSent, Err: err}
		}
		return results
	}
	return d.Driver.Batch(ctx, calls)
}
