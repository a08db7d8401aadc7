package goredis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pingEvery is how often a connection is asked for a sign of life, and
	// silence how long it may be without one.
	pingEvery = 2 * time.Second
	silence   = 5 * time.Second

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

// noReconnect is given to a PubSub that has a connection. The PubSub answers
// every failure by connecting again, and asks for all its channels in one
// command, of which one that is refused refuses all. With a context that has
// ended it fails instead.
var noReconnect = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

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

type verb int

const (
	ping verb = iota
	subscribe
	unsubscribe
)

// request is a command that has been sent and is to be answered. Each channel
// has a command of its own, so a refusal is of one channel.
type request struct {
	verb    verb
	channel channel
	version uint64
}

// link is one connection of a line. One goroutine writes, one reads.
type link struct {
	line   *line
	sub    *subscriber
	pubsub *redis.PubSub
	over   chan struct{} // closed when nothing more can be read
	useful atomic.Bool   // the server has answered, and nothing made the connection useless

	mu      sync.Mutex
	pending []request // in the order in which they were sent; guarded by mu
}

// expect notes a request before it is sent.
func (k *link) expect(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(k.pending, r)
}

// answered removes the oldest request and returns it.
func (k *link) answered() (request, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		return request{}, false
	}
	r := k.pending[0]
	k.pending = k.pending[1:]
	return r, true
}

// answeredIf is answered if the oldest request is of a kind and channel.
func (k *link) answeredIf(v verb, ch channel) (request, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 || k.pending[0].verb != v || k.pending[0].channel != ch {
		return request{}, false
	}
	r := k.pending[0]
	k.pending = k.pending[1:]
	return r, true
}

// write sends what the wishes demand, until the connection is over.
func (k *link) write() {
	beat := time.NewTicker(pingEvery)
	defer beat.Stop()
	for {
		select {
		case <-k.sub.closing:
			return
		case <-k.over:
			return
		case <-beat.C:
			if !k.send(request{verb: ping}) {
				return
			}
		case <-k.line.wake:
			for more := true; more; {
				var requests []request
				requests, more = k.line.take()
				for _, r := range requests {
					if !k.send(r) {
						return
					}
				}
			}
		}
	}
}

// send reports whether it has sent the request.
func (k *link) send(r request) bool {
	k.expect(r)
	name, sharded := r.channel.name, r.channel.sharded
	var err error
	switch {
	case r.verb == ping:
		err = k.pubsub.Ping(noReconnect)
	case r.verb == subscribe && sharded:
		err = k.pubsub.SSubscribe(noReconnect, name)
	case r.verb == subscribe:
		err = k.pubsub.Subscribe(noReconnect, name)
	case sharded:
		err = k.pubsub.SUnsubscribe(noReconnect, name)
	default:
		err = k.pubsub.Unsubscribe(noReconnect, name)
	}
	return err == nil
}

// read takes what the server sends, until nothing comes any more or it makes
// no sense.
func (k *link) read() {
	defer close(k.over)
	for {
		// A timeout may have cut a reply in two, so it ends the connection too.
		received, err := k.pubsub.ReceiveTimeout(noReconnect, silence)
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) {
			return
		}
		k.useful.Store(true)
		if !k.handle(received, err) {
			return
		}
	}
}

// handle reports whether the connection is of any further use.
func (k *link) handle(received any, reply error) bool {
	if reply != nil {
		return k.refused(reply)
	}
	switch m := received.(type) {
	case *redis.Message:
		k.sub.sink.Message(m.Channel, m.Payload)
		return true
	case *redis.Subscription:
		return k.changed(m)
	case *redis.Pong:
		_, ok := k.answeredIf(ping, channel{})
		return ok
	}
	return false
}

// changed handles a confirmation.
func (k *link) changed(m *redis.Subscription) bool {
	switch m.Kind {
	case "subscribe", "ssubscribe":
		ch := channel{m.Channel, m.Kind == "ssubscribe"}
		r, ok := k.answeredIf(subscribe, ch)
		if ok {
			k.sub.confirmed(k.line, ch, r.version)
		}
		return ok
	case "unsubscribe", "sunsubscribe":
		ch := channel{m.Channel, m.Kind == "sunsubscribe"}
		if _, asked := k.answeredIf(unsubscribe, ch); !asked {
			k.sub.revoked(k.line, ch)
		}
		return true
	}
	return false
}

// refused handles an error reply, which does not say to what. It answers the
// oldest request, as servers answer in order.
func (k *link) refused(reply error) bool {
	r, ok := k.answered()
	if !ok {
		return false
	}
	if r.verb != subscribe {
		return true // a sign of life, or the channel was not there any more
	}
	ok = k.sub.rejected(k.line, r.channel, r.version, reply)
	if !ok {
		k.useful.Store(false)
	}
	return ok
}
