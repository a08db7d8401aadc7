package waiting

import (
	"context"
	"math"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// The head of each client's queue claims permits in Redis. A release notifies the clients of
// the first claims, as many as the permits suffice for, each on a channel of its own. Redisson's
// threads listen to a common channel, and announce their own releases there.

// Claims reports whether waiters for the place leave claims in Redis.
func (s Site) Claims() bool { return s.Use.Class().Claims }

// Claimant returns the id of the client if a release of permits can notify it alone, or
// nothing.
func (s Site) Claimant() string {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil {
		return q.claimant()
	}
	return ""
}

// claimant is [site.Claimant] for a queue. It must be called with Client.Mu held.
func (q *queue) claimant() string {
	if q.site().Claims() && q.turn.listener != nil && q.turn.listener.Confirmed() {
		return q.client.ID()
	}
	return ""
}

// heardPermits reports whether a message on the common channel should wake the waiters. It should
// not if the release has notified its clients directly and can reach this one. Earlier releases do
// not matter: the client asks again when it begins to listen.
func (s Site) heardPermits(channel, message string) bool {
	s.Queues.sharing.announced(channel, message)
	return !script.ParseRelease(message).Ours || s.Claimant() == ""
}

// calledForPermits handles a message to this client that there are permits for it.
func (s Site) calledForPermits(channel, message string) bool {
	if m := script.ParseTurn(message); m.Left {
		s.Queues.Mu.Lock()
		defer s.Queues.Mu.Unlock()
		s.Queues.sharing.leaveOpen(channel, chance, m.Times)
	}
	return true
}

// PrepareClaim is the method of the queue, if there is one whose waiters claim.
func (s Site) PrepareClaim() {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil && s.Claims() {
		q.prepareClaim()
	}
}

// prepareClaim prepares q for an attempt of its head. A channel that the client still listens to is taken over,
// for the claim to name the client. Notifications from before are forgotten, because the answer is newer: some may be of
// a time when nobody waited. It must be called with Client.Mu held.
func (q *queue) prepareClaim() {
	q.pend(q.head)
	if _, ok := q.client.idle[q.place]; ok {
		q.own()
	}
	for _, l := range [...]*hub.Listener{q.listener, q.turn.listener} {
		if l != nil {
			l.Drain()
		}
	}
}

// pend notes that w asks for permits, or is notified to. It must be called with Client.Mu held.
func (q *queue) pend(w *Waiter) {
	if w.pending {
		return
	}
	if q.pending == 0 {
		q.spare = math.MaxInt
	}
	w.pending = true
	q.pending++
}

// answered notes that w has its answer, by which that many permits are spare. When nobody has to wait for an answer any
// more, it makes as many waiters ask as permits are spare for, in their order. So permits that come free together
// cost two round trips, and not one each; and calls that come faster than that do not wait longer and longer.
//
// Answers come in any order, so the least spare counts. Those that were made to ask claim nothing, so they never overtake a claim.
// The first waiter asks by itself. answered must be called with Client.Mu held.
func (q *queue) answered(w *Waiter, spare int) {
	if !w.pending {
		return
	}
	w.pending = false
	q.pending--
	if q.spare = min(q.spare, spare); q.pending > 0 {
		return
	}
	spare = q.spare
	for next := q.head; next != nil; next = next.next {
		if next == w || next == q.head {
			continue
		}
		if spare -= int(next.Wants); spare < 0 {
			return
		}
		q.pend(next)
		next.call()
	}
}

// Got notes that w has got permits, after which that many are spare.
func (s Site) Got(w *Waiter, spare int) {
	if !s.Claims() {
		return
	}
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if w.in != nil {
		w.in.answered(w, spare)
	}
}

// ListenForPermits returns the notifications for the head of the queue, and opens the
// subscriptions if necessary. A client without the right to its own channel hears those for all.
func (s Site) ListenForPermits(channel string) (own, all <-chan struct{}, err error) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	q := s.queue()
	if q == nil {
		return nil, nil, nil
	}
	if s.Queues.Conn().TurnCommand() != "" {
		own = q.own().Hints()
	}
	if q.listener == nil {
		q.listener, q.heeds = s.Queues.HearReleases(channel, func(message string) bool { return s.heardPermits(channel, message) }, nil)
	}
	return own, q.listener.Hints(), q.listener.Refused()
}

// withdraw removes the claim of a waiter that gave up, in the background. It insists for as
// long as the claim can last: until then, nobody else gets what is reserved for it. A copy that
// is late does no harm, since id is not used again. The caller is one that Close waits for.
func (qs *Queues) withdraw(k *lease.Lock, id string) {
	qs.Spawn(func(ctx context.Context) {
		qs.Insist(ctx, script.ClaimLife, func(ctx context.Context) error {
			_, err := k.Release(ctx, id)
			return err
		})
	})
}
