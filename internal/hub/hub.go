// Package hub shares the subscriptions of a client: each channel has one subscription for all
// its listeners.
//
// A listener receives hints to look again, never facts. Hints are coalesced, and every
// confirmation of a subscription is one, because earlier messages may have been missed.
package hub

import (
	"sync"

	"github.com/mortise-go/mortise/driver"
)

// Hub shares the subscriptions of one client. Its methods are safe for concurrent use and
// never block, except Close.
type Hub struct {
	subscriber driver.Subscriber
	noise      string
	gap        func()          // called after an interruption of a subscription; may be nil
	mute       func(err error) // called for a refusal that is not for want of a right; may be nil

	mu       sync.Mutex // guards the fields below; held for calls of the subscriber, to keep their order
	channels map[string]*channel
	closed   bool
}

type channel struct {
	listeners map[*Listener]struct{}
	confirmed bool
	times     int  // how often a subscription was confirmed
	refused   bool // Redis refused the subscription and was not asked again since
}

// Listener receives hints from one channel.
type Listener struct {
	hub  *Hub
	name string
	kind Kind
	hint chan struct{}
	// heard, if set, receives the messages and reports which of them are hints.
	heard func(payload string) bool
	// changed, if set, is called when the subscription is confirmed or refused.
	changed func()
	refused error // guarded by Hub.mu
}

// Kind says how a channel is subscribed.
type Kind struct{ Classic, Sharded bool }

// New returns a hub on the driver's subscriber. A message equal to noise, unless that is
// empty, is not a hint: it is meant for other programs.
//
// Gap, which may be nil, is called when a channel is confirmed again: messages were missed. Mute, which may be nil, is
// called when Redis refuses a subscription, but not for want of a right: it has no messages, or a proxy passes none on. To
// listeners that is silence, and no refusal.
func New(d driver.Driver, noise string, gap func(), mute func(err error)) *Hub {
	h := &Hub{noise: noise, gap: gap, mute: mute, channels: make(map[string]*channel)}
	h.subscriber = d.Subscriber(h)
	return h
}

// Listen starts to listen to a channel. The first hint comes as soon as the subscription is
// confirmed: messages before that may be missed. If Redis refused the channel to earlier
// listeners, it is asked again, because the right may have been granted since.
func (h *Hub) Listen(name string, kind Kind) *Listener { return h.ListenFor(name, kind, nil, nil) }

// ListenFor is Listen for a caller that wants the messages themselves: heard is called with
// each, and reports whether it is a hint. Changed, which may be nil, is called when the
// subscription is confirmed or refused. Neither may block, and both may still be called once
// after the listener was closed.
func (h *Hub) ListenFor(name string, kind Kind, heard func(payload string) bool, changed func()) *Listener {
	l := &Listener{hub: h, name: name, kind: kind, hint: make(chan struct{}, 1), heard: heard, changed: changed}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[name]
	known := c != nil
	if !known {
		c = &channel{listeners: make(map[*Listener]struct{})}
		h.channels[name] = c
	}
	if (!known || c.refused) && !h.closed {
		c.refused = false
		h.want(l, h.subscriber.Subscribe)
	}
	c.listeners[l] = struct{}{}
	if c.confirmed {
		l.wake()
	}
	return l
}

func (h *Hub) want(l *Listener, change func(channel string, sharded bool)) {
	if l.kind.Classic {
		change(l.name, false)
	}
	if l.kind.Sharded {
		change(l.name, true)
	}
}

// Hints returns the channel on which hints arrive.
func (l *Listener) Hints() <-chan struct{} { return l.hint }

// Drain removes a hint that was not received yet.
func (l *Listener) Drain() {
	select {
	case <-l.hint:
	default:
	}
}

// Confirmed reports whether Redis has confirmed the subscription at least once, and has not
// refused it since.
func (l *Listener) Confirmed() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	c := l.hub.channels[l.name]
	return c != nil && c.confirmed
}

// Refused returns for want of which right Redis refused the subscription while l listened, or nil.
func (l *Listener) Refused() error {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return l.refused
}

// Company returns the number of listeners of the channel, including l.
func (l *Listener) Company() int {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return len(l.hub.channels[l.name].listeners)
}

// Close stops listening. It must be called once.
func (l *Listener) Close() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[l.name]
	delete(c.listeners, l)
	if len(c.listeners) > 0 {
		return
	}
	delete(h.channels, l.name)
	if !h.closed {
		h.want(l, h.subscriber.Unsubscribe)
	}
}

func (l *Listener) wake() {
	select {
	case l.hint <- struct{}{}:
	default:
	}
}

// Message implements driver.Sink.
func (h *Hub) Message(name, payload string) {
	if payload == h.noise && h.noise != "" {
		return
	}
	var hearers []*Listener
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		for l := range c.listeners {
			if l.heard != nil {
				hearers = append(hearers, l)
			} else {
				l.wake()
			}
		}
	}
	h.mu.Unlock() // heard may start or end listeners
	for _, l := range hearers {
		if l.heard(payload) {
			l.wake()
		}
	}
}

// Subscribed implements driver.Sink.
func (h *Hub) Subscribed(name string) {
	h.hint(name, true, nil)
}

// Refused implements driver.Sink.
func (h *Hub) Refused(name string, err error) {
	if driver.ClassOf(err) == driver.Denied {
		h.hint(name, false, err)
		return
	}
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		c.confirmed, c.refused = false, true
	}
	h.mu.Unlock()
	if h.mute != nil {
		h.mute(err)
	}
}

func (h *Hub) hint(name string, confirmed bool, refused error) {
	var changed []func()
	missed := false
	h.mu.Lock()
	if c := h.channels[name]; c != nil {
		if confirmed {
			c.times++
			missed = c.times > c.ways()
		}
		c.confirmed, c.refused = confirmed, refused != nil
		for l := range c.listeners {
			l.refused = refused
			l.wake()
			if l.changed != nil {
				changed = append(changed, l.changed)
			}
		}
	}
	h.mu.Unlock()
	if missed && h.gap != nil {
		h.gap()
	}
	for _, f := range changed {
		f()
	}
}

// ways returns in how many ways the channel is subscribed: each is confirmed. It must be called with
// Hub.mu held.
func (c *channel) ways() (n int) {
	for l := range c.listeners {
		if l.kind.Classic && l.kind.Sharded {
			return 2
		}
	}
	return 1
}

// Close ends the subscriptions and waits for the subscriber to end. Listeners receive nothing
// more, and must still be closed.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	return h.subscriber.Close()
}
