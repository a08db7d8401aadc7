// Package doubt bounds for how long an operation may be repeated whose outcome
// is not known: only for as long as Redis remembers what its copies did.
package doubt

import (
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Doubt is that of one operation. It begins with the first attempt whose outcome
// is unknown: what was not sent, or was answered, leaves none. The zero value is
// that of an operation not attempted yet. It is not safe for concurrent use.
type Doubt struct {
	began time.Time // zero without doubt
	wall  time.Time // the same by the wall clock only, which goes on while a machine is suspended
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

// Err returns why the last outcome that is unknown is, or nil without doubt.
func (d *Doubt) Err() error { return d.lost }

// Longer reports whether there has been doubt for longer than limit, by either
// clock.
func (d *Doubt) Longer(limit time.Duration) bool {
	return !d.began.IsZero() && max(time.Since(d.began), time.Since(d.wall)) > limit
}
