package lockmgr

import (
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/script"
)

// The head of each client's queue claims permits in Redis. A release notifies the clients of
// the first claims, as many as the permits suffice for, each on a channel of its own. Redisson's
// threads listen to a channel of all, and announce their own releases there.

// claims reports whether waiters for the place leave claims in Redis.
func (s site) claims() bool { return classes[s.use].Claims }

// Claimant returns the id of the client if a release of permits can notify it alone, or
// nothing.
func (o *Object) Claimant(use Use) string { return site{o.client, place{use, o.name}}.claimant() }

func (s site) claimant() string {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.queue(); q != nil {
		return q.claimant()
	}
	return ""
}

// claimant is [Object.Claimant] for a queue. It must be called with Client.mu held.
func (q *queue) claimant() string {
	if q.site().claims() && q.turn.listener != nil && q.turn.listener.Confirmed() {
		return q.client.id
	}
	return ""
}

// heardPermits reports whether a message on the channel of all is a hint: not if the release
// has notified the waiters that it was for, and would have notified this client. What came
// before that was possible is no matter: the client asks again when it begins to listen.
func (s site) heardPermits(message string) bool {
	return !script.ParseRelease(message).Ours || s.claimant() == ""
}

// prepareClaim is the method of the queue, if there is one whose waiters claim.
func (s site) prepareClaim() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.queue(); q != nil && s.claims() {
		q.prepareClaim()
	}
}

// listens reports whether the client listens to its channel although nobody waits.
func (s site) listens() bool {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return s.listensIdle()
}

// prepareClaim prepares q for an attempt of its head. A channel that the client still listens to is taken over,
// for the claim to name the client. Notifications from before are forgotten, because the answer is newer: some may be of
// a time when nobody waited. It must be called with Client.mu held.
func (q *queue) prepareClaim() {
	if _, ok := q.client.idle[q.place]; ok {
		q.own()
	}
	for _, l := range [...]*hub.Listener{q.listener, q.turn.listener} {
		if l != nil {
			l.Drain()
		}
	}
}

// listenForPermits returns the notifications for the head of the queue, and opens the
// subscriptions if necessary. A client without the right to its own channel hears those for all.
func (s site) listenForPermits(channel string) (own, all <-chan struct{}, err error) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	q := s.queue()
	if q == nil {
		return nil, nil, nil
	}
	if s.client.conn.TurnCommand() != "" {
		own = q.own().Hints()
	}
	if q.listener == nil {
		q.listener = s.client.hub.ListenFor(channel, subscribeMode(s.client.conn), s.heardPermits, nil)
	}
	return own, q.listener.Hints(), q.listener.Refused()
}
