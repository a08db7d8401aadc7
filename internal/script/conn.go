package script

import (
	"sync/atomic"

	"github.com/mortise-go/mortise/driver"
)

// Conn is a client's way to Redis: its driver, and how messages travel there. The
// latter is known once Redis was asked.
type Conn struct {
	driver  driver.Driver
	publish atomic.Pointer[Publish]
	cluster atomic.Bool
}

// NewConn returns the way to Redis through d.
func NewConn(d driver.Driver) *Conn { return &Conn{driver: d} }

// Learn notes how messages travel.
func (c *Conn) Learn(cluster bool, p Publish) {
	c.cluster.Store(cluster)
	c.publish.Store(&p)
}

// Known reports whether it is known how messages travel.
func (c *Conn) Known() bool { return c.publish.Load() != nil }

// Publish is how releases are announced. It must be known.
func (c *Conn) Publish() Publish { return *c.publish.Load() }

// Cluster reports whether Redis is known to be a cluster.
func (c *Conn) Cluster() bool { return c.cluster.Load() }

// TurnCommand is how the next client is told that its turn has come; empty where that
// is not possible: in a cluster only sharded messages are known to reach those who
// listen on the lock's own server.
func (c *Conn) TurnCommand() string {
	switch {
	case !c.Cluster():
		return "publish"
	case c.Publish() != Classic:
		return "spublish"
	}
	return ""
}
