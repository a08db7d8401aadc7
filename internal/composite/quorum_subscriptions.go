package composite

import (
	"sync/atomic"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// quorumSubscriptions are the subscriptions of one waiter to the releases on all servers
// of a Quorum.
type quorumSubscriptions struct {
	quorum   *Quorum
	servers  []serverSubscription
	received chan struct{} // capacity 1: some server has sent a notification
}

// serverSubscription is the subscription on one server.
type serverSubscription struct {
	releases *hub.Listener // nil if it is not subscribed yet
	heeds    *hub.Listener // shows others that the subscriber is not Redisson's
	notified atomic.Bool   // the server has sent a notification since the last drain
}

func newQuorumSubscriptions(k *Quorum) *quorumSubscriptions {
	return &quorumSubscriptions{
		quorum: k, servers: make([]serverSubscription, len(k.locks)), received: make(chan struct{}, 1),
	}
}

// open subscribes where it has not yet. It fails if too many servers refuse that.
func (s *quorumSubscriptions) open() error {
	refused := 0
	var reason error
	for i, lock := range s.quorum.locks {
		if !lock.Client().Conn().Known() {
			continue // it was never reached
		}
		on := &s.servers[i]
		if on.releases == nil {
			notify := func() { s.notify(on) }
			on.releases, on.heeds = waiting.QueuesOf(lock.Client()).HearReleases(lock.Ops().Channel(), func(string) bool { notify(); return false }, notify)
		}
		if err := on.releases.Refused(); err != nil {
			refused++
			reason = s.quorum.serverError(i, outcome.Meaning(err))
		}
	}
	if refused > s.quorum.tolerance() {
		return reason
	}
	return nil
}

func (s *quorumSubscriptions) notify(on *serverSubscription) {
	on.notified.Store(true)
	select {
	case s.received <- struct{}{}:
	default:
	}
}

// drain returns the servers that have sent a notification since its last call.
func (s *quorumSubscriptions) drain() (servers []int) {
	for i := range s.servers {
		if s.servers[i].notified.Swap(false) {
			servers = append(servers, i)
		}
	}
	return servers
}

func (s *quorumSubscriptions) close() {
	for i := range s.servers {
		if on := &s.servers[i]; on.releases != nil {
			on.releases.Close()
			on.heeds.Close()
		}
	}
}
