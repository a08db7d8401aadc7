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

// askAgain is when a server of a cluster is asked for a key again that has not answered.
const askAgain = 5 * time.Second

// missing has the servers of a cluster that cannot be read. What the others have is shown meanwhile.
type missing struct {
	now   map[string]error     // in this look, by their addresses
	last  map[string]error     // in the look before
	asked map[string]time.Time // when one has not told the state of a key
}

// begin begins a look.
func (m *missing) begin() {
	m.now = make(map[string]error)
	for server, at := range m.asked {
		if time.Since(at) >= askAgain {
			delete(m.asked, server)
			continue
		}
		m.now[server] = m.last[server]
	}
}

// add notes the servers that err names, and reports whether it names some.
func (m *missing) add(err error) bool {
	var unlisted *mortise.UnlistedError
	if !errors.As(err, &unlisted) {
		return false
	}
	for _, server := range unlisted.Servers {
		m.now[server] = unlisted
	}
	return true
}

// silent notes that a server has not told the state of a key, and reports whether there are others.
func (m *missing) silent(server string, err error) bool {
	if server == "" || !errors.Is(err, mortise.ErrUnreachable) {
		return false
	}
	if m.asked == nil {
		m.asked = make(map[string]time.Time)
	}
	m.asked[server], m.now[server] = time.Now(), err
	return true
}

// has reports whether a server is missing.
func (m *missing) has(server string) bool { _, ok := m.now[server]; return ok }

// end ends a look that has succeeded. It returns the servers that are missing, and what is to be told of those that were not in the
// look before, and of those that are there again.
func (m *missing) end() (servers []string, notes []*Note) {
	servers = slices.Sorted(maps.Keys(m.now))
	for _, server := range servers {
		if _, known := m.last[server]; !known {
			notes = append(notes, &Note{Text: fmt.Sprintf("%s of the cluster cannot be read; what it has is shown as it was seen last", server), Err: m.now[server]})
		}
	}
	for _, server := range slices.Sorted(maps.Keys(m.last)) {
		if !m.has(server) {
			notes = append(notes, &Note{Text: server + " of the cluster can be read again; what happened meanwhile is only seen by its result"})
		}
	}
	m.last = m.now
	return servers, notes
}

// unread takes over the clients of a look, and those seen last whose records could not be read now, as err tells. It returns the ids
// of these.
func (w *Watcher) unread(clients []mortise.ClientState, err error) map[string]bool {
	var unlisted *mortise.UnlistedError
	last := w.clients
	w.clients = clients
	if !errors.As(err, &unlisted) {
		return nil
	}
	on := func(key string) bool { return slices.Contains(unlisted.Servers, w.driver.Shard(key)) }
	read, unread := make(map[string]bool), make(map[string]bool)
	for i := range clients {
		read[clients[i].ID] = true
	}
	index := on(keyspace.ClientIndex(w.options.Prefix))
	for i := range last {
		if id := last[i].ID; !read[id] && (index || on(keyspace.ClientRecord(w.options.Prefix, id))) {
			unread[id] = true
			w.clients = append(w.clients, last[i])
		}
	}
	return unread
}

// lack notes which servers of a cluster are missing.
func (w *Watcher) lack(servers []string, notes []*Note) {
	w.mu.Lock()
	w.load.Missing = servers
	w.mu.Unlock()
	for _, n := range notes {
		w.note(n)
	}
}
