package rueidis

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

const (
	// pingEvery is how often a subscriber connection is pinged, and replyLimit how long any reply
	// may take. The client pings too, but its limit may be too long for locks.
	pingEvery  = 3 * time.Second
	replyLimit = 3 * time.Second
	// laterAfter is the pause before a channel that was not accepted is requested again.
	laterAfter = 100 * time.Millisecond
	// chunk is how many channels are requested at once.
	chunk = 512

	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
)

// node keeps one connection to one server subscribed to the channels that are assigned to it.
type node struct {
	sub  *subscriber
	addr string
	wake chan struct{} // capacity 1

	pending map[channel]uint64   // to compare with the wanted set, with the number of the change; guarded by sub.mu
	later   map[channel]struct{} // the same, after a pause; guarded by sub.mu
	onWire  map[channel]struct{} // requested on this connection; used only by the goroutine of run
}

// todo makes the node compare a channel with the wanted set. The caller holds sub.mu.
func (n *node) todo(ch channel) {
	n.sub.changes++
	n.pending[ch] = n.sub.changes
	select {
	case n.wake <- struct{}{}:
	default: // it is about to do so anyway
	}
}

// run connects and reconnects until the subscriber closes or, in a cluster, the node has nothing to
// do and cannot be reached.
func (n *node) run() {
	backoff := backoffMin
	for {
		began := time.Now()
		up := n.session()
		select {
		case <-n.sub.life.Done():
			return
		default:
		}
		if up {
			backoff = backoffMin
		}
		if n.sub.driver.cluster && n.elsewhere(up) {
			return
		}
		// Messages are lost meanwhile, so a connection that has lasted is replaced at once.
		pause := time.NewTimer(time.Until(began.Add(backoff/2 + rand.N(backoff))))
		select {
		case <-pause.C:
		case <-n.sub.life.Done():
			pause.Stop()
			return
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// elsewhere checks whether the cluster has moved the node's channels to others, and reports whether
// none are left. A connection that cannot be opened makes it read the map of slots; one that broke
// does not.
func (n *node) elsewhere(wasUp bool) bool {
	if !wasUp {
		ctx, cancel := n.sub.context(replyLimit)
		defer cancel()
		_ = n.sub.driver.slots.refresh(ctx) // if no node replies, the old map stays in use
	}
	return n.sub.reassign(n)
}

// session opens a connection and serves it until it breaks. It reports whether there was one.
func (n *node) session() bool {
	client := n.client()
	if client == nil {
		return false
	}
	conn, release := client.Dedicate() // waits for the connection, at most the client's dial timeout
	defer release()
	defer conn.Close() // not returned to the pool: it is subscribed, or broken
	broken := conn.SetPubSubHooks(redis.PubSubHooks{OnMessage: n.message, OnSubscription: n.subscription})
	if !n.alive(conn) {
		return false
	}
	n.begin()

	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	again := time.NewTicker(laterAfter)
	defer again.Stop()
	for {
		select {
		case <-n.sub.life.Done():
			return true
		case <-broken: //nolint:errcheck // that it is broken says enough
			return true
		case <-again.C:
			n.retryLater()
		case <-ping.C:
			if !n.alive(conn) {
				return true
			}
		case <-n.wake:
			if !n.update(conn) {
				return true
			}
		}
	}
}

// client returns the client of the node's server. If the cluster client does not know it yet, it
// returns nil and makes the cluster client look for it.
func (n *node) client() redis.Client {
	d := n.sub.driver
	if !d.cluster {
		return d.client
	}
	if n.addr == unplaced {
		return nil
	}
	if c, ok := d.client.Nodes()[n.addr]; ok {
		return c
	}
	n.sub.mu.Lock()
	var key string
	for ch, w := range n.sub.wanted {
		if w.node == n && ch.sharded {
			key = ch.name
			break
		}
	}
	n.sub.mu.Unlock()
	if key != "" {
		ctx, cancel := n.sub.context(replyLimit)
		defer cancel()
		d.lookFor(ctx, key)
	}
	return nil
}

// begin requests all channels of the node on its new connection.
func (n *node) begin() {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	clear(n.onWire)
	clear(n.pending)
	clear(n.later)
	for _, ch := range n.sub.inOrder() {
		if n.sub.wanted[ch].node == n {
			n.todo(ch)
		}
	}
}

func (n *node) retryLater() {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	if len(n.later) == 0 {
		return
	}
	for _, ch := range n.sub.inOrder() {
		if _, ok := n.later[ch]; ok {
			n.todo(ch)
		}
	}
	clear(n.later)
}

// take returns the next channels to subscribe and to unsubscribe in their order, and whether there
// are more.
func (n *node) take() (want, drop []channel, more bool) {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	for _, ch := range slices.SortedFunc(maps.Keys(n.pending), func(a, b channel) int { return cmp.Compare(n.pending[a], n.pending[b]) }) {
		if len(want)+len(drop) == chunk {
			return want, drop, true
		}
		delete(n.pending, ch)
		if w := n.sub.wanted[ch]; w != nil && w.node == n {
			n.onWire[ch] = struct{}{}
			want = append(want, ch)
		} else if _, ok := n.onWire[ch]; ok {
			delete(n.onWire, ch)
			drop = append(drop, ch)
		}
	}
	return want, drop, false
}

// update brings the connection in line with the wanted set, and reports whether it works. Each
// channel has a command of its own: so a refusal concerns one channel, channels of several slots
// can share a pipeline, and a sunsubscribe that the server sends on its own cannot be mistaken for
// a part of a reply.
func (n *node) update(conn redis.DedicatedClient) bool {
	for {
		want, drop, more := n.take()
		cmds := make([]redis.Completed, 0, len(want)+len(drop))
		for _, ch := range want {
			if ch.sharded {
				cmds = append(cmds, conn.B().Ssubscribe().Channel(ch.name).Build())
			} else {
				cmds = append(cmds, conn.B().Subscribe().Channel(ch.name).Build())
			}
		}
		for _, ch := range drop {
			if ch.sharded {
				cmds = append(cmds, conn.B().Sunsubscribe().Channel(ch.name).Build())
			} else {
				cmds = append(cmds, conn.B().Unsubscribe().Channel(ch.name).Build())
			}
		}
		if len(cmds) == 0 {
			return true
		}
		ctx, cancel := n.sub.context(replyLimit)
		results := conn.DoMulti(ctx, cmds...)
		cancel()
		for i, r := range results {
			err := r.Error()
			if _, reply := redis.IsRedisErr(err); err != nil && !reply {
				return false
			} else if reply && i < len(want) {
				delete(n.onWire, want[i])
				n.sub.rejected(n, want[i], err)
			}
		}
		if !more {
			return true
		}
	}
}

// alive pings the server. Any reply is a sign of life.
func (n *node) alive(conn redis.DedicatedClient) bool {
	ctx, cancel := n.sub.context(replyLimit)
	defer cancel()
	return conn.Do(ctx, conn.B().Ping().Build()).NonRedisError() == nil
}

// message and subscription are called by the client, one at a time.
func (n *node) message(m redis.PubSubMessage) {
	n.sub.tell(func(sink driver.Sink) { sink.Message(m.Channel, m.Message) })
}

func (n *node) subscription(s redis.PubSubSubscription) {
	switch s.Kind {
	case "subscribe", "ssubscribe":
		n.sub.confirmed(n, channel{s.Channel, s.Kind == "ssubscribe"})
	case "sunsubscribe":
		n.sub.revoked(n, channel{s.Channel, true})
	}
}

// context returns a context that ends after limit, or when the subscriber closes.
func (s *subscriber) context(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.life, limit)
}
