package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// command is a command that go-redis sends at most once, and that records whether it was sent.
type command struct {
	*redis.Cmd
	state atomic.Uint32
	words []word // the arguments after the name
}

// The states of a command.
const (
	waiting uint32 = iota // nothing of it has been written
	joined                // the same, in a pipeline with commands of others
	written               // it has been written to a connection, perhaps in part
	dropped               // its caller has left, and it must not be written
)

// errDropped interrupts the write of a command whose caller has left.
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
	if n > 0 {
		c.words[0].command = c
	} else {
		c.state.Store(written) // go-redis does not say when it writes the name
	}
	c.Cmd = redis.NewCmd(ctx, args...)
	// Otherwise a cluster client asks a server for its COMMAND table to find out.
	c.SetStepCount(1)
	return c
}

// used holds EVALSHA commands for reuse, by the number of their arguments.
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

// recycle takes back a command that is not referenced any more.
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

// NoRetry keeps go-redis from resending the command, which it otherwise does up to MaxRetries
// times when the reply is lost. One such command protects a whole pipeline. go-redis may still
// follow MOVED and ASK, and try again to get a connection.
func (c *command) NoRetry() bool { return true }

// sent reports whether a part of the command may have reached a server.
func (c *command) sent() bool { return c.state.Load() == written }

// join is called before the command becomes part of a pipeline with others. It reports false if
// the caller has left.
func (c *command) join() bool { return c.state.CompareAndSwap(waiting, joined) }

// abandon is called when the caller stops waiting. It returns the class of the caller's error: if
// nothing of the command is written yet, and it is alone, nothing will be.
func (c *command) abandon() driver.Class {
	if c.state.CompareAndSwap(waiting, dropped) {
		return driver.NotSent
	}
	return driver.Unknown
}

// word is an argument that go-redis can write only by asking for its bytes. The first word of a
// command records the moment after which the command may have reached a server. The errors of
// go-redis do not tell that: a timeout may be of the handshake. Unlike a string it is passed on
// without a copy.
type word struct {
	text    string
	command *command // of the first one
	buf     []byte
}

// MarshalBinary is called when the argument is written to a connection. Its error makes go-redis
// close the connection, which has received a part of a command.
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

// String is the text of the argument for hooks that trace commands.
func (w *word) String() string { return w.text }
