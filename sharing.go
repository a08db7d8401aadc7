package mortise

import (
	"cmp"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/script"
)

// Threads of Redisson's wait for the announcement of a release. Before they have
// heard it and asked for the lock, some milliseconds later, a goroutine here has
// long had it. So where they take part in a lock, a client leaves it to them for a
// moment after each of its turns, unless they have had it more often than it has
// since its last one.
//
// What a client knows of them it learns from Redis, by what it asks anyway: a
// release tells whether they listen, and a refusal whether one of them has the
// lock. Where there are none, nobody pays for them.

// sharing is what a client knows of Redisson's part in one lock. It is guarded by
// Client.mu.
type sharing struct {
	seen   time.Time // one of them was last known to listen, or to have the lock
	heard  int       // so often they were heard since one of them was seen in Redis to have the lock
	from   time.Time // the lock was last left to them
	after  time.Time // until then they have the first chance to take it
	open   bool      // what came of that is not known yet
	theirs int       // so often they have had it, as far as was heard, since it was left to them
	vain   int       // so often in a row none of them took it
	keep   time.Time // until then it is not left to them, since they do not take it

	// Of a spin lock alone:
	began time.Time     // the client's turn; zero if it has none
	freed time.Time     // the client released it last
	idle  time.Duration // so long it was free in that turn
}

const (
	// sharedFor is how long threads that were not seen again are believed to take
	// part.
	sharedFor = 5 * time.Second
	// turnTime is how long a client has a shared lock in one turn, if one hold
	// does not last longer.
	turnTime = time.Millisecond
	// chance is for how long a lock is left to them: some milliseconds more than
	// they need where CPUs are busy. As soon as one of them has taken it, that is
	// over.
	chance = 20 * time.Millisecond
	// leastChance is for how long it is left to them whatever is heard meanwhile, if
	// they were heard more often than hearsay tells without any of them having been
	// seen to have the lock: it may be the release of another lock whose name has the
	// same channel, or of one in another database.
	leastChance = 5 * time.Millisecond
	hearsay     = 2
	// keepLeast and keepMost bound how long a lock is not left to them after they
	// did not take it for the third time in a row, and more: a process of theirs
	// may be frozen.
	keepLeast = 40 * time.Millisecond
	keepMost  = time.Second
	// mostTheirs bounds how many turns of theirs are made up for.
	mostTheirs = 8
	// spinTurn is how long a side has a shared spin lock in one turn. For as long
	// again it is left to the other side, whose threads look at such intervals.
	spinTurn = 50 * time.Millisecond
	// spinTurnUnseen is the same while nobody else was seen to have the lock. Those who
	// look at it in vain leave no trace, so it is left to them unseen, but seldom.
	spinTurnUnseen = 8 * spinTurn
)

// sharedAs is under which name a client keeps what it knows of a lock's sharing.
func (k *locker) sharedAs() string { return cmp.Or(k.ops.Channel(), k.name) }

// shared returns what is known of a lock, or nil if nobody of Redisson's takes
// part as far as is known. It must be called with c.mu held.
func (c *Client) shared(as string) *sharing {
	s := c.sharing[as]
	if s == nil || time.Since(s.seen) > sharedFor {
		return nil
	}
	return s
}

// met notes that threads of Redisson's take part in a lock. It must be called with
// c.mu held.
func (c *Client) met(as string) *sharing {
	s := c.noted(as)
	s.seen = time.Now()
	return s
}

// noted returns the record of a lock. It must be called with c.mu held.
func (c *Client) noted(as string) *sharing {
	s := c.sharing[as]
	if s == nil {
		s = new(sharing)
		c.sharing[as] = s
		c.sweepWithin(sharedFor)
	}
	return s
}

// lasts returns for how long the record of a lock is still of use. It must be called
// with Client.mu held.
func (s *sharing) lasts(now time.Time) time.Duration {
	return max(sharedFor-now.Sub(s.seen), sharedFor-now.Sub(s.freed))
}

// taken notes that one of Redisson's threads has the lock. It must be called with
// c.mu held.
func (c *Client) taken(as string) {
	s := c.met(as)
	s.after, s.open, s.vain, s.keep, s.heard = time.Time{}, false, 0, time.Time{}, 0
}

// freedByThem notes that one of Redisson's threads has released a lock, as far as was
// heard. It must be called with c.mu held.
func (s *sharing) freedByThem() {
	s.seen = time.Now()
	s.heard++
	switch {
	case s.heard <= hearsay:
		s.after, s.open, s.vain = time.Time{}, false, 0
		s.theirs = min(s.theirs+1, mostTheirs)
	case s.open:
		s.after, s.open = s.from.Add(leastChance), false
	}
}

