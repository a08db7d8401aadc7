package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

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
