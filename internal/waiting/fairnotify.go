package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// fairChannel is the client's channel for a fair lock. It may outlive its queue, and serve
// the next one.
type fairChannel struct{ Site }

func (h fairChannel) listen() *hub.Listener {
	c := h.Queues
	return c.Hub().ListenFor(keyspace.FairTurnChannel(h.Place.Name, c.ID()), OwnSubscribeMode(c.Conn()), h.notified, h.changed)
}

// notified handles a message. It always reports false, because the message is for one
// waiter only.
func (h fairChannel) notified(message string) bool {
	c := h.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if h.hears(); h.queue() != nil {
		h.queue().fair.notify(script.ParseFair(message))
	}
	return false
}

// changed handles that the channel is opened, or refused.
func (h fairChannel) changed() {
	c := h.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if q := h.queue(); q != nil {
		q.fair.reopened()
	}
}

// notify handles a message to this client about one of its waiters. Any client may have
// sent it: only a nonce that the waiter drew proves a grant. Any other message only makes
// a waiter that may be next ask, at the pace of the queue. A message for an unknown waiter
// has no effect: a waiter that gave up leaves the queue itself.
func (f *fairQueue) notify(m script.FairMessage) {
	switch w := f.waiters[m.Waiter]; {
	case w == nil:
	case m.Look && (w.phase != placed || f.before(w) < fairNear):
		w.mustAsk()
	case m.Nonce == "":
	case m.Nonce == w.nonce:
		w.grant, w.nonce, w.former = grantedNow, "", ""
		w.Signal()
	case m.Nonce == w.former:
		w.grant, w.former = grantedEarly, ""
		w.Signal()
	}
}

// reopened makes the first waiter ask Redis: messages published before the client was
// subscribed are lost. A waiter whose place is not known yet asks when it turns out to be
// the first. If the client cannot subscribe, all waiters wake.
func (f *fairQueue) reopened() {
	f.turn.heard = time.Now()
	for w := f.head; w != nil && w.fair.phase == placed; w = w.next {
		w.fair.mustAsk()
		if w.fair.since.at != 0 { // otherwise the reply with its place was lost
			break
		}
	}
	f.opened++
	if f.turn.listener != nil && f.turn.listener.Refused() != nil {
		for w := f.head; w != nil; w = w.next {
			w.Signal()
		}
	}
}