// leaveOpen leaves a lock that is free to Redisson's threads for a moment. It must
// be called with c.mu held.
func (c *Client) leaveOpen(as string) {
	s := c.met(as)
	if now := time.Now(); !now.Before(s.after) && !now.Before(s.keep) {
		s.from, s.after, s.open, s.theirs = now, now.Add(chance), true, 0
	}
}

// announced takes a message on the channel on which Redisson announces releases.
// mortise's releases say in it whether they have left the lock to Redisson's
// threads; any other may be by one of these threads, where they take part.
func (c *Client) announced(as, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := script.ParseRelease(message); {
	case m.Left:
		c.leaveOpen(as)
	case !m.Ours:
		if s := c.shared(as); s != nil {
			s.freedByThem()
		}
	}
}

// heldBy notes whose owner was seen to have a lock. It must be called with c.mu
// held.
func (c *Client) heldBy(k *locker, owner string) {
	as := k.sharedAs()
	if !script.IsMortise(owner) && k.traits.pause != nil {
		c.spun(as)
	} else if !script.IsMortise(owner) {
		c.taken(as)
	} else if s := c.shared(as); s != nil {
		s.open = false // what came of the chance, another client knows
	}
}

// had notes that this client has a lock now. It must be called with c.mu held.
func (c *Client) had(l *lease) {
	if len(c.sharing) == 0 {
		return
	}
	now := time.Now()
	l.since = c.time(now)
	as := l.sharedAs()
	if s := c.sharing[as]; s != nil && !s.freed.IsZero() {
		s.spinsOn(now)
	}
	if s := c.shared(as); s != nil && s.open {
		s.open = false
		if s.vain++; s.vain > 2 {
			s.keep = now.Add(min(keepLeast<<min(s.vain-3, 10), keepMost))
		}
	}
}

// after returns until when others have the first chance to take a lock. It must be
// called with c.mu held.
func (c *Client) after(k *locker) (t time.Time) {
	if len(c.sharing) == 0 {
		return t
	}
	if s := c.sharing[k.sharedAs()]; s != nil {
		return s.after
	}
	return t
}

// shares reports whether Redisson's threads take part in a lock that is about to be
// released, and whether it is not to be left to them even so.
func (c *Client) shares(k *locker) (shared, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sharing) == 0 {
		return false, false
	}
	s := c.shared(k.sharedAs())
	return s != nil, s != nil && s.goesOn()
}

// goesOn reports whether the client need not leave the lock to others now. It must
// be called with Client.mu held.
func (s *sharing) goesOn() bool {
	if s.theirs > 1 {
		s.theirs--
		return true
	}
	return time.Now().Before(s.keep)
}

// released notes what became of a lock that was to be released, and reports
// whether it was.
func (k *locker) released(became script.Released) bool {
	if became == script.ReleasedLeft {
		k.client.left(k)
	}
	return became != script.NotHeld
}

// left notes that a release of this client has left the lock to Redisson's
// threads.
func (c *Client) left(k *locker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveOpen(k.sharedAs())
}

// inTurn reports whether l may be handed on inside the process, as far as others
// that take part in the lock are concerned. It must be called with c.mu held.
func (c *Client) inTurn(l *lease) bool {
	if len(c.sharing) == 0 {
		return true
	}
	as := l.sharedAs()
	s := c.shared(as)
	return s == nil || c.time(time.Now())-l.since < turnTime || s.goesOn()
}

// spinOn is for a spin lock that was released. Those who wait for it elsewhere look
// once in a while, and no message brings them. So it is left to them at the end of a
// turn, unless it was free for as long in the midst of it.
func (c *Client) spinOn(k *locker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	as, now := k.sharedAs(), time.Now()
	s, turn := c.shared(as), spinTurn
	if s == nil {
		s, turn = c.noted(as), spinTurnUnseen
	}
	s.freed = now
	switch {
	case now.Before(s.keep):
	case s.began.IsZero():
		s.began, s.idle = now, 0
	case now.Sub(s.began) >= turn:
		s.began, s.open = time.Time{}, turn == spinTurn
		s.after = now.Add(spinTurn/2 + dice.N(spinTurn))
	}
}

// spinsOn notes that the client has a spin lock again. It must be called with
// Client.mu held.
func (s *sharing) spinsOn(now time.Time) {
	if s.idle += now.Sub(s.freed); s.idle >= spinTurn {
		s.began = time.Time{}
	}
}

// spun notes that one of Redisson's threads has a spin lock. If it was left to them,
// they have their turn. It must be called with c.mu held.
func (c *Client) spun(as string) {
	open := c.sharing[as] != nil && c.sharing[as].open
	c.taken(as)
	if s := c.sharing[as]; open {
		s.after = time.Now().Add(spinTurn)
	}
}

// spinPause bounds the pause of w, the head of its queue, where somebody behind it
// listens for the release: one who is not the head hears nothing.
func (c *Client) spinPause(w *waiter, d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := w.in; q != nil && q.spinning < q.length {
		return min(d, poll)
	}
	return d
}
