package goredis

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// command is a command that go-redis sends at most once, and of which is known
// whether it did.
type command struct {
	*redis.Cmd
	state atomic.Uint32
}

// The states of a command.
const (
	waiting uint32 = iota // nothing of it has been written
	written               // it has been written to a connection, perhaps in part
	dropped               // its caller has left, and it must not be written
)

// errDropped breaks off the writing of a command whose caller has left.
var errDropped = errors.New("goredis: the caller has left")

// newCommand returns the command name with its arguments. The first one lets
// the command know when it is written.
func newCommand(ctx context.Context, name, first string, rest ...string) *command {
	c := &command{}
	args := make([]any, 2, 2+len(rest))
	args[0], args[1] = name, stamp{first, c}
	for _, a := range rest {
		args = append(args, a)
	}
	c.Cmd = redis.NewCmd(ctx, args...)
	// Else a cluster client asks a server for its COMMAND table to learn it.
	c.SetStepCount(1)
	return c
}

// NoRetry keeps go-redis from sending the command again, which it otherwise
// does up to MaxRetries times when the reply is lost. One such command in a
// pipeline protects the whole. It remains free to follow MOVED and ASK, and to
// try again to get a connection.
func (c *command) NoRetry() bool { return true }

// sent reports whether something of the command may have reached a server.
func (c *command) sent() bool { return c.state.Load() == written }

// abandon is called when the caller stops waiting. It returns what the caller
// can say of the command: if nothing of it is written yet, nothing will be.
func (c *command) abandon() driver.Class {
	if c.state.CompareAndSwap(waiting, dropped) {
		return driver.NotSent
	}
	return driver.Unknown
}

// stamp is an argument that go-redis can only write by asking for its bytes.
// That makes the moment known after which a command may have reached a server,
// which the errors of go-redis do not tell: a timeout may be of the handshake.
type stamp struct {
	text    string
	command *command
}

// MarshalBinary is called when the argument is written to a connection. Its
// error makes go-redis close the connection, on which a part of a command
// stands.
func (s stamp) MarshalBinary() ([]byte, error) {
	s.command.state.CompareAndSwap(waiting, written)
	if s.command.state.Load() == dropped {
		return nil, errDropped
	}
	return []byte(s.text), nil
}

// String is how hooks that trace commands see the argument.
func (s stamp) String() string { return s.text }
