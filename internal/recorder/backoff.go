package recorder

import (
	"time"

	"github.com/mortise-go/mortise/driver"
)

const (
	// slowest is the longest pause of a backoff after errors of Redis.
	slowest = time.Minute
	// slowestUnanswered is the longest after requests without an answer: nothing announces that Redis is back.
	slowestUnanswered = 2 * time.Second
)

// backoff says when to try again what has failed.
type backoff struct {
	failures int // in a row
	retry    time.Time
}

// wait returns how long not to try.
func (b *backoff) wait(now time.Time) time.Duration { return max(0, b.retry.Sub(now)) }

// tried notes how a try ended.
func (b *backoff) tried(now time.Time, err error) {
	if err == nil {
		*b = backoff{}
		return
	}
	most := slowest
	if class := driver.ClassOf(err); class == driver.NotSent || class == driver.Unknown {
		most = slowestUnanswered
	}
	b.retry = now.Add(min(most, writeEvery<<min(b.failures, 10)))
	b.failures++
}
