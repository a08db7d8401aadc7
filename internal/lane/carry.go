package lane

import (
	"context"
	"time"
)

// Over is the context of those who carry. It has no deadline and no values.
type Over struct{ done chan struct{} }

// NewOver returns a context that ends when done is closed.
func NewOver(done chan struct{}) *Over { return &Over{done} }

// Deadline implements context.Context.
func (o *Over) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (o *Over) Done() <-chan struct{} { return o.done }

// Value implements context.Context.
func (o *Over) Value(any) any { return nil }

// Err implements context.Context.
func (o *Over) Err() error {
	select {
	case <-o.done:
		return context.Canceled
	default:
		return nil
	}
}

// Enter lets a caller send for itself, if nothing else is in the lane and there
// is no crowd. It must call Exit afterwards. It returns the context to send
// with, which ends at until, if that is not zero, and when the lane closes; nil
// means no.
func (l *Lane[T]) Enter(until time.Time) *Over {
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
	l.config.Running.Add(1)
	l.carrying, l.until = true, until
	// One timer is for all who carry, one after the other, and goes off for the
	// first of them: to set one for each would cost more than the rest of it.
	if !until.IsZero() && (l.alarm.IsZero() || until.Before(l.alarm)) {
		l.setAlarm(until)
	}
	if l.over == nil {
		l.over = NewOver(make(chan struct{}))
	}
	return l.over
}

// Exit ends what Enter began.
func (l *Lane[T]) Exit() {
	l.mu.Lock()
	l.carrying = false
	l.mu.Unlock()
	l.config.Running.Done()
}

// setAlarm has expire called at at. The caller holds mu.
func (l *Lane[T]) setAlarm(at time.Time) {
	l.alarm = at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.expire)
	} else {
		l.timer.Reset(time.Until(at))
	}
}

// expire makes who carries leave if its time is over.
func (l *Lane[T]) expire() {
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
func (l *Lane[T]) dismiss() {
	if l.over != nil {
		close(l.over.done)
		l.over = nil
	}
}
