package goredis

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
)

// channel is a channel of one kind.
type channel struct {
	name    string
	sharded bool
}

// wish is a channel that is wanted.
type wish struct {
	version uint64 // of the last Subscribe
	line    *line  // nil as long as it is not known who serves the channel
}

// subscriber keeps channels subscribed, on one line for each server.
//
// In a cluster a sharded channel belongs to the master of its slot, and a
// classic one to any: the home node, which changes only when it cannot be
// reached. A server that loses a slot ends the subscriptions in it, and one
// that is asked for a channel of another's slot answers with MOVED. Both have
// the topology read anew, and the channel given to whom it names.
type subscriber struct {
	driver  *Driver
	sink    driver.Sink
	closing chan struct{}

	mu      sync.Mutex // guards what follows, and the lines' fields
	wanted  map[channel]*wish
	lines   map[string]*line // by address; "" is the one of a single server or sentinels
	home    *redis.Client    // serves the classic channels of a cluster
	version uint64
	seeking bool // seek is running
	closed  bool
	running sync.WaitGroup // lines, and seek
}

func newSubscriber(d *Driver, sink driver.Sink) *subscriber {
	return &subscriber{
		driver: d, sink: sink,
		closing: make(chan struct{}),
		wanted:  map[channel]*wish{},
		lines:   map[string]*line{},
	}
}

// Subscribe implements driver.Subscriber.
func (s *subscriber) Subscribe(name string, sharded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if err := s.driver.refused; err != nil {
		s.running.Go(func() { s.sink.Refused(name, err) }) // not from here: the caller may hold what the sink needs
		return
	}
	ch := channel{name, sharded}
	w := s.wanted[ch]
	if w == nil {
		w = &wish{}
		s.wanted[ch] = w
	}
	s.version++
	w.version = s.version
	if w.line != nil {
		w.line.look(ch)
	} else if !s.place(ch, w) {
		s.startSeek()
	}
}

// Unsubscribe implements driver.Subscriber.
func (s *subscriber) Unsubscribe(name string, sharded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := channel{name, sharded}
	w := s.wanted[ch]
	delete(s.wanted, ch)
	if w != nil && w.line != nil {
		w.line.look(ch)
	}
}

// Close implements driver.Subscriber.
func (s *subscriber) Close() error {
	s.shutdown()
	return nil
}

// shutdown returns when all goroutines have ended. It is they who call the
// sink.
func (s *subscriber) shutdown() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// context returns one that ends when the subscriber closes.
func (s *subscriber) context() context.Context {
	return callContext{context.Background(), s.closing}
}

// pause waits, and reports whether the subscriber is still open.
func (s *subscriber) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
		return false
	}
}

// place gives a wanted channel to the line of the server that is believed to
// serve it, and reports whether there is one. The caller holds mu.
func (s *subscriber) place(ch channel, w *wish) bool {
	w.line = nil
	if s.closed {
		return true // nobody needs to seek
	}
	if s.driver.cluster == nil {
		w.line = s.lineTo("", nil)
	} else if node := s.nodeOf(ch); node != nil {
		w.line = s.lineTo(node.Options().Addr, node)
	} else {
		return false
	}
	w.line.look(ch)
	return true
}

// nodeOf returns the node of the cluster that a channel is to be asked for,
// nil if the topology is not known yet. The caller holds mu.
func (s *subscriber) nodeOf(ch channel) *redis.Client {
	if ch.sharded {
		return s.driver.owner(ch.name)
	}
	if s.home == nil {
		s.home = s.driver.owner(ch.name)
	}
	return s.home
}

// lineTo returns the line to the server at addr, and starts it if there is
// none. The caller holds mu, and the subscriber is open.
func (s *subscriber) lineTo(addr string, node *redis.Client) *line {
	l := s.lines[addr]
	if l == nil {
		l = &line{sub: s, addr: addr, wake: make(chan struct{}, 1), changed: map[channel]struct{}{}, asked: map[channel]uint64{}}
		s.lines[addr] = l
		s.running.Go(l.run)
	}
	l.node = node // the cluster client may have replaced it
	return l
}

// seekPause is how long the topology is left alone after it was read because
// of a channel that nobody serves.
const seekPause = 200 * time.Millisecond

