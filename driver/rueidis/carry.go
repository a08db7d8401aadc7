package rueidis

import (
	"context"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// sending is the context that the client sees. It ends when over is closed.
//
// The client heeds that only on a connection which its own goroutines read and
// write. It gives a connection to them for good when it is used by two at once,
// or with a context that can end and has no deadline. As long as it has not,
// whoever calls it writes and reads, which spares two changes of goroutine for
// each command, and nothing but a deadline ends that. So there is one, and it is
// near: what is a moment for a script is too long for a lock.
type sending struct{ over chan struct{} }

func (s *sending) Deadline() (time.Time, bool) { return time.Now().Add(replyLimit), true }
func (s *sending) Done() <-chan struct{}       { return s.over }
func (s *sending) Value(any) any               { return nil }

func (s *sending) Err() error {
	select {
	case <-s.over:
		return context.Canceled
	default:
		return nil
	}
}

// crowdLasts is how many callers a lane that was busy takes through its pumps
// even if they find it idle.
const crowdLasts = 8

// patient reports whether the caller of a script need not be able to leave
// before the client gives it up, and when it leaves at last; zero if never.
func patient(ctx context.Context) (until time.Time, ok bool) {
	if d, known := ctx.(*driver.Deadline); known {
		until, _ = d.Deadline()
		return until, time.Until(until) > replyLimit
	}
	return time.Time{}, ctx.Done() == nil
}

// carry has a patient caller take its command through the client itself, if
// nothing else is in the lane: a pump would be one more goroutine on the way,
// and another would have to wake the caller. It reports false otherwise.
func (l *lane) carry(ctx context.Context, cmd redis.Completed) (result redis.RedisResult, carried bool, err error) {
	until, ok := patient(ctx)
	if !ok {
		return result, false, nil
	}
	s := l.enter(until)
	if s == nil {
		return result, false, nil
	}
	defer l.exit()
	result = l.driver.client.Do(s, cmd)
	if result.NonRedisError() == nil || s.Err() == nil {
		return result, true, nil
	}
	if ctx.Err() != nil {
		return result, true, driver.ContextError(ctx, driver.Unknown)
	}
	return result, true, &driver.Error{Class: driver.Unknown, Err: errClosed}
}

// enter lets a caller carry if the lane is idle, and returns the context to do
// it with, which ends at until or when the driver closes.
func (l *lane) enter(until time.Time) *sending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.carrying || len(l.queue) > 0 || l.idle < l.pumps {
		l.crowd = crowdLasts
		return nil
	}
	if l.crowd > 0 { // others are about to come, and pipelines are better than single commands
		l.crowd--
		return nil
	}
	l.driver.running.Add(1)
	l.carrying, l.until = true, until
	// One timer is for all who carry, one after the other, and goes off for the
	// first of them: to set one for each would cost more than the script.
	if !until.IsZero() && (l.alarm.IsZero() || until.Before(l.alarm)) {
		l.setAlarm(until)
	}
	if l.own == nil {
		l.own = &sending{make(chan struct{})}
	}
	return l.own
}

func (l *lane) exit() {
	l.mu.Lock()
	l.carrying = false
	l.mu.Unlock()
	l.driver.running.Done()
}

// setAlarm has expire called at at. The caller holds mu.
func (l *lane) setAlarm(at time.Time) {
	l.alarm = at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.expire)
	} else {
		l.timer.Reset(time.Until(at))
	}
}

// expire makes who carries leave if its time is over.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm = time.Time{}
	switch {
	case l.closed || !l.carrying || l.until.IsZero():
	case time.Now().Before(l.until):
		l.setAlarm(l.until)
	default:
		l.dismiss()
	}
}

// dismiss makes who carries leave. The caller holds mu.
func (l *lane) dismiss() {
	if l.own != nil {
		close(l.own.over)
		l.own = nil
	}
}
