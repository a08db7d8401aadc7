package rueidis

import (
	"context"
	"errors"
	"fmt"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// do runs one command that is no script, in a goroutine of its own, for the
// reasons given at lane. It is not for what is done often.
func (d *Driver) do(ctx context.Context, client redis.Client, cmd redis.Completed) (redis.RedisMessage, error) {
	if ctx.Err() != nil {
		return redis.RedisMessage{}, driver.ContextError(ctx, driver.NotSent)
	}
	if !d.enter() {
		return redis.RedisMessage{}, &driver.Error{Class: driver.NotSent, Err: errClosed}
	}
	// The client must not see a deadline, so this one only follows ctx's end.
	unlimited, cancel := context.WithCancel(d.life)
	done := make(chan redis.RedisResult, 1)
	go func() {
		defer d.running.Done()
		defer cancel()
		done <- client.Do(unlimited, cmd)
	}()
	select {
	case r := <-done:
		msg, err := r.ToMessage()
		return msg, d.failure(err)
	case <-ctx.Done():
		cancel()
		return redis.RedisMessage{}, driver.ContextError(ctx, driver.Unknown)
	case <-d.closing:
		return redis.RedisMessage{}, &driver.Error{Class: driver.Unknown, Err: errClosed}
	}
}

// isForeign reports whether a command failed because somebody else's, for
// which the client was just opening the connection, was cancelled. Nothing was
// sent then, and this command may open it itself.
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
	case isDialError(err):
		class = driver.NotSent
	case errors.Is(err, context.DeadlineExceeded):
		// That of sending, and must not be taken for the caller's.
		return &driver.Error{Class: driver.Unknown, Err: fmt.Errorf("rueidis: no reply in time: %v", err)}
	case errors.Is(err, context.Canceled):
		// The client sees no caller's context. This is that of somebody else,
		// and must not be taken for the caller's either.
		return &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("no connection: %v", err)}
	case errors.Is(err, redis.ErrNoSlot), errors.Is(err, redis.ErrNoAddr),
		errors.Is(err, redis.ErrNoCache): // a command of the handshake was refused, by a busy server for one
		class = driver.NotSent
	}
	return &driver.Error{Class: class, Err: err}
}
