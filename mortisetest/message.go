package mortisetest

import (
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Delivery is what happens to one message on its way to a client. The zero value is a message that
// arrives at once.
type Delivery struct {
	// Lost: it does not arrive.
	Lost bool
	// Copies is how many more times than once it arrives.
	Copies int
	// Delay is how long it is on its way. Others overtake it.
	Delay time.Duration
}

// OnMessage has f say what happens to each message that the server sends to this client; nil ends
// that. F may be called by several goroutines at once, and must not block or call methods of the
// link.
func (l *Link) OnMessage(f func(channel, payload string) Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onMessage = f
}

// Forge delivers a message to this client that nobody has sent, at once, if the client listens to
// the channel. [Server.Publish] reaches all clients.
func (l *Link) Forge(channel, payload string) {
	for _, s := range l.subscriptions() {
		if s.wants(channel) {
			l.hit(MessageForged)
			s.tell(func(sink driver.Sink) { sink.Message(channel, payload) })
		}
	}
}

// Channels returns the channels that this client listens to, in the order of its requests.
func (l *Link) Channels() (channels []string) {
	for _, s := range l.subscriptions() {
		s.mu.Lock()
		channels = append(channels, s.wanted...)
		s.mu.Unlock()
	}
	return channels
}

// deliver brings a message to the client.
func (l *Link) deliver(s *subscription, channel, payload string) {
	l.mu.Lock()
	var d Delivery
	switch {
	case l.partitioned != 0:
		d.Lost = true
	case l.onMessage != nil:
		d = l.onMessage(channel, payload)
	case l.plan != nil:
		d = l.plan.message()
	}
	switch {
	case d.Lost:
		l.hits[MessageLost]++
		l.mu.Unlock()
		return
	case d.Delay > 0:
		l.hits[MessageLate]++
	}
	if d.Copies > 0 {
		l.hits[MessageDoubled]++
	}
	l.mu.Unlock()
	for range 1 + d.Copies {
		send := func() {
			l.whenThawed(func() { s.tell(func(sink driver.Sink) { sink.Message(channel, payload) }) })
		}
		if d.Delay <= 0 {
			send()
			continue
		}
		l.server.roads.send(func() {
			if l.server.roads.sleep(d.Delay) {
				send()
			}
		})
	}
}