// startSeek has a server sought for all channels without a line. The caller
// holds mu.
func (s *subscriber) startSeek() {
	if !s.seeking && !s.closed {
		s.seeking = true
		s.running.Go(s.seek)
	}
}

func (s *subscriber) seek() {
	for {
		s.reload()
		// Whoever lacks a server during the pause waits for its end: a cluster
		// whose servers disagree sends a channel back and forth.
		missing := s.placeStray()
		if !s.pause(seekPause) {
			return
		}
		s.mu.Lock()
		if !missing {
			missing = s.anyStray()
		}
		if !missing {
			s.seeking = false
		}
		s.mu.Unlock()
		if !missing {
			return
		}
	}
}

// placeStray places the channels that have no line, and reports whether some
// still have none.
func (s *subscriber) placeStray() (missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch, w := range s.wanted {
		if w.line == nil && !s.place(ch, w) {
			missing = true
		}
	}
	return missing
}

// anyStray reports whether a channel has no line. The caller holds mu.
func (s *subscriber) anyStray() bool {
	for _, w := range s.wanted {
		if w.line == nil {
			return true
		}
	}
	return false
}

// reloadLimit bounds how long a cluster may take to tell its topology.
const reloadLimit = 5 * time.Second

// reload has the cluster client read the topology. If that fails, what is
// known has to do.
func (s *subscriber) reload() {
	ctx, cancel := context.WithTimeout(s.context(), reloadLimit)
	defer cancel()
	_, _ = s.driver.masters(ctx)
}

// rehome gives the channels of a line that broke to those that are now
// believed to serve them. It reports whether the line has none left, and
// forgets it then.
func (s *subscriber) rehome(l *line, worked bool) (idle bool) {
	if !worked {
		s.reload()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	if !worked && s.home != nil && s.home.Options().Addr == l.addr {
		s.home = s.another(l.addr)
	}
	for ch, w := range s.wanted {
		if w.line != l {
			continue
		}
		if node := s.nodeOf(ch); node != nil && node.Options().Addr != l.addr {
			s.place(ch, w)
		} else if node != nil {
			l.node = node
		}
	}
	for _, w := range s.wanted {
		if w.line == l {
			return false
		}
	}
	delete(s.lines, l.addr)
	return true
}

// another returns some master at another address, nil if none turns up. The
// caller holds mu.
func (s *subscriber) another(addr string) *redis.Client {
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} { // of as many slots
		if node := s.driver.owner(key); node != nil && node.Options().Addr != addr {
			return node
		}
	}
	return nil
}

// confirmed is called when a line has confirmed a subscription.
func (s *subscriber) confirmed(l *line, ch channel, version uint64) {
	s.mu.Lock()
	w := s.wanted[ch]
	// If the channel was given up and wanted anew since then, it will be
	// confirmed once more.
	current := w != nil && w.line == l && w.version == version
	s.mu.Unlock()
	if current {
		s.sink.Subscribed(ch.name)
	}
}

// revoked is called when a server has ended a subscription unasked.
func (s *subscriber) revoked(l *line, ch channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(l.asked, ch)
	if w := s.wanted[ch]; w != nil && w.line == l {
		s.stray(ch, w)
	}
}

// stray has a new server sought for a channel. The caller holds mu.
func (s *subscriber) stray(ch channel, w *wish) {
	if s.driver.cluster == nil {
		w.line.look(ch)
		return
	}
	w.line = nil
	s.startSeek()
}

// rejected decides what becomes of a channel that a server did not take. It
// reports whether the connection is of any use.
func (s *subscriber) rejected(l *line, ch channel, version uint64, err error) (useful bool) {
	s.mu.Lock()
	w := s.wanted[ch]
	if w == nil || w.line != l || w.version != version {
		s.mu.Unlock()
		return true
	}
	delete(l.asked, ch)
	err = s.driver.failure(err, true)
	if driver.ClassOf(err) == driver.Passing {
		moved := strings.HasPrefix(err.Error(), "MOVED ")
		if s.driver.cluster != nil {
			s.stray(ch, w)
		}
		if s.driver.cluster != nil || !moved {
			s.mu.Unlock()
			return s.driver.cluster != nil
		}
	}
	delete(s.wanted, ch)
	s.mu.Unlock()
	s.sink.Refused(ch.name, err)
	return true
}
