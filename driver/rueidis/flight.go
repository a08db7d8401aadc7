package rueidis

import (
	"context"
	"errors"
	"fmt"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// flight takes commands through the client in a goroutine of its own, so that
// the caller can leave at any time. The client alone does not let it: it waits
// without regard to a context while its ring of pending commands is full,
// while another call opens the connection, and, given a deadline on a
// connection that nobody shares yet, until that deadline even if the context
// is cancelled before.
//
// The flight is also the context that the client sees. It hides the caller's
// deadline, which would make the client close the connection under everybody's
// feet when it passes, and ends when the caller leaves.
type flight struct {
	caller context.Context
	gone   chan struct{} // closed when the caller has left
	done   chan struct{} // closed when the results are there

	one     redis.Completed
	many    []redis.Completed // or nil, for one
	result  redis.RedisResult
	results []redis.RedisResult
}

func (f *flight) Deadline() (time.Time, bool) { return time.Time{}, false }
func (f *flight) Done() <-chan struct{}       { return f.gone }
func (f *flight) Value(key any) any           { return f.caller.Value(key) }

func (f *flight) Err() error {
	select {
	case <-f.gone:
		return context.Canceled
	default:
		return nil
	}
}

// start sends the commands of f through client. The error is of a flight that
// did not start.
func (d *Driver) start(f *flight, client redis.Client) error {
	if f.caller.Err() != nil {
		return driver.ContextError(f.caller, driver.NotSent)
	}
	if !d.enter() {
		return &driver.Error{Class: driver.NotSent, Err: errClosed}
	}
	f.gone, f.done = make(chan struct{}), make(chan struct{})
	go d.fly(f, client)
	return nil
}

func (d *Driver) fly(f *flight, client redis.Client) {
	defer d.running.Done()
	if f.many != nil {
		f.results = client.DoMulti(f, f.many...)
	} else {
		f.result = client.Do(f, f.one)
	}
	close(f.done)
}

// wait returns when the results are there, or the caller must not wait for
// them any longer.
func (d *Driver) wait(f *flight) error {
	var err error
	select {
	case <-f.done:
		return nil
	case <-f.caller.Done():
		err = driver.ContextError(f.caller, driver.Unknown)
	case <-d.closing:
		err = &driver.Error{Class: driver.Unknown, Err: errClosed}
	}
	select {
	case <-f.done: // both came at once: a reply is better than none
		return nil
	default:
		close(f.gone)
		return err
	}
}

// do runs one command and returns its reply.
func (d *Driver) do(ctx context.Context, client redis.Client, cmd redis.Completed) (redis.RedisMessage, error) {
	for attempt := 1; ; attempt++ {
		f := &flight{caller: ctx, one: cmd}
		if err := d.start(f, client); err != nil {
			return redis.RedisMessage{}, err
		}
		if err := d.wait(f); err != nil {
			return redis.RedisMessage{}, err
		}
		if attempt < 3 && isForeign(f.result.NonRedisError()) {
			continue // the client recycles only commands that were answered
		}
		msg, err := f.result.ToMessage()
		return msg, d.failure(err)
	}
}

// isForeign reports whether a call failed because another one that was opening
// the connection for both was cancelled. Nothing was sent then, and this call
// may open it itself. The context of this call has not ended, or the error
// would be the caller's.
func isForeign(err error) bool { return errors.Is(err, context.Canceled) }

// failure returns the classified form of an error of the client, nil for none
// and for a nil reply.
func (d *Driver) failure(err error) error {
	if err == nil || redis.IsRedisNil(err) {
		return nil
	}
	classified := classify(err)
	if d.cluster {
		switch driver.ClassOf(classified) {
		case driver.NotSent, driver.Unknown, driver.Passing:
			d.slots.doubt() // often the first sign of a new topology
		}
	}
	return classified
}

func classify(err error) error {
	if reply, ok := redis.IsRedisErr(err); ok {
		return driver.ReplyError(err, reply.Error())
	}
	class := driver.Unknown
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// The caller's context is not seen by the client. This is that of
		// another call, or the client's own for the handshake of a connection.
		// It must not look like the caller's.
		return &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("no connection: %v", err)}
	case isDialError(err), errors.Is(err, redis.ErrNoSlot), errors.Is(err, redis.ErrNoAddr):
		class = driver.NotSent
	}
	return &driver.Error{Class: class, Err: err}
}
