package goredis

import (
	"context"
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
// reports whether the connection is of any further use.
func (s *subscriber) rejected(l *line, ch channel, version uint64, reply error) bool {
	err := s.driver.failure(reply, true)
	cluster := s.driver.cluster != nil
	s.mu.Lock()
	w := s.wanted[ch]
	if w == nil || w.line != l || w.version != version {
		s.mu.Unlock() // the answer to a later request decides
		return true
	}
	delete(l.asked, ch)
	switch _, moved := redis.IsMovedError(reply); {
	case driver.ClassOf(err) == driver.Passing && cluster:
		s.stray(ch, w)
		s.mu.Unlock()
		return true
	case driver.ClassOf(err) == driver.Passing && !moved:
		s.mu.Unlock()
		return false // a new connection asks again, after a pause
	}
	delete(s.wanted, ch)
	s.mu.Unlock()
	s.sink.Refused(ch.name, err)
	return true
}
