package rueidis

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// swapped is how long a client of sentinels or of a cluster may report that it is closed
	// while it only replaces connections.
	swapped = 500 * time.Millisecond
	// apart is how far two such reports are apart if the second begins another time: scripts
	// that fail are tried again much sooner.
	apart = 2 * time.Second
)

// route is a way to the servers. A client of a cluster opens connections to some nodes even though
// it is closed, so what comes back on one route says nothing of another.
type route struct {
	pipeline *nodePipeline // nil for commands that are not scripts, to any node
	wait     bool          // with WAIT, on connections of its own
}

// closings remembers on which routes the client reports that it is closed.
type closings struct {
	some   atomic.Bool // there are routes; spares most replies the mutex
	mu     sync.Mutex  // guards routes
	routes map[route]closing
}

// closing is when the client reported that it is closed.
type closing struct{ first, last time.Time }

// reported records that the client reports that it is closed, and returns for how long it has done
// so.
func (c *closings) reported(r route) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	k, ok := c.routes[r]
	if !ok || now.Sub(k.last) > apart {
		k.first = now
	}
	k.last = now
	if c.routes == nil {
		c.routes = make(map[route]closing)
	}
	c.routes[r] = k
	c.some.Store(true)
	return now.Sub(k.first)
}

// other records that a command had any other outcome.
func (c *closings) other(r route) {
	if !c.some.Load() || r.pipeline == nil { // another node may have replied
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.routes, func(of route, k closing) bool { return of == r || now.Sub(k.last) > apart })
	c.some.Store(len(c.routes) > 0)
}
