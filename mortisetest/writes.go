package mortisetest

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/mortise-go/mortise/internal/minired"
)

// mostWrites is how many writes a server can forget.
const mostWrites = 256

// write is what one script has changed: the former entries of the keys.
type write map[string]entry

// entry is a key at an instant.
type entry struct {
	kind    string // as TYPE says, empty if there is no key
	text    string
	fields  map[string]string
	items   []string // of a list or a set
	members map[string]float64
	ends    time.Time // by the server's clock; zero if it stays
}

// beforeCommand is called before each command of a connection, and of a script. It notes the keys
// that the command may change. A script is all that changes data, see Server.do, and what calls a
// script waits for it with s.mu held.
func (s *Server) beforeCommand(c *server.Peer, name string, args ...string) bool {
	if minired.Refuse(c, name, args...) {
		return true
	}
	switch name {
	case "EVAL", "EVALSHA", "SCRIPT", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "PING", "QUIT", "TIME":
		return false
	}
	if s.mini.IsReadOnlyCommand(name) {
		return false
	}
	// Miniredis is locked for the script, and would lock itself again.
	s.mini.Unlock()
	defer s.mini.Lock()
	if name == "FLUSHALL" || name == "FLUSHDB" {
		args = s.mini.Keys()
	}
	for _, key := range args { // any argument may be a key; one that is none has no entry
		if _, known := s.current[key]; !known {
			s.current[key] = s.entry(key)
		}
	}
	return false
}

// note keeps what the script has changed, if it has changed anything.
func (s *Server) note() {
	w := s.current
	s.current = nil
	maps.DeleteFunc(w, func(key string, before entry) bool { return reflect.DeepEqual(before, s.entry(key)) })
	if len(w) == 0 {
		return
	}
	if s.writes = append(s.writes, w); len(s.writes) > mostWrites {
		s.writes = slices.Delete(s.writes, 0, len(s.writes)-mostWrites)
	}
}

func (s *Server) entry(key string) entry {
	m := s.mini
	e := entry{kind: m.Type(key)}
	switch e.kind {
	case "string":
		e.text, _ = m.Get(key)
	case "hash":
		fields, _ := m.HKeys(key)
		e.fields = make(map[string]string, len(fields))
		for _, field := range fields {
			e.fields[field] = m.HGet(key, field)
		}
	case "list":
		items, _ := m.List(key)
		e.items = slices.Clone(items)
	case "set":
		e.items, _ = m.Members(key)
	case "zset":
		members, _ := m.SortedSet(key)
		e.members = maps.Clone(members)
	}
	if left := m.TTL(key); left > 0 {
		e.ends = s.now.Add(left)
	}
	return e
}

// put makes the key what it was.
func (s *Server) put(key string, e entry) {
	m := s.mini
	m.Del(key)
	left := e.ends.Sub(s.now)
	if !e.ends.IsZero() && left <= 0 {
		return
	}
	switch e.kind {
	case "string":
		_ = m.Set(key, e.text)
	case "hash":
		for field, value := range e.fields {
			m.HSet(key, field, value)
		}
	case "list":
		_, _ = m.Push(key, e.items...)
	case "set":
		_, _ = m.SetAdd(key, e.items...)
	case "zset":
		for member, score := range e.members {
			_, _ = m.ZAdd(key, score, member)
		}
	default:
		return
	}
	if !e.ends.IsZero() {
		m.SetTTL(key, left)
	}
}
