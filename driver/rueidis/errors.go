package rueidis

import (
	"context"
	"errors"
	"net"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// do runs one command that is not a script, in a goroutine of its own, for the reasons given at
// nodePipeline. It is not for frequent commands.
func (d *Driver) do(ctx context.Context, client redis.Client, cmd redis.Completed) (redis.RedisMessage, error) {
	if ctx.Err() != nil {
		return redis.RedisMessage{}, driver.ContextError(ctx, driver.NotSent)
	}
	if !d.enter() {
		return redis.RedisMessage{}, &driver.Error{Class: driver.Closed, Err: errClosed}
	}
	// The client must not see a deadline, so this context only follows the end of ctx.
	unlimited, cancel := context.WithCancel(d.life)
	done := make(chan redis.RedisResult, 1)
	go func() {
		defer d.running.Done()
		defer cancel()
		r := client.Do(unlimited, cmd)
		for i := 1; i < tries && isForeign(r.NonRedisError()) && unlimited.Err() == nil; i++ {
			r = client.Do(unlimited, cmd)
		}
		done <- r
	}()
	select {
	case r := <-done:
		msg, err := r.ToMessage()
		return msg, d.failure(err, route{})
	case <-ctx.Done():
		cancel()
		return redis.RedisMessage{}, driver.ContextError(ctx, driver.Unknown)
	case <-d.closing:
		return redis.RedisMessage{}, &driver.Error{Class: driver.Unknown, Err: errClosed}
	}
}

// tries is how often a command is sent at most that failed by no fault of its own, as isForeign says.
const tries = 3

// isForeign reports whether a command failed because another caller's command, for which the client
// was just opening the connection, was cancelled. Nothing was sent then, and this command may open
// the connection itself.
func isForeign(err error) bool { return errors.Is(err, context.Canceled) }

// failure returns the classified form of an error of the client, nil for none and for a nil reply.
func (d *Driver) failure(err error, r route) error {
	if err == nil || redis.IsRedisNil(err) {
		d.closings.other(r)
		return nil
	}
	classified := classify(err)
	switch {
	case errors.Is(err, context.Canceled) && d.life.Err() != nil:
		// Cancelled by Close: it may have been sent.
		return &driver.Error{Class: driver.Unknown, Err: errClosed}
	case errors.Is(err, redis.ErrClosing):
		classified = d.ended(err, r)
	default:
		d.closings.other(r)
	}
	if d.cluster {
		switch driver.ClassOf(classified) {
		case driver.NotSent, driver.Unknown, driver.Passing:
			d.slots.doubt() // often the first sign of a new topology
		}
	}
	return classified
}

// ended returns the classified form of an error that says that the client, or one of its
// connections, is closed. On a closed connection the command may have been sent.
func (d *Driver) ended(err error, r route) error {
	if d.client.Mode() != redis.ClientModeStandalone && d.closings.reported(r) < swapped {
		return &driver.Error{Class: driver.Unknown, Err: err}
	}
	return &driver.Error{Class: driver.Closed, Err: err}
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
		// This is the deadline of sending; the caller must not mistake it for its own.
		return &driver.Error{Class: driver.Unknown, Err: errors.New("rueidis: no reply in time: " + err.Error())}
	case errors.Is(err, context.Canceled):
		// The client sees no caller's context, so another caller was cancelled. This caller must
		// not mistake it for its own context either.
		return &driver.Error{Class: driver.NotSent, Err: errors.New("no connection: " + err.Error())}
	case errors.Is(err, redis.ErrNoSlot), errors.Is(err, redis.ErrNoAddr),
		errors.Is(err, redis.ErrNoCache): // a command of the handshake was refused, for example by a busy server
		class = driver.NotSent
	}
	return &driver.Error{Class: class, Err: err}
}

// successor returns the client of the node that now serves the slot of key, if err says that the
// node that the client believes to be its master cannot be reached. The client itself checks only
// once a second. It returns nil if there is no such node.
func (d *Driver) successor(ctx context.Context, key string, err error) redis.Client {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || op.Addr == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, slotsPause)
	defer cancel()
	d.slots.renew(ctx)
	if addr := d.slots.owner(slotOf(key)); addr != op.Addr.String() {
		return d.client.Nodes()[addr]
	}
	return nil
}
