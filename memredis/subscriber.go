package memredis

import (
	"bufio"
	"cmp"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
)

// redial is the pause before the subscriber replaces a closed connection.
const redial = 10 * time.Millisecond

var errSharded = &driver.Error{Class: driver.Denied, Err: errors.New("the embedded Redis has no sharded channels")}

// subscriber keeps channels subscribed on one connection. The embedded server is not a cluster: it
// has no sharded channels, and none are ever wanted.
type subscriber struct {
	server *Server
	sink   driver.Sink
	wake   chan struct{} // capacity 1: wanted has changed
	done   chan struct{}
	closed sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex     // guards the fields below
	wanted  map[string]int // channel -> number of its request
	changed []string       // channels to compare with wanted, in the order of the calls
	asked   int
	started bool
}

func newSubscriber(server *Server, sink driver.Sink) *subscriber {
	return &subscriber{
		server: server, sink: sink,
		wake: make(chan struct{}, 1), done: make(chan struct{}), wanted: make(map[string]int),
	}
}

func (s *subscriber) Subscribe(channel string, sharded bool) {
	if sharded {
		s.wg.Go(func() { s.sink.Refused(channel, errSharded) })
		return
	}
	s.want(channel, true)
}

func (s *subscriber) Unsubscribe(channel string, sharded bool) {
	if !sharded {
		s.want(channel, false)
	}
}

func (s *subscriber) want(channel string, yes bool) {
	s.mu.Lock()
	s.changed = append(s.changed, channel)
	if yes {
		s.asked++
		s.wanted[channel] = s.asked
	} else {
		delete(s.wanted, channel)
	}
	if !s.started && yes {
		s.started = true
		s.wg.Go(s.run)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) Close() error {
	s.closed.Do(func() { close(s.done) })
	s.wg.Wait()
	return nil
}

func (s *subscriber) run() {
	for {
		if c, err := s.server.Dial(); err == nil {
			s.serve(c)
		}
		select {
		case <-s.done:
			return
		case <-time.After(redial):
		}
	}
}

// serve uses one connection until it fails or the subscriber is closed.
func (s *subscriber) serve(c net.Conn) {
	dead := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(dead)
		s.read(c)
	})
	s.begin()
	has := make(map[string]int)
	for s.update(c, has) {
		select {
		case <-s.wake:
			continue
		case <-dead:
		case <-s.done:
		}
		break
	}
	_ = c.Close()
	wg.Wait()
}

// update brings the connection in line with the wanted channels. A repeated request is sent again,
// because each request gets a confirmation.
func (s *subscriber) update(c net.Conn, has map[string]int) bool {
	var b []byte
	s.mu.Lock()
	for _, channel := range s.changed {
		switch request := s.wanted[channel]; {
		case request != 0 && has[channel] != request:
			has[channel] = request
			b = resp.Append(b, "SUBSCRIBE", channel)
		case request == 0 && has[channel] != 0:
			delete(has, channel)
			b = resp.Append(b, "UNSUBSCRIBE", channel)
		}
	}
	s.changed = nil
	s.mu.Unlock()
	if len(b) == 0 {
		return true // a pipe passes on empty writes, and the server counts them
	}
	_, err := c.Write(b)
	return err == nil
}

// begin requests all wanted channels, in the order of their requests.
func (s *subscriber) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = slices.SortedFunc(maps.Keys(s.wanted), func(a, b string) int { return cmp.Compare(s.wanted[a], s.wanted[b]) })
}

func (s *subscriber) read(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		v, err := resp.Read(r)
		if err != nil {
			return
		}
		switch v.At(0).Str() {
		case "message":
			s.sink.Message(v.At(1).Str(), v.At(2).Str())
		case "subscribe":
			s.sink.Subscribed(v.At(1).Str())
		}
	}
}
