package top

import (
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// party is a process, and how it is named where it gets little room.
type party struct{ text, brief string }

// process names a process; silent is for how long it is silent, 0 if it is not. What tells it from others comes
// first: a cell may cut the rest. If it says which program it runs under its locks, brief leaves its own name out.
func process(host string, pid int, app, command string, silent time.Duration) party {
	text := clean(host) + " pid " + strconv.Itoa(pid)
	if silent > 0 {
		text += " silent " + age(silent)
	}
	switch {
	case command != "" && app != "":
		return party{text + " (" + clean(app) + ": " + clean(command) + ")", text + " (" + clean(command) + ")"}
	case command != "" || app != "":
		text += " (" + clean(app+command) + ")"
	}
	return party{text, text}
}

// only is a party that has one name.
func only(text string) party { return party{text, text} }

// after puts words before a party.
func (p party) after(words string) party { return party{words + p.text, words + p.brief} }

// cell returns a party as a cell.
func (p party) cell(style lipgloss.Style) cell {
	return cell{text: p.text, brief: p.brief, style: style}
}

// partyText names a holder or a waiter, and reports whether its process is silent.
func (m *Model) partyText(p *watch.Party) (name party, silent bool) {
	switch c := m.last.byID[p.Client]; {
	case p.Kept():
		return only("kept after its release"), false
	case p.Named() && c != nil:
		return process(p.Host, p.PID, p.App, p.Command, silence(&c.ClientInfo)), isSilent(&c.ClientInfo)
	case p.Named():
		return process(p.Host, p.PID, p.App, p.Command, 0), false
	}
	return only(p.Text(clean)), false
}

// silence returns for how long a client is silent; 0 if it is not.
func silence(c *mortise.ClientInfo) time.Duration {
	if c.IsSilent() {
		return c.Silent
	}
	return 0
}

// isSilent reports whether a client, if it is known, has not renewed its record in time.
func isSilent(c *mortise.ClientInfo) bool { return c != nil && c.IsSilent() }

// isKept reports whether an owner is that of a lock that is only kept.
func isKept(owner string) bool {
	p := watch.Party{Owner: owner}
	return p.Kept()
}

// infoText names a client, or the owner if that is not known.
func infoText(c *mortise.ClientInfo, owner string) party {
	if c == nil {
		return only(clean(owner))
	}
	return process(c.Host, c.PID, c.App, c.Command(), silence(c))
}

// recordedText names the process of an acquisition that has ended.
func recordedText(e *mortise.Acquisition) party {
	if e.Host == "" && e.PID == 0 {
		return only(clean(e.Owner))
	}
	return process(e.Host, e.PID, e.App, e.Command, 0)
}

// kindText is a kind in at most kindColumns.
func kindText(kind string) string {
	if word, ok := kinds[kind]; ok {
		return word
	}
	return clean(kind)
}

const kindColumns = 7

var kinds = map[string]string{
	"lock": "lock", "fairlock": "fair", "fencedlock": "fenced", "spinlock": "spin", "rwlock": "rw", "rwlock.read": "read", "rwlock.write": "write",
	"grouplock": "group", "election": "lead", "permitsemaphore": "permits", "doublebarrier": "barrier", "semaphore": "sem", "latch": "latch", "barrier": "barrier", "": "–",
}

// permitKind is the kind of a hold of permits, in records and keys.
const permitKind = "permitsemaphore"

// permitOwner returns the client that has a permit, and since when, if a record tells.
func (m *Model) permitOwner(lock, id string) (*mortise.ClientInfo, time.Time) {
	if m.last == nil {
		return nil, time.Time{}
	}
	for i := range m.last.Clients {
		c := &m.last.Clients[i]
		for _, h := range c.Holds {
			if h.Kind == permitKind && h.Lock == lock && strings.Contains(","+h.Owner+",", ","+id+",") {
				return &c.ClientInfo, h.Since
			}
		}
	}
	return nil, time.Time{}
}

// identify adds to a holder what records say about it.
func (s *seen) identify(h *mortise.Holder) {
	if s == nil {
		return
	}
	id, _, _ := strings.Cut(h.Owner, ":")
	c := s.byID[id]
	if c == nil {
		return
	}
	h.Client = &c.ClientInfo
	for _, held := range c.Holds {
		if held.Owner == h.Owner {
			h.Since = held.Since
		}
	}
}

// inTheWay names the holder that a wait is for: as the waiter knows it, or else the one that has the lock.
func (s *seen) inTheWay(lock, owner string) party {
	id, _, _ := strings.Cut(owner, ":")
	if c := s.byID[id]; c != nil {
		return infoText(&c.ClientInfo, owner)
	}
	l := s.byName[lock]
	switch {
	case owner != "":
		return only(clean(owner))
	case l == nil || len(l.Holds) == 0:
		return only("–")
	}
	p := &l.Holds[0].Party
	if c := s.byID[p.Client]; c != nil {
		return infoText(&c.ClientInfo, p.Owner)
	}
	return only(p.Text(clean))
}
