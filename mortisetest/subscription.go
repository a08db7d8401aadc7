package mortisetest

import (
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// subscription is the subscriber of a link. It lies on a subscriber of the server, which it
// replaces when the connection breaks.
type subscription struct {
	link *Link
	sink driver.Sink

	mu     sync.Mutex // guards the fields below
	wanted []string   // in the order of the requests
	inner  driver.Subscriber
	epoch  int // of inner; messages of former ones are late
	closed bool

	heard sync.RWMutex // held for reading while the sink is called
	deaf  bool         // guarded by heard: the sink is not called any more
}

func newSubscription(l *Link, sink driver.Sink) *subscription {
	s := &subscription{link: l, sink: sink}
	s.open()
	return s
}

// open subscribes to all wanted channels on a new connection. It must be called with s.mu held, or
// before others know s.
func (s *subscription) open() {
	s.inner = s.link.server.backend.Subscriber(ear{s, s.epoch})
	for _, channel := range s.wanted {
		s.inner.Subscribe(channel, false)
	}
}

// renew breaks the connection, and opens another one after the pause.
func (s *subscription) renew(pause time.Duration) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.epoch++
	epoch, old := s.epoch, s.inner
	s.inner = nil
	s.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	reopen := func() {
		s.link.whenThawed(func() {
			away := s.link.isPartitioned() // then Heal opens it
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.closed && !away && s.epoch == epoch {
				s.open()
			}
		})
	}
	if pause <= 0 {
		reopen()
		return
	}
	s.link.server.roads.send(func() {
		if s.link.server.roads.sleep(pause) {
			reopen()
		}
	})
}

// Subscribe implements driver.Subscriber.
func (s *subscription) Subscribe(channel string, sharded bool) {
	if sharded { // the server has no sharded channels: the driver below says so
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inner != nil {
			s.inner.Subscribe(channel, true)
		}
		return
	}
	s.change(channel, true)
}

// Unsubscribe implements driver.Subscriber.
func (s *subscription) Unsubscribe(channel string, sharded bool) {
	if !sharded {
		s.change(channel, false)
	}
}

// change notes what is wanted, and tells the server unless that is out of reach: then a new
// connection will.
func (s *subscription) change(channel string, want bool) {
	s.link.whenThawed(func() {
		away := s.link.isPartitioned()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wanted = slices.DeleteFunc(s.wanted, func(c string) bool { return c == channel })
		if want {
			s.wanted = append(s.wanted, channel)
		}
		switch {
		case s.closed || s.inner == nil || away:
		case want:
			s.inner.Subscribe(channel, false)
		default:
			s.inner.Unsubscribe(channel, false)
		}
	})
}

func (s *subscription) wants(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.wanted, channel)
}

// Close implements driver.Subscriber.
func (s *subscription) Close() error {
	s.mu.Lock()
	inner := s.inner
	s.closed, s.inner = true, nil
	s.mu.Unlock()
	if inner != nil {
		_ = inner.Close()
	}
	s.heard.Lock()
	s.deaf = true
	s.heard.Unlock()
	return nil
}

// tell calls the sink, unless the subscription is closed.
func (s *subscription) tell(f func(driver.Sink)) {
	s.heard.RLock()
	defer s.heard.RUnlock()
	if !s.deaf {
		f(s.sink)
	}
}

// ear is the sink of one connection.
type ear struct {
	s     *subscription
	epoch int
}

// Message implements driver.Sink.
func (e ear) Message(channel, payload string) {
	if e.current() {
		e.s.link.deliver(e.s, channel, payload)
	}
}

// Subscribed implements driver.Sink.
func (e ear) Subscribed(channel string) {
	if e.current() && !e.s.link.isPartitioned() {
		e.s.link.whenThawed(func() { e.s.tell(func(sink driver.Sink) { sink.Subscribed(channel) }) })
	}
}

// Refused implements driver.Sink.
func (e ear) Refused(channel string, err error) {
	e.s.tell(func(sink driver.Sink) { sink.Refused(channel, err) })
}

// current reports whether the connection has not broken yet.
func (e ear) current() bool {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.epoch == e.s.epoch
}
