package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// command is a command that go-redis sends at most once, and of which is known
// whether it did.
type command struct {
	*redis.Cmd
	state atomic.Uint32
	words []word // the arguments after the name
}

// The states of a command.
const (
	waiting uint32 = iota // nothing of it has been written
	joined                // the same, and it is in a pipeline with those of others
	written               // it has been written to a connection, perhaps in part
	dropped               // its caller has left, and it must not be written
)

// errDropped breaks off the writing of a command whose caller has left.
var errDropped = errors.New("goredis: the caller has left")

// newCommand returns the command name with its arguments.
func newCommand(ctx context.Context, name string, rest ...string) *command {
	c := blank(ctx, name, len(rest))
	for i, text := range rest {
		c.words[i].text = text
	}
	return c
}

// blank returns a command whose n arguments are still to be set.
func blank(ctx context.Context, name string, n int) *command {
	c := &command{words: make([]word, n)}
	args := make([]any, 1, 1+n)
	args[0] = name
	for i := range c.words {
		args = append(args, &c.words[i])
	}
	c.words[0].command = c
	c.Cmd = redis.NewCmd(ctx, args...)
	// Else a cluster client asks a server for its COMMAND table to learn it.
	c.SetStepCount(1)
	return c
}

// used are EVALSHA commands, by the number of their arguments, to be used again.
var used [12]sync.Pool

// reused returns an EVALSHA command whose n arguments are still to be set.
func reused(n int) *command {
	if n < len(used) {
		if c, ok := used[n].Get().(*command); ok {
			return c
		}
	}
	return blank(context.Background(), "evalsha", n)
}

// recycle takes back a command that nobody looks at any more.
func recycle(c *command) {
	n := len(c.words)
	if n >= len(used) {
		return
	}
	c.SetErr(nil)
	c.SetVal(nil)
	c.state.Store(waiting)
	used[n].Put(c)
}

// NoRetry keeps go-redis from sending the command again, which it otherwise
// does up to MaxRetries times when the reply is lost. One such command in a
// pipeline protects the whole. It remains free to follow MOVED and ASK, and to
// try again to get a connection.
func (c *command) NoRetry() bool { return true }

// sent reports whether something of the command may have reached a server.
func (c *command) sent() bool { return c.state.Load() == written }

// join is called before the command becomes part of a pipeline with others. It
// reports false if the caller has left.
func (c *command) join() bool { return c.state.CompareAndSwap(waiting, joined) }

// abandon is called when the caller stops waiting. It returns what the caller
// can say of the command: if nothing of it is written yet, and it is alone,
// nothing will be.
func (c *command) abandon() driver.Class {
	if c.state.CompareAndSwap(waiting, dropped) {
		return driver.NotSent
	}
	return driver.Unknown
}

// word is an argument that go-redis can only write by asking for its bytes.
// The first one of a command makes the moment known after which that may have
// reached a server, which the errors of go-redis do not tell: a timeout may be of
// the handshake. Unlike a string it is passed on without being copied.
type word struct {
	text    string
	command *command // of the first one
	buf     []byte
}

// MarshalBinary is called when the argument is written to a connection. Its
// error makes go-redis close the connection, on which a part of a command
// stands.
func (w *word) MarshalBinary() ([]byte, error) {
	if c := w.command; c != nil {
		if !c.state.CompareAndSwap(waiting, written) {
			c.state.CompareAndSwap(joined, written)
		}
		if c.state.Load() == dropped {
			return nil, errDropped
		}
	}
	w.buf = append(w.buf[:0], w.text...)
	return w.buf, nil
}

// String is how hooks that trace commands see the argument.
func (w *word) String() string { return w.text }
