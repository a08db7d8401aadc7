package goredis

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	reconnectMin = 20 * time.Millisecond
	reconnectMax = time.Second

	// lookSize is how many channels are looked at before anything else is done.
	lookSize = 512
)

// line keeps one server subscribed to the channels that are given to it, on
// one connection after the other.
type line struct {
	sub  *subscriber
	addr string
	wake chan struct{} // has room for one

	// What follows is guarded by sub.mu.

	node    *redis.Client        // of a cluster, or nil
	changed map[channel]struct{} // to be brought in line with the wishes
	asked   map[channel]uint64   // the version with which a channel was asked for on this connection
}

// look has the line look at a channel. The caller holds sub.mu.
func (l *line) look(ch channel) {
	l.changed[ch] = struct{}{}
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// run connects and connects again, until the subscriber closes or, in a
// cluster, all channels of the line have gone elsewhere.
func (l *line) run() {
	wait := reconnectMin
	for {
		worked := l.connect()
		if worked {
			wait = reconnectMin
		}
		if l.sub.driver.cluster != nil && l.sub.rehome(l, worked) {
			return
		}
		if !l.sub.pause(wait/2 + rand.N(wait)) {
			return
		}
		wait = min(2*wait, reconnectMax)
	}
}

// connect serves one connection until it breaks. It reports whether the
// server has answered.
func (l *line) connect() (worked bool) {
	k := &link{line: l, sub: l.sub, pubsub: l.open(), over: make(chan struct{})}
	k.expect(request{verb: ping})
	if k.pubsub.Ping(l.sub.context()) != nil { // this is what connects
		_ = k.pubsub.Close()
		return false
	}
	l.begin()
	var reading sync.WaitGroup
	reading.Go(k.read)
	k.write()
	_ = k.pubsub.Close() // it may have failed before
	reading.Wait()
	return k.useful.Load()
}

// open returns a PubSub for the line's server. It does no I/O.
func (l *line) open() *redis.PubSub {
	l.sub.mu.Lock()
	node := l.node
	l.sub.mu.Unlock()
	if node != nil {
		return bounded(node).Subscribe(l.sub.context())
	}
	return l.sub.driver.client.Subscribe(l.sub.context())
}

// begin has all channels of the line asked for on its new connection.
func (l *line) begin() {
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	clear(l.asked)
	clear(l.changed)
	for ch, w := range l.sub.wanted {
		if w.line == l {
			l.look(ch)
		}
	}
}

// take returns what is to be asked for and to be given up, and whether there
// is more.
func (l *line) take() (requests []request, more bool) {
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	for ch := range l.changed {
		if len(requests) == lookSize {
			return requests, true
		}
		delete(l.changed, ch)
		version, asked := l.asked[ch]
		if w := l.sub.wanted[ch]; w != nil && w.line == l {
			if !asked || version != w.version {
				l.asked[ch] = w.version
				requests = append(requests, request{verb: subscribe, channel: ch, version: w.version})
			}
		} else if asked {
			delete(l.asked, ch)
			requests = append(requests, request{verb: unsubscribe, channel: ch})
		}
	}
	return requests, false
}
