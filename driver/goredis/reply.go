package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// errNoReply is for a command that a hook of the client has swallowed.
var errNoReply = errors.New("goredis: the client returned neither a reply nor an error")

// outcome returns the outcome of a command that the client has returned: its reply, or the
// classified err.
func (d *Driver) outcome(cmd *command, err error) (any, error) {
	if err == nil && cmd.Val() == nil { // a nil reply comes with the error redis.Nil
		err = errNoReply
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, d.failure(err, cmd.sent())
	}
	if d.cluster != nil && !d.located.Load() {
		d.located.Store(true) // otherwise it could not have routed the command
	}
	if err != nil {
		return nil, nil
	}
	return cmd.Val(), nil
}

// failure classifies an error of the client. Sent reports whether a part of the command may have been
// written.
func (d *Driver) failure(err error, sent bool) error {
	err = d.hinted(d.classify(err, sent))
	switch driver.ClassOf(err) {
	case driver.NotSent, driver.Unknown, driver.Passing:
		d.failures.Add(1)
		d.doubt() // often the first sign of a new topology
	}
	return err
}

func (d *Driver) classify(err error, sent bool) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return driver.ReplyError(err, reply.Error())
	}
	class := driver.Unknown
	switch {
	case errors.Is(err, redis.ErrClosed): // the application has closed the client
		class = driver.Closed
	case !sent || notSent(err):
		class = driver.NotSent
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		// The client never sees the caller's context, so this is another one: of a dial, or the
		// driver's own. The caller must not mistake it for its own.
		select {
		case <-d.closing:
			err = errClosed
			if class == driver.NotSent {
				class = driver.Closed
			}
		default:
			err = errors.New("no connection: " + err.Error())
		}
	}
	return &driver.Error{Class: class, Err: err}
}

// notSent reports whether err says that there was no connection. If a command was written before,
// to a server that replied with MOVED, it did not run there; any other command is not tried again
// once it was written.
func notSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// value converts a reply of a script.
func value(reply any) (driver.Value, error) {
	switch v := reply.(type) {
	case nil:
		return driver.Value{}, nil
	case int64:
		return driver.IntValue(v), nil
	case string:
		return driver.StringValue(v), nil
	case []any:
		if len(v) == 1 {
			if n, ok := v[0].(int64); ok {
				return driver.CodeValue(n), nil
			}
		}
		items := make([]driver.Value, len(v))
		for i := range v {
			var err error
			if items[i], err = value(v[i]); err != nil {
				return driver.Value{}, err
			}
		}
		return driver.ArrayValue(items), nil
	case error: // in an array
		return driver.Value{}, driver.ReplyError(v, v.Error())
	}
	return driver.Value{}, &driver.Error{Class: driver.Other, Err: fmt.Errorf(
		"goredis: a script replied neither nil, integer, string nor array, but %T: %v", reply, reply)}
}
