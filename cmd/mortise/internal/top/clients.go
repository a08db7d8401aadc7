package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// roll is the table of clients.
type roll struct {
	rows   []clientRow
	chosen string
	cursor
}

// clientRow is a client in the table.
type clientRow struct {
	id               string
	name             party
	silent           bool
	holds, waits     int
	oldHold, oldWait time.Time
	waitsFor         string // the lock that it waits for longest
	blocker          party  // the holder of that
}

// set takes the clients of a look: first those that wait, the oldest wait first, then the oldest holds.
func (r *roll) set(s *seen, filter string) {
	words := strings.Fields(strings.ToLower(filter))
	r.rows = r.rows[:0]
	for i := range s.Clients {
		c := &s.Clients[i]
		if !clientMatches(c, words) {
			continue
		}
		row := clientRow{id: c.ID, name: infoText(&c.ClientInfo, c.ID), silent: isSilent(&c.ClientInfo), holds: c.HoldCount, waits: c.WaitCount}
		for _, h := range c.Holds {
			row.oldHold = earlier(row.oldHold, h.Since)
		}
		for _, w := range c.Waits {
			if row.oldWait.IsZero() || w.Since.Before(row.oldWait) {
				row.oldWait, row.waitsFor, row.blocker = w.Since, w.Lock, s.inTheWay(w.Lock, w.For)
			}
		}
		r.rows = append(r.rows, row)
	}
	slices.SortFunc(r.rows, func(a, b clientRow) int {
		return cmp.Or(oldest(a.oldWait, b.oldWait), oldest(a.oldHold, b.oldHold), strings.Compare(a.id, b.id))
	})
	if i := slices.IndexFunc(r.rows, func(c clientRow) bool { return c.id == r.chosen }); r.moved && i >= 0 {
		r.at = i
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// oldest compares times: the earlier is less, and none is more than any.
func oldest(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

func clientMatches(c *mortise.ClientState, words []string) bool {
	for _, w := range words {
		names := []string{c.Host, c.App, c.Command(), c.ID}
		for _, h := range c.Holds {
			names = append(names, h.Lock)
		}
		for _, q := range c.Waits {
			names = append(names, q.Lock)
		}
		if strconv.Itoa(c.PID) != w && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), w) }) {
			return false
		}
	}
	return true
}

func (r *roll) remember() {
	if r.moved && r.at < len(r.rows) {
		r.chosen = r.rows[r.at].id
	}
}

func (r *roll) current() *clientRow {
	if r.at < len(r.rows) {
		return &r.rows[r.at]
	}
	return nil
}

// single is what one client holds and waits for.
type single struct {
	id, name string
	gone     bool // it has no record any more
	rows     []clientLock
	more     int // locks that its record does not list
	cursor
}

type clientLock struct {
	lock, kind string
	waits      bool
	since      time.Time
	token      int64
	behind     party // the holder that it waits for
}

// set takes what a look has seen of the client.
func (c *single) set(s *seen) {
	if c.id == "" || s == nil {
		return
	}
	one := s.byID[c.id]
	if c.gone = one == nil; c.gone {
		return // the screen keeps what it knew
	}
	c.rows, c.name = c.rows[:0], infoText(&one.ClientInfo, one.ID).text
	for _, w := range one.Waits {
		c.rows = append(c.rows, clientLock{lock: w.Lock, kind: w.Kind, waits: true, since: w.Since, behind: s.inTheWay(w.Lock, w.For)})
	}
	for _, h := range one.Holds {
		c.rows = append(c.rows, clientLock{lock: h.Lock, kind: h.Kind, since: h.Since, token: h.Token})
	}
	c.more = one.HoldCount - len(one.Holds) + one.WaitCount - len(one.Waits)
}

// current returns the name of the lock in the row of the cursor.
func (c *single) current() string {
	if c.at < len(c.rows) {
		return c.rows[c.at].lock
	}
	return ""
}
