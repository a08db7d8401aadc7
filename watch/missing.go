package watch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// missing has the servers of a cluster that cannot be read. What the others have is shown meanwhile.
type missing struct {
	now  map[string]error // by their addresses
	told map[string]error // of which the reader knows
}

// begin begins a look: a server that answers is not missing any more.
func (m *missing) begin(answers func(server string) bool) {
	for server := range m.now {
		if answers(server) {
			delete(m.now, server)
		}
	}
}

// add notes the servers that err names, and reports whether it names some, and says nothing else.
func (m *missing) add(err error) bool {
	var unlisted *mortise.UnlistedError
	if !errors.As(err, &unlisted) || !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrDenied) {
		return false
	}
	for _, server := range unlisted.Servers {
		m.note(server, err)
	}
	return true
}

func (m *missing) note(server string, err error) {
	if m.now == nil {
		m.now = make(map[string]error)
	}
	m.now[server] = err
}

// silent notes that a server has not reported the state of a key, and reports whether there are others.
func (m *missing) silent(server string, err error) bool {
	if server == "" || !errors.Is(err, mortise.ErrUnreachable) {
		return false
	}
	m.note(server, err)
	return true
}

// has reports whether a server is missing.
func (m *missing) has(server string) bool { _, ok := m.now[server]; return ok }

// end ends a look that has succeeded. It returns the servers that are missing, and what is to be told of those that were not in the
// look before, and of those that are there again.
func (m *missing) end() (servers []string, notes []*Note) {
	servers = slices.Sorted(maps.Keys(m.now))
	for _, server := range servers {
		if _, known := m.told[server]; !known {
			notes = append(notes, &Note{Text: fmt.Sprintf("%s of the cluster cannot be read; what it has is shown as it was seen last", server), Err: m.now[server]})
		}
	}
	for _, server := range slices.Sorted(maps.Keys(m.told)) {
		if !m.has(server) {
			notes = append(notes, &Note{Text: server + " of the cluster can be read again; what happened meanwhile is only seen by its result"})
		}
	}
	m.told = maps.Clone(m.now)
	return servers, notes
}

// unread takes over the clients of a look, and those seen last whose records could not be read, according to err, or could not a moment
// ago: a record may have expired meanwhile, and its client renews it. It returns the ids of these. How long they have been silent
// counts on: whether they have left cannot be known.
func (w *Watcher) unread(clients []mortise.ClientState, err error) map[string]bool {
	var unlisted *mortise.UnlistedError
	errors.As(err, &unlisted)
	on := func(key string) bool {
		return unlisted != nil && slices.Contains(unlisted.Servers, w.driver.Shard(key))
	}
	index, now := on(keyspace.ClientIndex(w.options.Prefix)), time.Now()
	read := make(map[string]bool)
	for i := range clients {
		read[clients[i].ID] = true
		delete(w.lost, clients[i].ID)
	}
	unread := make(map[string]bool)
	last := w.clients
	w.clients = clients
	for _, c := range last {
		if read[c.ID] {
			continue
		}
		if index || on(keyspace.ClientRecord(w.options.Prefix, c.ID)) {
			w.lost[c.ID] = now
		}
		if at, ok := w.lost[c.ID]; ok && now.Sub(at) < renewed {
			unread[c.ID] = true
			c.Silent += now.Sub(w.looked)
			w.clients = append(w.clients, c)
		}
	}
	w.looked = now
	maps.DeleteFunc(w.lost, func(_ string, at time.Time) bool { return now.Sub(at) >= renewed })
	return unread
}

// renewed is when a client that lives has renewed its record for certain: it does so every ten seconds.
const renewed = 11 * time.Second

// lack notes which servers of a cluster are missing.
func (w *Watcher) lack(servers []string, notes []*Note) {
	w.mu.Lock()
	w.load.Missing = servers
	w.mu.Unlock()
	for _, n := range notes {
		w.note(n)
	}
}
