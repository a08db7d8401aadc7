package goredis

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/internal/backlog"
)

const (
	reconnectMin = 20 * time.Millisecond
	reconnectMax = time.Second

	// takeSize is how many channels are handled before anything else is done.
	takeSize = 512
)

// nodeSub keeps one server subscribed to the channels that are assigned to it, on one connection
// after another.
type nodeSub struct {
	sub  *subscriber
	addr string
	wake chan struct{} // capacity 1

	// The fields below are guarded by sub.mu.

	node    *redis.Client          // of a cluster, or nil
	changed backlog.Queue[channel] // channels to compare with the wanted set
	asked   map[channel]uint64     // channels requested on this connection, with their versions
	checks  checks
}

// todo makes the nodeSub compare a channel with the wanted set. The caller holds sub.mu.
func (l *nodeSub) todo(ch channel) {
	l.changed.Add(ch)
	select {
	case l.wake <- struct{}{}:
	default: // it is about to do so anyway
	}
}

// run connects and reconnects until the subscriber closes or, in a cluster, all channels of the
// nodeSub have moved elsewhere.
func (l *nodeSub) run() {
	wait := reconnectMin
	for {
		began := time.Now()
		worked := l.connect()
		if worked {
			wait = reconnectMin
		}
		if l.sub.driver.cluster != nil && l.sub.reassign(l, worked) {
			return
		}
		// Messages are lost meanwhile, so a connection that has lasted is replaced at once.
		if !l.sub.pause(time.Until(began.Add(wait/2 + rand.N(wait)))) {
			return
		}
		wait = min(2*wait, reconnectMax)
	}
}

// connect serves one connection until it breaks. It reports whether the server has replied.
func (l *nodeSub) connect() (worked bool) {
	k := &conn{nodeSub: l, sub: l.sub, pubsub: l.open(), ended: make(chan struct{}), strayed: make(chan struct{}, 1)}
	k.expect(request{verb: ping})
	if k.pubsub.Ping(l.sub.context()) != nil { // this opens the connection
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

// open returns a PubSub for the server. It does no I/O.
func (l *nodeSub) open() *redis.PubSub {
	l.sub.mu.Lock()
	node := l.node
	l.sub.mu.Unlock()
	if node != nil {
		return bounded(node).Subscribe(l.sub.context())
	}
	return l.sub.driver.client.Subscribe(l.sub.context())
}

// begin requests all channels of the nodeSub on its new connection.
func (l *nodeSub) begin() {
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	clear(l.asked)
	l.changed.Clear()
	for _, w := range l.sub.inOrder() {
		if w.nodeSub == l {
			l.todo(w.channel)
		}
	}
}

// take returns the next subscriptions and unsubscriptions in their order, and whether there are
// more.
func (l *nodeSub) take() (requests []request, more bool) {
	l.sub.mu.Lock()
	defer l.sub.mu.Unlock()
	for len(requests) < takeSize {
		ch, ok := l.changed.Next()
		if !ok {
			return requests, false
		}
		version, asked := l.asked[ch]
		if w := l.sub.wanted[ch]; w != nil && w.nodeSub == l {
			if !asked || version != w.version {
				l.asked[ch] = w.version
				requests = append(requests, request{verb: subscribe, channel: ch, version: w.version})
			}
		} else if asked {
			delete(l.asked, ch)
			requests = append(requests, request{verb: unsubscribe, channel: ch})
		}
	}
	return requests, l.changed.Len() > 0
}
