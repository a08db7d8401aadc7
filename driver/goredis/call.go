package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// callContext is the context that go-redis sees. It has the values of the caller's context, for
// hooks, but not its deadline, which go-redis would set on the connection: the caller leaves on
// its own, and the connection stays usable when the late reply comes.
type callContext struct {
	values context.Context
	done   <-chan struct{} // closed when the caller does not wait any more
}

func (c callContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c callContext) Done() <-chan struct{}       { return c.done }
func (c callContext) Value(key any) any           { return c.values.Value(key) }

func (c callContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// begin returns why a call may not be made, an error of class NotSent, Closed or Unfit. If it
// returns nil, the caller must call attend, and Close waits until attend's function has run.
func (d *Driver) begin(ctx context.Context) error {
	if d.refused != nil {
		return d.refused
	}
	if ctx.Err() != nil {
		return driver.ContextError(ctx, driver.NotSent)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return &driver.Error{Class: driver.Closed, Err: errClosed}
	}
	d.running.Add(1)
	return nil
}

// attend runs f, which works through the client, and reports whether f has returned. It returns
// earlier if ctx ends or the driver closes: then f goes on in the background, and what it writes
// must not be read. It must follow begin.
func (d *Driver) attend(ctx context.Context, f func(context.Context)) bool {
	if ctx.Done() == nil {
		defer d.running.Done()
		f(callContext{ctx, d.closing})
		return true
	}
	gone, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer d.running.Done()
		defer close(done)
		f(callContext{ctx, gone})
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-d.closing:
	}
	select {
	case <-done: // both came at once: a reply is better than none
		return true
	default:
		close(gone)
		return false
	}
}

// left returns the error of a call that the caller stopped waiting for.
func (d *Driver) left(ctx context.Context, class driver.Class) error {
	if ctx.Err() != nil {
		return driver.ContextError(ctx, class)
	}
	if class == driver.NotSent {
		class = driver.Closed
	}
	return &driver.Error{Class: class, Err: errClosed}
}

// processor is a client, or the client of one node.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// do runs one command and returns its reply.
func (d *Driver) do(ctx context.Context, via processor, cmd *command) (any, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var err error
	if !d.attend(ctx, func(ctx context.Context) { err = via.Process(ctx, cmd) }) {
		return nil, d.left(ctx, cmd.abandon())
	}
	return d.outcome(cmd, err)
}
