package goredis

import (
	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// A master that hands its role over keeps its subscribers. It relays messages to them, but scripts on
// the new master do not count them, and so leave no lock to them. So subscriptions are checked.
//
// In a cluster, the client learns of a new master by MOVED, at the latest when a waiter asks for its
// lock. Elsewhere a new master is reached by new connections to the same address, and the subscribed
// connection cannot be asked for the role of its server: go-redis sends nothing but pings on it. So
// the server that commands go to is asked for the number of subscribers. It counts none for a channel
// only this client is subscribed to if the subscription is somewhere else.

const (
	// checked is how many channels are counted at once.
	checked = 32
	// mostSkipped bounds for how many checks in a row the subscription is put up with.
	mostSkipped = 60
)

// checks is what a nodeSub knows from its checks.
type checks struct {
	running bool
	refused bool // the server does not report the number of subscribers
	left    int  // how often in a row a connection was given up
	skip    int  // for how many checks the subscription is put up with
}

// check reports whether the connection leads to a master, as far as is known at once.
func (k *conn) check() bool {
	if k.sub.driver.cluster != nil {
		return !k.nodeSub.displaced()
	}
	k.checkServer()
	return true
}

// displaced reports whether a channel belongs to another master of the cluster than that of l. The
// classic ones belong to none: servers forward their messages to each other.
func (l *nodeSub) displaced() bool {
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	for ch := range l.asked {
		if !ch.sharded {
			continue
		}
		if node := l.sub.driver.owner(ch.name); node != nil && node.Options().Addr != l.addr {
			return true
		}
	}
	return false
}

// pool is what a client tells about its connections for commands.
type pool struct {
	opened, stale, total uint32
	failures             uint64 // of commands
}

// pool reports false if it may stay the same while connections are replaced.
func (d *Driver) pool() (pool, bool) {
	c, ok := d.client.(*redis.Client)
	if !ok || c.Options().MinIdleConns > 0 { // those that are opened in advance are not counted
		return pool{}, false
	}
	stats := c.PoolStats()
	return pool{stats.Misses, stats.StaleConns, stats.TotalConns, d.failures.Load()}, true
}

// checkServer checks, in the background, whether the server that commands go to has the subscriptions
// of k. If it had at the last check, it has as long as commands use the same connections.
func (k *conn) checkServer() {
	l, d := k.nodeSub, k.sub.driver
	now, telling := d.pool()
	confirmed := k.confirmed()
	if len(confirmed) == 0 {
		return
	}
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	c := &l.checks
	if c.running || c.refused || telling && now == k.passed {
		return
	}
	if c.skip > 0 {
		c.skip--
		return
	}
	words := []string{"numsub"}
	for ch := range confirmed {
		words = append(words, ch.name)
	}
	c.running = true
	l.sub.running.Go(func() {
		reply, err := d.do(l.sub.context(), d.client, newCommand(l.sub.context(), "pubsub", words...))
		l.sub.mu.Lock()
		defer l.sub.mu.Unlock()
		c.running = false
		switch {
		case err != nil:
			c.refused = driver.ClassOf(err) == driver.Denied || driver.ClassOf(err) == driver.Other
		case l.absent(confirmed, reply):
			c.skip = min(1<<c.left-1, mostSkipped)
			c.left = min(c.left+1, 8)
			select {
			case k.strayed <- struct{}{}:
			default: // it is known
			}
		default:
			k.passed, c.left, c.skip = now, 0, 0
		}
	})
}

// confirmed returns some classic channels to which the server has confirmed the subscription, with
// their versions. It must be called by the goroutine that sends.
func (k *conn) confirmed() map[channel]uint64 {
	k.mu.Lock()
	pending := make(map[channel]struct{}, len(k.pending))
	for _, r := range k.pending {
		pending[r.channel] = struct{}{}
	}
	k.mu.Unlock()
	k.sub.mu.Lock()
	defer k.sub.mu.Unlock()
	some := make(map[channel]uint64)
	for ch, version := range k.nodeSub.asked { // in no order, so each has its turn
		if _, ok := pending[ch]; ok || ch.sharded {
			continue
		}
		if some[ch] = version; len(some) == checked {
			break
		}
	}
	return some
}

// absent reports whether a reply of PUBSUB NUMSUB shows that the server does not have one of the
// subscriptions, unless they have ended meanwhile. The caller holds mu.
func (l *nodeSub) absent(confirmed map[channel]uint64, reply any) bool {
	pairs, _ := reply.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		count, ok := pairs[i+1].(int64)
		ch := channel{name: name}
		version, asked := l.asked[ch]
		if ok && count == 0 && asked && version == confirmed[ch] {
			return true
		}
	}
	return false
}
