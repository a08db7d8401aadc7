package peer

import (
	"context"
	"sync"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/workload"
)

// Many clients of mortise in one process, as if each were a process: every acquisition is that of a
// client of its own. They share the connections, so that what is measured is mortise, and not
// buffers of a Redis client.
var (
	clientEach = &System{
		Name: "mortise/client each", Module: module,
		Settings: "Lock with its defaults, a Client for each acquisition; all share one rueidis client and one subscription",
		Open:     openGuests(nil),
	}
	clientEachHidden = &System{
		Name: "mortise hidden/client each", Module: module,
		Settings: "the same with Identity.Hide: no records",
		Open:     openGuests(&mortise.Options{Identity: mortise.Identity{Hide: true}}),
	}
)

func openGuests(o *mortise.Options) rig.Open {
	return func(_ context.Context, addr string) (workload.Locker, func(), error) {
		d, end, err := wrapRueidis(addr)
		if err != nil {
			return nil, nil, err
		}
		h := &host{Driver: d, channels: map[channel]*audience{}}
		h.inner = d.Subscriber(h)
		lock := func(ctx context.Context, key string) (workload.Hold, error) {
			client := mortise.New(&guest{Driver: h.Driver, host: h, wants: map[channel]bool{}}, o)
			hold, err := lock(ctx, client.Lock(key))
			if err != nil {
				closing(client)()
				return nil, err
			}
			return guestHold{hold, client}, nil
		}
		return lockFunc(lock), func() {
			closing(h.inner)()
			closing(d)()
			end()
		}, nil
	}
}

// guestHold is a hold with the client that has it.
type guestHold struct {
	workload.Hold
	client *mortise.Client
}

func (h guestHold) Unlock() error {
	defer closing(h.client)()
	return h.Hold.Unlock()
}

// host has the one subscriber of all guests, and is its sink.
type host struct {
	driver.Driver
	inner driver.Subscriber

	mu       sync.Mutex // guards the fields below
	channels map[channel]*audience
}

type channel struct {
	name    string
	sharded bool
}

// audience is the guests that want a channel.
type audience struct {
	guests    map[*guest]bool
	confirmed bool
}

// tell calls f with the guests that want a channel.
func (h *host) tell(name string, confirmed bool, f func(driver.Sink)) {
	var told []*guest
	h.mu.Lock()
	for _, sharded := range []bool{false, true} {
		if a := h.channels[channel{name, sharded}]; a != nil {
			a.confirmed = a.confirmed || confirmed
			for g := range a.guests {
				told = append(told, g)
			}
		}
	}
	h.mu.Unlock()
	for _, g := range told {
		f(g.sink)
	}
}

// Message implements [driver.Sink].
func (h *host) Message(name, payload string) {
	h.tell(name, false, func(s driver.Sink) { s.Message(name, payload) })
}

// Subscribed implements [driver.Sink].
func (h *host) Subscribed(name string) {
	h.tell(name, true, func(s driver.Sink) { s.Subscribed(name) })
}

// Refused implements [driver.Sink].
func (h *host) Refused(name string, err error) {
	h.tell(name, false, func(s driver.Sink) { s.Refused(name, err) })
}

// guest is the driver of one client, and its subscriber.
type guest struct {
	driver.Driver
	host  *host
	sink  driver.Sink
	wants map[channel]bool // guarded by host.mu; read after the client has ended
}

// Subscriber implements [driver.Driver]; a client calls it once.
func (g *guest) Subscriber(sink driver.Sink) driver.Subscriber {
	g.sink = sink
	return g
}

// Subscribe implements [driver.Subscriber].
func (g *guest) Subscribe(name string, sharded bool) {
	h, ch := g.host, channel{name, sharded}
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.channels[ch]
	if a == nil {
		a = &audience{guests: map[*guest]bool{}}
		h.channels[ch] = a
		h.inner.Subscribe(name, sharded)
	}
	a.guests[g], g.wants[ch] = true, true
	if a.confirmed {
		go g.sink.Subscribed(name) // later: the caller may hold a lock of its own
	}
}

// Unsubscribe implements [driver.Subscriber].
func (g *guest) Unsubscribe(name string, sharded bool) {
	h, ch := g.host, channel{name, sharded}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.channels[ch]; a != nil {
		delete(g.wants, ch)
		if delete(a.guests, g); len(a.guests) == 0 {
			delete(h.channels, ch)
			h.inner.Unsubscribe(name, sharded)
		}
	}
}

// Close implements [driver.Driver] and [driver.Subscriber]. What the guests share lasts.
func (g *guest) Close() error {
	for ch := range g.wants {
		g.Unsubscribe(ch.name, ch.sharded)
	}
	return nil
}
