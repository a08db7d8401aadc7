// Package doubt bounds how long an operation in doubt may be repeated: only as long as Redis
// remembers what its copies did.
package doubt

import (
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Doubt tracks one operation. It begins with the first attempt whose outcome is unknown; an
// attempt that was not sent, or was answered, leaves no doubt. The zero value is ready for a
// new operation. It is not safe for concurrent use.
type Doubt struct {
	began time.Time // zero: not in doubt
	wall  time.Time // the same by the wall clock alone, which goes on while the machine is suspended
	lost  error
}

// Try makes an attempt, and returns its error.
func (d *Doubt) Try(attempt func() error) error {
	start := time.Now() // a copy of it may have run from here on
	err := attempt()
	if err != nil && driver.ClassOf(err) == driver.Unknown {
		d.lost = err
		if d.began.IsZero() {
			d.began, d.wall = start, start.Round(0)
		}
	}
	return err
}

// Err returns the error of the last attempt with an unknown outcome, or nil.
func (d *Doubt) Err() error { return d.lost }

// Longer reports whether the operation has been in doubt for longer than limit, by either
// clock.
func (d *Doubt) Longer(limit time.Duration) bool {
	return !d.began.IsZero() && max(time.Since(d.began), time.Since(d.wall)) > limit
}
