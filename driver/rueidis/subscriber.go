package rueidis

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// channel is a channel of one kind.
type channel struct {
	name    string
	sharded bool
}

// wantedChannel is a channel of the wanted set, and the node that must serve it.
type wantedChannel struct {
	since uint64 // the number of the change by which it became wanted
	node  *node
	hops  int // redirections since the last confirmation
}

// subscriber keeps channels subscribed, on one connection for each node. It does not use the
// client's Receive, which costs a goroutine for each channel.
//
// In a cluster a sharded channel belongs to the master of its slot. A classic one may be on any
// node: the preferred one. A channel is first requested from the master in the map of slots, and
// then follows MOVED. A node that loses a slot sends sunsubscribe; asked again, it replies with
// MOVED. A master that becomes a replica does neither: it is asked for its role, and left.
type subscriber struct {
	driver *Driver
	sink   driver.Sink

	// told is held for reading while the sink is called, so that shutdown can wait for the last
	// call. It guards silent.
	told   sync.RWMutex
	silent bool

	mu        sync.Mutex // guards the fields below, and the pending channels of nodes
	wanted    map[channel]*wantedChannel
	nodes     map[string]*node // by address; "" is the single server, or that of sentinels
	preferred *node            // serves classic channels
	changes   uint64           // of the wanted set
	closed    bool
	life      context.Context // ends when the subscriber closes
	end       context.CancelFunc
	running   sync.WaitGroup // of nodes
}

func newSubscriber(d *Driver, sink driver.Sink) *subscriber {
	s := &subscriber{
		driver: d, sink: sink,
		wanted: map[channel]*wantedChannel{},
		nodes:  map[string]*node{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Subscribe implements driver.Subscriber.
func (s *subscriber) Subscribe(name string, sharded bool) {
	ch := channel{name, sharded}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.wanted[ch] != nil {
		return
	}
	s.changes++
	w := &wantedChannel{since: s.changes}
	s.wanted[ch] = w
	s.assign(ch, w, s.place(ch))
}

// Unsubscribe implements driver.Subscriber.
func (s *subscriber) Unsubscribe(name string, sharded bool) {
	ch := channel{name, sharded}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.wanted[ch]; w != nil {
		delete(s.wanted, ch)
		w.node.todo(ch)
	}
}

// Close implements driver.Subscriber.
func (s *subscriber) Close() error {
	s.shutdown()
	return nil
}

// shutdown returns when the connections are closed and the goroutines have ended.
func (s *subscriber) shutdown() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.running.Wait()
	s.told.Lock()
	s.silent = true
	s.told.Unlock()
}

// tell calls the sink, unless the subscriber is closed.
func (s *subscriber) tell(f func(driver.Sink)) {
	s.told.RLock()
	defer s.told.RUnlock()
	if !s.silent {
		f(s.sink)
	}
}

// place returns the node to request a channel from first. The caller holds mu.
func (s *subscriber) place(ch channel) *node {
	if !s.driver.cluster {
		return s.node("")
	}
	s.driver.slots.touch()
	if s.driver.slots.awaited() {
		return s.node(unplaced)
	}
	if ch.sharded {
		if addr := s.driver.slots.owner(slotOf(ch.name)); addr != "" {
			return s.node(addr)
		}
	}
	if s.preferred == nil {
		s.preferred = s.node(s.anyNode(""))
	}
	return s.preferred // a node that does not serve the slot replies with MOVED
}

// unplaced is not the address of a node. In a cluster, channels wait there for the map of slots:
// without it they might be assigned to replicas, which accept them.
const unplaced = ""

// anyNode returns the address of some node, of a master if possible, and not avoid if there is
// another one.
func (s *subscriber) anyNode(avoid string) string {
	addrs := s.driver.slots.masters()
	if len(addrs) == 0 {
		for addr := range s.driver.client.Nodes() {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return avoid
	}
	i := rand.IntN(len(addrs))
	if addrs[i] == avoid {
		i = (i + 1) % len(addrs)
	}
	return addrs[i]
}

// node returns the node at addr, and starts it if there is none. The caller holds mu, and the
// subscriber is open.
func (s *subscriber) node(addr string) *node {
	n := s.nodes[addr]
	if n == nil {
		n = &node{
			sub: s, addr: addr,
			later: map[channel]struct{}{}, onWire: map[channel]struct{}{},
			wake: make(chan struct{}, 1),
		}
		s.nodes[addr] = n
		s.running.Go(n.run)
	}
	return n
}

// assign assigns a wanted channel to a node. The caller holds mu.
func (s *subscriber) assign(ch channel, w *wantedChannel, n *node) {
	w.node = n
	n.todo(ch)
}

// inOrder returns the wanted channels in the order in which they were wanted. The caller holds mu.
func (s *subscriber) inOrder() []wish {
	wishes := make([]wish, 0, len(s.wanted))
	for ch, w := range s.wanted {
		wishes = append(wishes, wish{ch, w})
	}
	slices.SortFunc(wishes, func(a, b wish) int { return cmp.Compare(a.since, b.since) })
	return wishes
}

// wish is a channel of the wanted set, with what is known about it.
type wish struct {
	channel
	*wantedChannel
}

// reassign moves the channels of a node that cannot be reached, or is a replica, to those that are now believed to
// serve them. It reports whether the node has none left, and removes it then.
func (s *subscriber) reassign(n *node) (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	if s.preferred == n {
		s.preferred = s.node(s.anyNode(n.addr))
	}
	left := 0
	for _, w := range s.inOrder() {
		if w.node != n {
			continue
		}
		if to := s.place(w.channel); to != n {
			s.assign(w.channel, w.wantedChannel, to)
		} else {
			left++
		}
	}
	if left > 0 || s.preferred == n {
		return false
	}
	delete(s.nodes, n.addr)
	return true
}

// confirmed is called when a node has confirmed a subscription.
func (s *subscriber) confirmed(n *node, ch channel) {
	s.mu.Lock()
	w := s.wanted[ch]
	wanted := w != nil && w.node == n
	if wanted {
		w.hops = 0
	}
	s.mu.Unlock()
	if wanted {
		s.tell(func(sink driver.Sink) { sink.Subscribed(ch.name) })
	}
}

// revoked is called when a node has ended a subscription. If this was not requested, the slot has
// moved, and the node knows where.
func (s *subscriber) revoked(n *node, ch channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.wanted[ch]; w != nil && w.node == n {
		s.driver.slots.doubt()
		n.todo(ch)
	}
}

// maxHops is how many redirections in a row are followed without a pause.
const maxHops = 4

// rejected handles the refusal of a channel by a node.
func (s *subscriber) rejected(n *node, ch channel, err error) {
	s.mu.Lock()
	w := s.wanted[ch]
	if w == nil || w.node != n {
		s.mu.Unlock()
		return
	}
	reply, _ := redis.IsRedisErr(err)
	addr, moved := reply.IsMoved()
	switch {
	case moved && w.hops < maxHops && !s.closed:
		w.hops++
		s.driver.slots.doubt()
		s.assign(ch, w, s.node(fullAddr(addr, n.addr)))
	case moved || driver.ClassifyReply(reply.Error()) == driver.Passing:
		w.hops = 0
		n.later[ch] = struct{}{}
	default:
		delete(s.wanted, ch)
		s.mu.Unlock()
		s.tell(func(sink driver.Sink) { sink.Refused(ch.name, driver.ReplyError(err, reply.Error())) })
		return
	}
	s.mu.Unlock()
}
