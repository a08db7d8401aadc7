package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// pacer bounds the attempts that notifications can cause: any client may publish.
type pacer struct {
	since time.Time
	count int
}

// At most paceCount attempts are made in a paceWindow, far more than a busy lock needs.
const (
	paceWindow = 100 * time.Millisecond
	paceCount  = 20
)

// Next returns how long to wait before the attempt that a notification causes.
func (p *pacer) Next(now time.Time) time.Duration { return p.Share(now, 1) }

// until returns the instant before which no notification causes an attempt. so is the
// former one, which remains until it has passed.
func (p *pacer) until(so time.Time) time.Time {
	now := time.Now()
	if now.Before(so) {
		return so
	}
	return now.Add(p.Next(now))
}

// genuine takes an attempt off the count, after it has shown that its notification was
// true.
func (p *pacer) genuine() { p.count = max(p.count-1, 0) }

// Share is next for one of n listeners that receive the same notifications. They share
// one bound, but each may ask as often as it does without notifications.
func (p *pacer) Share(now time.Time, n int) time.Duration {
	window, most := min(max(paceWindow, paceWindow*time.Duration(n)/paceCount), outcome.Poll), max(paceCount/n, 1)
	if now.Sub(p.since) >= window {
		p.since, p.count = now, 0
	}
	if p.count >= most {
		p.since, p.count = p.since.Add(window), 0 // the attempt is made then
	}
	p.count++
	return max(p.since.Sub(now), 0)
}
