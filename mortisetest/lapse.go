package mortisetest

import (
	"slices"
	"time"
)

// event is something that happened to a name, or to all of them if it is empty.
type event struct {
	name string
	at   instant
}

// Forgot tells the history that Redis has lost, at about this time, what it knew of names,
// or of all names if there are none: by a failover, an eviction, a restart without its data,
// a clock that was set, or a release by force. [History.Watch] does this for an embedded server.
//
// What this takes away, and no more:
//
//   - A hold that was there, or asked for, may be had by others as well, until a Lease has passed: by
//     then its holder has been told, or Redis knew of it nevertheless.
//   - What was released may be back for a Lease.
//   - Waiters may have lost their places.
//   - Tokens and numbers of terms may start again, but not for a client that has had higher ones.
//   - What a latch, a semaphore, a barrier or an election does from now on is not checked.
func (h *History) Forgot(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(names) == 0 {
		names = []string{""}
	}
	at := h.now()
	for _, name := range names {
		h.forgotten = append(h.forgotten, event{name, at})
	}
}

// Watch has the history learn by itself when an embedded server loses data: a failover that forgets
// writes, a restart, an eviction and a clock that jumps forward are as if Forgot were called for all
// names. A failover that forgets nothing may cost waiters their places, and after a jump back what was
// left behind lasts longer by that much. Call it before anything is recorded. Of the faults of
// links the history has to be told nevertheless: see [History.Disturbed].
func (h *History) Watch(s *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, h)
}

// lost tells those that watch the server that it has lost data. It must be called with s.mu held, so
// that no script runs between the loss and the record of it.
func (s *Server) lost() {
	for _, h := range s.watchers {
		h.Forgot()
	}
}

// lasts records that the clock of the server was set back by d: what a client has left behind ends
// so much later.
func (h *History) lasts(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, r := range h.holdings {
		if !r.ended().later(r.lease).before(now) {
			r.lease += d
		}
	}
	for _, c := range h.calls {
		if c.family == "double barrier" || !c.last().before(now) {
			c.lease += d
		}
	}
}

// ended returns when a request was over, or the hold that it led to, as far as Redis knows.
func (r *holding) ended() instant {
	switch {
	case !r.granted:
		return r.done
	case r.released != never:
		return r.released
	}
	return later(r.end, r.gone)
}

// lapses returns when Redis forgot a name, in order.
func (h *History) lapses(name string) (at []instant) {
	for _, e := range h.forgotten {
		if e.name == "" || e.name == name {
			at = append(at, e.at)
		}
	}
	return at
}

// lapse returns when Redis forgot a name first, or never.
func (h *History) lapse(name string) instant {
	if at := h.lapses(name); len(at) > 0 {
		return at[0]
	}
	return never
}

// forgot reports whether Redis may have forgotten, during the request r, what it knew of its name, or a
// lease before at most.
func (h *History) forgot(r *holding) bool {
	return slices.ContainsFunc(h.lapses(r.Name), func(at instant) bool { return at.before(r.done) && !at.later(r.lease).before(r.begin) })
}

// back returns until when a hold of r's name that was released may be in the way, because a failover
// has forgotten the release.
func (h *History) back(r *holding) (until instant) {
	for _, at := range h.lapses(r.Name) {
		if r.begin.before(at) {
			until = later(until, at.later(r.lease))
		}
	}
	return until
}

// stay is a time in which a hold must have been there: from some instant of its beginning on.
type stay struct{ from, by, to instant }

// stays returns when the hold r must have been there. When Redis forgets, it may have gone; if it is
// trusted for a lease after that, Redis knew of it again by then.
func (h *History) stays(r *holding) (all []stay) {
	s := stay{r.begin, r.done, r.end}
	for _, at := range h.lapses(r.Name) {
		if !r.begin.before(at) || !at.before(r.end) {
			continue
		}
		if s.from.before(at) && !at.before(s.by) {
			all = append(all, stay{s.from, s.by, at})
		}
		back := at.later(r.lease)
		if !back.before(r.end) {
			return all
		}
		s = stay{later(s.by, back), later(s.by, back), r.end}
	}
	return append(all, s)
}

// known returns the calls of a name that were made before Redis forgot it; those that returned later
// are as if they had not returned.
func (h *History) known(name string, calls []*call) (before []*call) {
	at := h.lapse(name)
	for _, c := range calls {
		if c.begin.before(at) {
			before = append(before, c.until(at))
		}
	}
	return before
}

// until returns the call as it was known at an instant.
func (c *call) until(at instant) *call {
	if c.last().before(at) && (c.left == nil || c.left.last().before(at)) && (c.dark == never || c.dark.before(at)) {
		return c
	}
	k := *c
	if !k.done.before(at) {
		k.done, k.over, k.err, k.doubtful = never, false, nil, false
	}
	if k.left != nil {
		k.left = k.left.until(at)
		if !k.left.begin.before(at) {
			k.left = nil
		}
	}
	k.lease = never.at / 4 // after that nobody knows
	return &k
}
