package rueidis

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/backlog"
)

const (
	// checkEvery is how often a subscriber connection is checked, and replyLimit how long any reply
	// may take. The client pings too, but its limit may be too long for locks.
	checkEvery = 2 * time.Second
	replyLimit = 3 * time.Second
	// mostSkipped bounds for how many checks in a row a replica is put up with.
	mostSkipped = 30
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

	pending backlog.Queue[channel]     // to compare with the wanted set; guarded by sub.mu
	later   map[channel]struct{}       // the same, after a pause; guarded by sub.mu
	onWire  map[channel]struct{}       // requested on this connection; used only by the goroutine of run
	silence atomic.Pointer[time.Timer] // ends what waits for replies; any sign of life sets it back

	// The fields below are used only by the goroutine of run.

	roleless bool // the server does not report its role
	left     int  // how often in a row a connection was given up because it led to a replica
	skip     int  // for how many checks a replica is put up with
}

// todo makes the node compare a channel with the wanted set. The caller holds sub.mu.
func (n *node) todo(ch channel) {
	n.pending.Add(ch)
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
		up, demoted := n.session()
		select {
		case <-n.sub.life.Done():
			return
		default:
		}
		if up {
			backoff = backoffMin
		}
		if n.sub.driver.cluster && n.elsewhere(up && !demoted) {
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
// none are left. A server that cannot be reached, or has become a replica, makes it read the map of
// slots; a connection that broke does not.
func (n *node) elsewhere(serves bool) bool {
	if !serves {
		ctx, cancel := n.sub.context(replyLimit)
		defer cancel()
		_ = n.sub.driver.slots.refresh(ctx) // if no node replies, the old map stays in use
	}
	return n.sub.reassign(n)
}

// session opens a connection and serves it until it breaks, or leads to a replica. It reports
// whether there was one, and whether its server is a replica.
func (n *node) session() (up, demoted bool) {
	client := n.client()
	if client == nil {
		return false, false
	}
	conn, release := client.Dedicate() // waits for the connection, at most the client's dial timeout
	defer release()
	defer conn.Close() // not returned to the pool: it is subscribed, or broken
	broken := conn.SetPubSubHooks(redis.PubSubHooks{OnMessage: n.message, OnSubscription: n.subscription})
	// The map of slots may be old, and a replica accepts channels too.
	if alive, replica := n.check(conn); !alive || n.leaves(replica) {
		return false, replica
	}
	n.begin()

	check := time.NewTicker(checkEvery)
	defer check.Stop()
	again := time.NewTicker(laterAfter)
	defer again.Stop()
	for {
		select {
		case <-n.sub.life.Done():
			return true, false
		case <-broken: //nolint:errcheck // that it is broken says enough
			return true, false
		case <-again.C:
			n.retryLater()
		case <-check.C:
			if alive, replica := n.check(conn); !alive || n.leaves(replica) {
				return true, replica
			}
		case <-n.wake:
			if !n.update(conn) {
				return true, false
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
	n.pending.Clear()
	clear(n.later)
	for _, w := range n.sub.inOrder() {
		if w.node == n {
			n.todo(w.channel)
		}
	}
}

func (n *node) retryLater() {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	if len(n.later) == 0 {
		return
	}
	for _, w := range n.sub.inOrder() {
		if _, ok := n.later[w.channel]; ok {
			n.todo(w.channel)
		}
	}
	clear(n.later)
}

// take returns the next channels to subscribe and to unsubscribe in their order, and whether there
// are more.
func (n *node) take() (want, drop []channel, more bool) {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	for len(want)+len(drop) < chunk {
		ch, ok := n.pending.Next()
		if !ok {
			return want, drop, false
		}
		if w := n.sub.wanted[ch]; w != nil && w.node == n {
			n.onWire[ch] = struct{}{}
			want = append(want, ch)
		} else if _, ok := n.onWire[ch]; ok {
			delete(n.onWire, ch)
			drop = append(drop, ch)
		}
	}
	return want, drop, n.pending.Len() > 0
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
		var results []redis.RedisResult
		n.whileAlive(func(ctx context.Context) { results = conn.DoMulti(ctx, cmds...) })
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
func (n *node) alive(conn redis.DedicatedClient) (alive bool) {
	n.whileAlive(func(ctx context.Context) { alive = conn.Do(ctx, conn.B().Ping().Build()).NonRedisError() == nil })
	return alive
}

// whileAlive calls f with a context that ends when the connection has had no sign of life for replyLimit, or the
// subscriber closes. What the connection brings is handled in its order, so a receiver that takes its time
// delays replies.
func (n *node) whileAlive(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(n.sub.life)
	defer cancel()
	timer := time.AfterFunc(replyLimit, cancel)
	n.silence.Store(timer)
	f(ctx)
	n.silence.Store(nil)
	timer.Stop()
}

// lives notes a sign of life.
func (n *node) lives() {
	if timer := n.silence.Load(); timer != nil {
		timer.Reset(replyLimit)
	}
}

// check is alive, and reports whether the server is a replica. A master that hands its role over
// keeps its subscribers. It relays messages to them, but scripts on the new master do not count them,
// and so leave no lock to them. HELLO tells the role on any connection, and needs no right that
// connecting does not need.
func (n *node) check(conn redis.DedicatedClient) (alive, replica bool) {
	if n.roleless {
		return n.alive(conn), false
	}
	var reply redis.RedisResult
	n.whileAlive(func(ctx context.Context) { reply = conn.Do(ctx, conn.B().Hello().Build()) })
	if reply.NonRedisError() != nil {
		return false, false
	}
	role, known := roleOf(reply)
	n.roleless = !known
	return true, role == "replica" // without a role the server is taken for a master
}

// roleOf returns the role of a server by its reply to HELLO. known is false if it does not say.
func roleOf(reply redis.RedisResult) (role string, known bool) {
	fields, err := reply.AsMap()
	if err != nil {
		return "", driver.ClassifyReply(err.Error()) == driver.Passing
	}
	field := fields["role"]
	role, _ = field.ToString()
	return role, true
}

// leaves reports whether the connection is to be replaced because it leads to a replica. If others
// do so too, that becomes rarer: perhaps there is no master.
func (n *node) leaves(replica bool) bool {
	switch {
	case !replica:
		n.left, n.skip = 0, 0
	case n.skip > 0:
		n.skip--
	default:
		n.skip = min(1<<n.left-1, mostSkipped)
		n.left = min(n.left+1, 8)
		return true
	}
	return false
}

// message and subscription are called by the client, one at a time.
func (n *node) message(m redis.PubSubMessage) {
	n.lives()
	n.sub.tell(func(sink driver.Sink) { sink.Message(m.Channel, m.Message) })
}

func (n *node) subscription(s redis.PubSubSubscription) {
	n.lives()
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
