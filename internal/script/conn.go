package script

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Conn is a client's connection to Redis: its driver, and the way to publish there,
// which is known after the first answer of Redis.
type Conn struct {
	driver   driver.Driver
	publish  atomic.Pointer[Publish]
	cluster  atomic.Bool
	releases atomic.Int64 // of permits: the last serial number
	fair     string       // the step of fair locks; empty for the default

	passed func(lock string, n int) // is called when dead waiters of a fair lock were dropped; may be nil
}

// NewConn returns the connection to Redis through d.
func NewConn(d driver.Driver) *Conn { return &Conn{driver: d} }

// NextRelease returns the serial number of the next release of permits.
func (c *Conn) NextRelease() int64 { return c.releases.Add(1) }

// SetFairStep sets how much later the deadline of a Redisson waiter for a fair lock is than
// that of the waiter before it. It must not be called while the connection is used.
func (c *Conn) SetFairStep(step time.Duration) { c.fair = strconv.FormatInt(step.Milliseconds(), 10) }

// OnPassed sets what is called when dead waiters of a fair lock were dropped. It must not be called
// while the connection is used.
func (c *Conn) OnPassed(f func(lock string, n int)) { c.passed = f }

// Learn sets the way to publish.
func (c *Conn) Learn(cluster bool, p Publish) {
	c.cluster.Store(cluster)
	c.publish.Store(&p)
}

// Known reports whether the way to publish is known.
func (c *Conn) Known() bool { return c.publish.Load() != nil }

// Publish returns how releases are announced. It must be known.
func (c *Conn) Publish() Publish { return *c.publish.Load() }

// Cluster reports whether Redis is known to be a cluster.
func (c *Conn) Cluster() bool { return c.cluster.Load() }

// TurnCommand returns the command that notifies the next client of its turn; empty where
// that is impossible: in a cluster only sharded messages are known to reach subscribers
// on the lock's own server.
func (c *Conn) TurnCommand() string {
	switch {
	case !c.Cluster():
		return "publish"
	case c.Publish() != Classic:
		return "spublish"
	}
	return ""
}
