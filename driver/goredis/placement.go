package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// place assigns a wanted channel to the server that is believed to serve it, and reports whether
// there is one. The caller holds mu.
func (s *subscriber) place(ch channel, w *wantedChannel) bool {
	w.nodeSub = nil
	if s.closed {
		return true // no need to look for a server
	}
	if s.driver.cluster == nil {
		w.nodeSub = s.nodeSubTo("", nil)
	} else if node := s.nodeOf(ch); node != nil {
		w.nodeSub = s.nodeSubTo(node.Options().Addr, node)
	} else {
		return false
	}
	w.nodeSub.todo(ch)
	return true
}

// nodeOf returns the cluster node to subscribe a channel on, nil if the topology is not known yet.
// The caller holds mu.
func (s *subscriber) nodeOf(ch channel) *redis.Client {
	if ch.sharded {
		return s.driver.owner(ch.name)
	}
	if s.preferred == nil {
		s.preferred = s.driver.owner(ch.name)
	}
	return s.preferred
}

// nodeSubTo returns the nodeSub of the server at addr, and starts one if there is none. The caller
// holds mu, and the subscriber is open.
func (s *subscriber) nodeSubTo(addr string, node *redis.Client) *nodeSub {
	l := s.nodeSubs[addr]
	if l == nil {
		l = &nodeSub{sub: s, addr: addr, wake: make(chan struct{}, 1), asked: map[channel]uint64{}}
		s.nodeSubs[addr] = l
		s.running.Go(l.run)
	}
	l.node = node // the cluster client may have replaced it
	return l
}

// placePause is the pause between two reloads of the topology for the sake of channels that no
// server serves.
const placePause = 200 * time.Millisecond

// startPlacing looks for servers for all channels without one, in the background. The caller holds
// mu.
func (s *subscriber) startPlacing() {
	if !s.placing && !s.closed {
		s.placing = true
		s.running.Go(s.placeAll)
	}
}

func (s *subscriber) placeAll() {
	for {
		s.reload()
		// A channel that loses its server during the pause waits for its end: a cluster whose
		// servers disagree sends a channel back and forth.
		missing := s.placeUnplaced()
		if !s.pause(placePause) {
			return
		}
		s.mu.Lock()
		if !missing {
			missing = s.anyUnplaced()
		}
		if !missing {
			s.placing = false
		}
		s.mu.Unlock()
		if !missing {
			return
		}
	}
}

// placeUnplaced places the channels without a server, and reports whether some are left.
func (s *subscriber) placeUnplaced() (missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.inOrder() {
		if w.nodeSub == nil && !s.place(w.channel, w.wantedChannel) {
			missing = true
		}
	}
	return missing
}

// anyUnplaced reports whether a channel has no server. The caller holds mu.
func (s *subscriber) anyUnplaced() bool {
	for _, w := range s.wanted {
		if w.nodeSub == nil {
			return true
		}
	}
	return false
}

// reloadLimit bounds how long a cluster may take to reply with its topology.
const reloadLimit = 5 * time.Second

// reload makes the cluster client read the topology. If that fails, the old one stays in use.
func (s *subscriber) reload() {
	ctx, cancel := context.WithTimeout(s.context(), reloadLimit)
	defer cancel()
	_, _ = s.driver.masters(ctx)
}

// reassign moves the channels of a nodeSub whose connection broke to the servers that are now
// believed to serve them. It reports whether the nodeSub has none left, and removes it then.
func (s *subscriber) reassign(l *nodeSub, worked bool) (idle bool) {
	if !worked {
		s.reload()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	if !worked && s.preferred != nil && s.preferred.Options().Addr == l.addr {
		s.preferred = s.another(l.addr)
	}
	for _, w := range s.inOrder() {
		if w.nodeSub != l {
			continue
		}
		if node := s.nodeOf(w.channel); node != nil && node.Options().Addr != l.addr {
			s.place(w.channel, w.wantedChannel)
		} else if node != nil {
			l.node = node
		}
	}
	for _, w := range s.wanted {
		if w.nodeSub == l {
			return false
		}
	}
	delete(s.nodeSubs, l.addr)
	return true
}

// another returns some master at another address, nil if it finds none. The caller holds mu.
func (s *subscriber) another(addr string) *redis.Client {
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} { // of as many slots
		if node := s.driver.owner(key); node != nil && node.Options().Addr != addr {
			return node
		}
	}
	return nil
}
