package pipeline

import (
	"context"
	"time"
)

// Context is a context that ends when a channel is closed. It has no deadline and no values.
type Context struct{ done chan struct{} }

// NewContext returns a context that ends when done is closed.
func NewContext(done chan struct{}) *Context { return &Context{done} }

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.done }

// Value implements context.Context.
func (c *Context) Value(any) any { return nil }

// Err implements context.Context.
func (c *Context) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// BeginInline lets a caller send its call itself, if the pipeline is idle and was not busy
// just before. It returns the context to send with, or nil if the caller must queue. The
// context ends at until, unless that is zero, and when the pipeline closes. The caller must
// call EndInline afterwards.
func (p *Pipeline[T]) BeginInline(until time.Time) *Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.inline || len(p.queue) > 0 || p.idle < p.workers {
		p.bias = batchBias
		return nil
	}
	if p.bias > 0 { // more calls are about to come, and batches are better than single commands
		p.bias--
		return nil
	}
	p.config.Running.Add(1)
	p.inline, p.until = true, until
	// All inline callers, one after the other, share one timer, which goes off for the first of
	// them: a timer for each would cost more than all the rest.
	if !until.IsZero() && (p.alarm.IsZero() || until.Before(p.alarm)) {
		p.setAlarm(until)
	}
	if p.ctx == nil {
		p.ctx = NewContext(make(chan struct{}))
	}
	return p.ctx
}

// EndInline ends what BeginInline began.
func (p *Pipeline[T]) EndInline() {
	p.mu.Lock()
	p.inline = false
	p.mu.Unlock()
	p.config.Running.Done()
}

// setAlarm makes the timer call expire at the given time. The caller holds mu.
func (p *Pipeline[T]) setAlarm(at time.Time) {
	p.alarm = at
	if p.timer == nil {
		p.timer = time.AfterFunc(time.Until(at), p.expire)
	} else {
		p.timer.Reset(time.Until(at))
	}
}

// expire ends the inline caller's context if its time has come.
func (p *Pipeline[T]) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm = time.Time{}
	switch {
	case p.closed || !p.inline || p.until.IsZero():
	case time.Now().Before(p.until):
		p.setAlarm(p.until)
	default:
		p.cancelInline()
	}
}

// cancelInline ends the inline caller's context. The caller holds mu.
func (p *Pipeline[T]) cancelInline() {
	if p.ctx != nil {
		close(p.ctx.done)
		p.ctx = nil
	}
}
