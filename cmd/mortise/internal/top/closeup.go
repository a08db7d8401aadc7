package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mortise-go/mortise"
)

// closeUp is one lock in detail, as it was read last.
type closeUp struct {
	name    string
	read    time.Time // when it was read last, by this machine's clock; zero if it was not
	reading bool
	due     bool // it is to be read at once
	state   mortise.State
	queue   mortise.Queue
	history []mortise.Acquisition
	err     error // of the last reading
	denied  bool  // the user may not read who waits, or the history
	line    int   // the first one on the screen
	cursor
}

// closerLook is what was read of one lock.
type closerLook struct {
	name    string
	state   mortise.State
	queue   mortise.Queue
	history []mortise.Acquisition
	denied  bool
	err     error
}

const (
	// closerEvery is how often one lock is read.
	closerEvery = time.Second
	// mostHistory is how many acquisitions the screen shows.
	mostHistory = 50
)

// preview fills one lock with what the last look has seen of it, until it is read.
func (m *Model) preview() {
	if m.last == nil || m.last.byName[m.one.name] == nil {
		return
	}
	o, l := &m.one, m.last.byName[m.one.name]
	kind, mode, _ := strings.Cut(l.Kind, ".")
	o.state = mortise.State{Name: o.name, Kind: mortise.Kind(kind), Mode: mode, TTL: unknown}
	for _, h := range l.Holds {
		if kind == permitKind {
			break // its owner is a list of permits
		}
		o.state.Holders = append(o.state.Holders, mortise.Holder{Owner: h.Party.Owner, Since: h.Since})
		if !h.Until.IsZero() {
			o.state.TTL = h.Until.Sub(m.last.At)
		}
		o.state.Token = max(o.state.Token, h.Token)
	}
	for _, w := range l.Waits {
		waiter := mortise.Waiter{Owner: w.Party.Client, Since: w.Since, Kind: w.Kind, TTL: -1}
		if c := m.last.byID[w.Party.Client]; c != nil {
			waiter.Client = &c.ClientInfo
		}
		o.queue.Waiters = append(o.queue.Waiters, waiter)
	}
}

// unknown is a lease of which nothing is known yet.
const unknown = -2

// closer reads the lock that is on the screen, if it is time to.
func (m *Model) closer() {
	o := &m.one
	if m.top() != lockPage || m.paused && !o.read.IsZero() || o.reading || time.Since(o.read) < closerEvery && !o.due {
		return
	}
	o.reading, o.due = true, false
	client, name := m.looker.Client(), o.name
	m.do(func(ctx context.Context) tea.Msg { return lookCloser(ctx, client, name) })
}

// lookCloser reads one lock.
func lookCloser(ctx context.Context, client *mortise.Client, name string) (l closerLook) {
	l.name = name
	if l.state, l.err = client.Inspect(ctx, name); l.err != nil {
		return l
	}
	var err error
	var part *mortise.UnlistedError // the screen says itself which servers are missing
	if l.queue, err = client.Queue(ctx, name); err == nil || errors.As(err, &part) {
		l.history, err = client.History(ctx, name, mostHistory)
	}
	if errors.Is(err, mortise.ErrDenied) {
		l.denied = true
	} else {
		l.err = err
	}
	return l
}

// take takes what was read. If that has failed, the screen keeps what it knew.
func (o *closeUp) take(l closerLook) {
	if l.name != o.name {
		return // another lock is on the screen now
	}
	o.reading, o.read, o.err = false, time.Now(), l.err
	if l.err == nil {
		o.state, o.queue, o.history, o.denied = l.state, l.queue, l.history, l.denied
	}
}

// rows returns how many rows the cursor can be in.
func (o *closeUp) rows() int { return o.holders() + len(o.queue.Waiters) + len(o.history) }

// behind says for what the holders wait themselves: then they are not what is in the way.
func (m *Model) behind() (lines []string) {
	const most = 3
	o := &m.one
	for i := range min(o.holders(), 100) {
		h, _ := m.holder(&o.state, i)
		if h.Client == nil || m.last == nil || m.last.byID[h.Client.ID] == nil {
			continue
		}
		for _, w := range m.last.byID[h.Client.ID].Waits {
			if slices.Contains(w.Under, h.Owner) && len(lines) < most {
				lines = append(lines, fmt.Sprintf("which waits for %s, held by %s, for %s", cutMiddle(clean(w.Lock), 30), m.last.inTheWay(w.Lock, w.For).text, since(w.Since, m.now())))
			}
		}
	}
	return lines
}

// client returns the UUID of the client in the row of the cursor; empty if it has no record.
func (o *closeUp) client(m *Model) string {
	var c *mortise.ClientInfo
	switch waiter := o.at - o.holders(); {
	case o.at < o.holders():
		h, _ := m.holder(&o.state, o.at)
		c = h.Client
	case waiter < len(o.queue.Waiters):
		c = o.queue.Waiters[waiter].Client
	}
	if c == nil || m.last == nil || m.last.byID[c.ID] == nil {
		return ""
	}
	return c.ID
}

// holders returns how many holders, or permits that are held, there are.
func (o *closeUp) holders() int { return len(o.state.Holders) + len(o.state.Permits) }

// holder returns a holder, or the one of a permit.
func (m *Model) holder(s *mortise.State, i int) (h mortise.Holder, lease time.Duration) {
	if i < len(s.Holders) {
		h = s.Holders[i]
		m.last.identify(&h)
		return h, s.TTL
	}
	p := s.Permits[i-len(s.Holders)]
	h = mortise.Holder{Owner: p.ID, Count: 1}
	h.Client, h.Since = m.permitOwner(s.Name, p.ID)
	return h, p.TTL
}

// past returns how long ago, by the clock of the screen, the lock was read.
func (m *Model) past() time.Duration {
	switch {
	case m.one.read.IsZero() && m.last == nil:
		return 0
	case m.one.read.IsZero():
		return m.now().Sub(m.last.At)
	case m.paused && m.pausedAt.After(m.one.read):
		return m.pausedAt.Sub(m.one.read)
	case m.paused:
		return 0
	}
	return time.Since(m.one.read)
}
