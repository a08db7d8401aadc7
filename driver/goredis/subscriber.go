package goredis

import (
	"cmp"
	"context"
	"slices"
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

// wantedChannel is a channel of the wanted set.
type wantedChannel struct {
	version uint64   // of the last Subscribe
	nodeSub *nodeSub // nil as long as the server of the channel is not known
}

// subscriber keeps channels subscribed, with one nodeSub for each server.
//
// In a cluster a sharded channel belongs to the master of its slot. A classic one may be on any
// master: the preferred one, which changes only when it cannot be reached. A server that loses a
// slot ends the subscriptions in it, and one that does not serve a channel's slot replies with
// MOVED. In both cases the topology is read again, and the channel assigned to the master that it
// names. A master that becomes a replica does neither, see check.go.
type subscriber struct {
	driver  *Driver
	sink    driver.Sink
	closing chan struct{}

	mu        sync.Mutex // guards the fields below, and those of the nodeSubs
	wanted    map[channel]*wantedChannel
	nodeSubs  map[string]*nodeSub // by address; "" is the single server, or that of sentinels
	preferred *redis.Client       // serves the classic channels of a cluster
	version   uint64
	placing   bool // placeAll is running
	closed    bool
	running   sync.WaitGroup // nodeSubs, and placeAll
}

func newSubscriber(d *Driver, sink driver.Sink) *subscriber {
	return &subscriber{
		driver: d, sink: sink,
		closing:  make(chan struct{}),
		wanted:   map[channel]*wantedChannel{},
		nodeSubs: map[string]*nodeSub{},
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
		s.running.Go(func() { s.sink.Refused(name, err) }) // in a goroutine: the caller may hold a lock that the sink needs
		return
	}
	ch := channel{name, sharded}
	w := s.wanted[ch]
	if w == nil {
		w = &wantedChannel{}
		s.wanted[ch] = w
	}
	s.version++
	w.version = s.version
	if w.nodeSub != nil {
		w.nodeSub.todo(ch)
	} else if !s.place(ch, w) {
		s.startPlacing()
	}
}

// Unsubscribe implements driver.Subscriber.
func (s *subscriber) Unsubscribe(name string, sharded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := channel{name, sharded}
	w := s.wanted[ch]
	delete(s.wanted, ch)
	if w != nil && w.nodeSub != nil {
		w.nodeSub.todo(ch)
	}
}

// Close implements driver.Subscriber.
func (s *subscriber) Close() error {
	s.shutdown()
	return nil
}

// shutdown returns when all goroutines have ended. Only they call the sink.
func (s *subscriber) shutdown() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// inOrder returns the wanted channels in the order in which they were wanted. The caller holds mu.
func (s *subscriber) inOrder() []wish {
	wishes := make([]wish, 0, len(s.wanted))
	for ch, w := range s.wanted {
		wishes = append(wishes, wish{ch, w})
	}
	slices.SortFunc(wishes, func(a, b wish) int { return cmp.Compare(a.version, b.version) })
	return wishes
}

// wish is a channel of the wanted set, with what is known about it.
type wish struct {
	channel
	*wantedChannel
}

// context returns a context that ends when the subscriber closes.
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

// confirmed is called when a server has confirmed a subscription.
func (s *subscriber) confirmed(l *nodeSub, ch channel, version uint64) {
	s.mu.Lock()
	w := s.wanted[ch]
	// If the channel was unsubscribed and wanted again since then, it will be confirmed once more.
	current := w != nil && w.nodeSub == l && w.version == version
	s.mu.Unlock()
	if current {
		s.sink.Subscribed(ch.name)
	}
}

// revoked is called when a server has ended a subscription on its own.
func (s *subscriber) revoked(l *nodeSub, ch channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(l.asked, ch)
	if w := s.wanted[ch]; w != nil && w.nodeSub == l {
		s.unplace(ch, w)
	}
}

// unplace makes the subscriber look for a new server for a channel. The caller holds mu.
func (s *subscriber) unplace(ch channel, w *wantedChannel) {
	if s.driver.cluster == nil {
		w.nodeSub.todo(ch)
		return
	}
	w.nodeSub = nil
	s.startPlacing()
}

// rejected handles the refusal of a channel by a server. It reports whether the connection is still
// usable.
func (s *subscriber) rejected(l *nodeSub, ch channel, version uint64, reply error) bool {
	err := s.driver.failure(reply, true)
	cluster := s.driver.cluster != nil
	s.mu.Lock()
	w := s.wanted[ch]
	if w == nil || w.nodeSub != l || w.version != version {
		s.mu.Unlock() // the reply to a later request counts
		return true
	}
	delete(l.asked, ch)
	switch _, moved := redis.IsMovedError(reply); {
	case driver.ClassOf(err) == driver.Passing && cluster:
		s.unplace(ch, w)
		s.mu.Unlock()
		return true
	case driver.ClassOf(err) == driver.Passing && !moved:
		s.mu.Unlock()
		return false // a new connection retries, after a pause
	}
	delete(s.wanted, ch)
	s.mu.Unlock()
	s.sink.Refused(ch.name, err)
	return true
}
