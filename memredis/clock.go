package memredis

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// clock moves the time of a server before each command of a connection, and not while a script
// runs. Left alone, miniredis reads the time anew for each command of a script: a key may end
// between two of them.
type clock struct {
	mini        *miniredis.Miniredis
	connections sync.Map // of *server.Peer
	taken       bool     // by package mortisetest, which sets the time itself

	mu sync.Mutex // held while the time is moved, so that it is never set back
}

// beforeCommand is called before a command runs. A script sends its commands as a peer of its own,
// which has a context from the start; a connection gets one with its first command.
func (c *clock) beforeCommand(p *server.Peer) {
	if _, known := c.connections.Load(p); !known {
		if p.Ctx != nil {
			return // miniredis is locked for the script
		}
		c.connections.Store(p, nil)
		p.OnDisconnect(func() { c.forget(p) })
	}
	c.set()
}

// forget ends what beforeCommand knows of a connection.
func (c *clock) forget(p *server.Peer) { c.connections.Delete(p) }

// set sets the time of the server to that of the process.
func (c *clock) set() {
	if c.taken {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mini.SetTime(time.Now().UTC()) // waits for a script that runs
}
