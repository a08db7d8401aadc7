package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// zero is the time at which a story begins.
var zero = time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

const (
	idA = "aaaaaaaa-0000-8000-8000-000000000001"
	idB = "bbbbbbbb-0000-8000-8000-000000000002"
	idR = "cccccccc-0000-4000-8000-000000000003"
)

// who are the processes of clients.
var hosts = map[string]string{idA: "api-7", idB: "api-9"}

// recordOf returns the record of a client.
func recordOf(id string, parts ...func(*mortise.ClientState)) mortise.ClientState {
	c := mortise.ClientState{ClientInfo: mortise.ClientInfo{ID: id, Host: hosts[id], PID: 4121}}
	for _, part := range parts {
		part(&c)
	}
	c.HoldCount, c.WaitCount = max(c.HoldCount, len(c.Holds)), len(c.Waits)
	return c
}

func holds(lock string, n, since int) func(*mortise.ClientState) {
	return func(c *mortise.ClientState) {
		c.Holds = append(c.Holds, mortise.ClientHold{Lock: lock, Kind: "lock", Owner: fmt.Sprintf("%s:%d", c.ID, n), Since: at(since)})
	}
}

func reads(lock string, n, since int) func(*mortise.ClientState) {
	return func(c *mortise.ClientState) {
		c.Holds = append(c.Holds, mortise.ClientHold{Lock: lock, Kind: "rwlock.read", Owner: fmt.Sprintf("%s:%d", c.ID, n), Since: at(since)})
	}
}

func waits(lock string, since int) func(*mortise.ClientState) {
	return func(c *mortise.ClientState) {
		c.Waits = append(c.Waits, mortise.ClientWait{Lock: lock, Kind: "lock", Since: at(since)})
	}
}

func silentFor(d time.Duration) func(*mortise.ClientState) {
	return func(c *mortise.ClientState) { c.Silent = d }
}

func askedFor(n int, by string) func(*mortise.ClientState) {
	return func(c *mortise.ClientState) {
		c.Asked = append(c.Asked, mortise.ClientRequest{Owner: fmt.Sprintf("%s:%d", c.ID, n), By: by})
	}
}

// key returns the state of a key with holders; ttl is that of the lease, in ms.
func key(lock string, ttl int, owners ...string) mortise.State {
	s := mortise.State{Name: lock, Kind: mortise.KindLock, Locked: len(owners) > 0, TTL: time.Duration(ttl) * time.Millisecond}
	if len(owners) == 0 {
		s.Kind = mortise.KindNone
	}
	for _, o := range owners {
		s.Holders = append(s.Holders, mortise.Holder{Owner: o, Count: 1})
	}
	return s
}

// readers returns the state of a key with these readers, and more that it does not list.
func readers(lock string, more int, owners ...string) mortise.State {
	s := key(lock, 30_000, owners...)
	s.Kind, s.Mode, s.Unlisted = mortise.KindRWLock, "read", more
	return s
}

// sight is a look of a story.
type sight struct {
	ms      int
	clients []mortise.ClientState
	keys    []mortise.State
	later   bool // the keys were found by a second search
	gap     bool
}

func see(ms int, clients ...mortise.ClientState) sight { return sight{ms: ms, clients: clients} }

func (s sight) with(keys ...mortise.State) sight { s.keys = keys; return s }

// sighting returns what was read in the look.
func (s sight) sighting() Sighting {
	read := Sighting{At: at(s.ms), Clients: s.clients, States: make(map[string]mortise.State), Later: make(map[string]bool), Gap: s.gap}
	for _, k := range s.keys {
		read.States[k.Name], read.Later[k.Name] = k, s.later
	}
	return read
}

// told returns what a watch tells of a story: a line for each event, in the order in which they are
// told.
func told(t *testing.T, story []sight) []string {
	t.Helper()
	var last *Snapshot
	var lines []string
	for _, look := range story {
		next := Merge(last, look.sighting(), func(name string) bool { return !strings.HasPrefix(name, "other") })
		for _, e := range Diff(last, next) {
			lines = append(lines, line(&e))
		}
		last = next
	}
	return lines
}

// line returns an event as tests write it.
func line(e *Event) string {
	plain := func(text string) string { return text }
	text := fmt.Sprintf("%d %s %s %s", e.Time.Sub(zero).Milliseconds(), e.Type, e.Lock, strings.TrimSuffix(e.Party.Text(plain), " pid 4121"))
	if e.From != nil && e.Type == Granted {
		text += " from " + strings.TrimSuffix(e.From.Text(plain), " pid 4121")
	}
	if e.For != nil {
		text += " for " + strings.TrimSuffix(e.For.Text(plain), " pid 4121")
	}
	if e.Waited >= 0 {
		text += fmt.Sprintf(" waited %d", e.Waited.Milliseconds())
	}
	if e.Held >= 0 {
		text += fmt.Sprintf(" held %d", e.Held.Milliseconds())
	}
	if e.Unsure && e.Type != GaveUp {
		text += " unsure"
	}
	if e.By != "" {
		text += " by " + e.By
	}
	return text
}
