package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pingEvery is how often a connection is pinged, and silence how long it may go without a
	// sign of life.
	pingEvery = 2 * time.Second
	silence   = 5 * time.Second
	// checkEvery is how often it is checked that a connection leads to a master, and checkSoon how
	// long after channels were requested in a cluster: its map of slots may just be read.
	checkEvery = time.Second
	checkSoon  = 100 * time.Millisecond
)

// noReconnect is passed to a PubSub that has a connection. A PubSub reacts to every failure by
// connecting again, and requests all its channels in one command; then the refusal of one channel
// refuses all. With a context that has ended it fails instead.
var noReconnect = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

type verb int

const (
	ping verb = iota
	subscribe
	unsubscribe
)

// request is a command that was sent and has no answer yet. Each channel has a command of its own,
// so a refusal concerns one channel.
type request struct {
	verb    verb
	channel channel
	version uint64
}

// conn is one connection of a nodeSub. One goroutine writes, one reads.
type conn struct {
	nodeSub *nodeSub
	sub     *subscriber
	pubsub  *redis.PubSub
	ended   chan struct{} // closed when nothing more can be read
	strayed chan struct{} // capacity 1: commands go to another server
	useful  atomic.Bool   // the server has replied, and nothing made the connection useless
	passed  pool          // before the last check that found the subscriptions; guarded by subscriber.mu

	mu      sync.Mutex
	pending []request // in the order in which they were sent; guarded by mu
}

// expect records a request before it is sent.
func (k *conn) expect(r request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(k.pending, r)
}

// answered removes the oldest request and returns it.
func (k *conn) answered() (request, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		return request{}, false
	}
	r := k.pending[0]
	k.pending = k.pending[1:]
	return r, true
}

// answeredIf is answered if the oldest request has this verb and channel.
func (k *conn) answeredIf(v verb, ch channel) (request, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 || k.pending[0].verb != v || k.pending[0].channel != ch {
		return request{}, false
	}
	r := k.pending[0]
	k.pending = k.pending[1:]
	return r, true
}

// write sends what the wanted set requires, until the connection ends, or leads to no master any more.
func (k *conn) write() {
	beat := time.NewTicker(pingEvery)
	defer beat.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	soon := false
	for {
		select {
		case <-k.sub.closing:
			return
		case <-k.ended:
			return
		case <-k.strayed:
			return
		case <-check.C:
			if soon {
				check.Reset(checkEvery)
				soon = false
			}
			if !k.check() {
				return
			}
		case <-beat.C:
			if !k.send(request{verb: ping}) {
				return
			}
		case <-k.nodeSub.wake:
			if k.sub.driver.cluster != nil && !soon {
				check.Reset(checkSoon)
				soon = true
			}
			if !k.update() {
				return
			}
		}
	}
}

// update sends what is to do, and reports whether it could.
func (k *conn) update() bool {
	for more := true; more; {
		var requests []request
		requests, more = k.nodeSub.take()
		for _, r := range requests {
			if !k.send(r) {
				return false
			}
		}
	}
	return true
}

// send reports whether it has sent the request.
func (k *conn) send(r request) bool {
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

// read handles what the server sends, until the connection ends or a reply makes no sense.
func (k *conn) read() {
	defer close(k.ended)
	for {
		// A timeout may have cut a reply in two, so it also ends the connection.
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

// handle reports whether the connection is still usable.
func (k *conn) handle(received any, reply error) bool {
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
func (k *conn) changed(m *redis.Subscription) bool {
	switch m.Kind {
	case "subscribe", "ssubscribe":
		ch := channel{m.Channel, m.Kind == "ssubscribe"}
		r, ok := k.answeredIf(subscribe, ch)
		if ok {
			k.sub.confirmed(k.nodeSub, ch, r.version)
		}
		return ok
	case "unsubscribe", "sunsubscribe":
		ch := channel{m.Channel, m.Kind == "sunsubscribe"}
		if _, asked := k.answeredIf(unsubscribe, ch); !asked {
			k.sub.revoked(k.nodeSub, ch)
		}
		return true
	}
	return false
}

// refused handles an error reply, which does not name its request. Servers reply in order, so it
// belongs to the oldest one.
func (k *conn) refused(reply error) bool {
	r, ok := k.answered()
	if !ok {
		return false
	}
	if r.verb != subscribe {
		return true // a sign of life, or the channel was already gone
	}
	ok = k.sub.rejected(k.nodeSub, r.channel, r.version, reply)
	if !ok {
		k.useful.Store(false)
	}
	return ok
}
