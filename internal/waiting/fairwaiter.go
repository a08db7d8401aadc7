package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// fairWaiter is a waiter for a fair lock.
type fairWaiter struct {
	Waiter
	id    string    // its name in Redis
	of    *request  // that waits
	until time.Time // when it gives up; zero if never

	// The fields below are guarded by Client.Mu.

	phase   fairPhase
	opened  int       // how often the client's channel had been opened when it joined the queue
	since   queueing  // when it took its place in Redis, if that is known
	nonce   string    // a grant is believed with this nonce only
	former  string    // or with this one, until Redis has answered the attempt that brings nonce
	grant   fairGrant // consumed by the waiter
	dropped int       // how often it lost its place although it lives
	seen    time.Time // when an attempt last showed that it did not have the lock
}

// fairPhase is how far a waiter is on its way into the queue.
type fairPhase uint8

const (
	gated    fairPhase = iota // it must not ask yet; ends when it is admitted
	admitted                  // it makes its first attempt; ends with the outcome
	unplaced                  // its place in Redis is not known; ends with its next step
	placed                    // its place is known, as far as it can be
)

// fairGrant is what messages have said to a waiter.
type fairGrant uint8

const (
	ungranted    fairGrant = iota // Redis has not granted it the lock
	grantedEarly                  // it has, by a message with the former nonce; ends with the reply to the attempt, which is newer
	grantedNow                    // it has, by a message with its nonce
)

// mustAsk makes w ask for the lock.
func (w *fairWaiter) mustAsk() {
	w.call()
}

// queueing is when a waiter entered the queue in Redis: the server's time in
// microseconds, and the length of the queue then.
type queueing struct {
	at     int64
	behind int
}

func (q queueing) before(other queueing) bool {
	return q.at < other.at || q.at == other.at && q.behind < other.behind
}

const (
	// fairAhead is how long Redisson's threads wait for a dead waiter of mortise.
	// It grows up to fairAheadMost for a waiter that lost its place while alive.
	fairAhead     = 10 * time.Second
	fairAheadMost = 5 * time.Minute
)

// place returns what w reports to Redis of its place; pages is how many pages of other
// waiters are refreshed in rotation with it.
func (w *fairWaiter) place(pages int, now time.Time) script.FairPlace {
	// A live waiter that loses its place competes with clients whose clock is ahead.
	ahead := min(fairAhead<<min(w.dropped, 10), fairAheadMost) + time.Duration(2*pages)*heartbeatEvery
	if !w.until.IsZero() {
		ahead = max(min(ahead, w.until.Sub(now)), 0)
	}
	return script.FairPlace{Owner: w.id, Nonce: w.nonce, Ahead: ahead}
}
