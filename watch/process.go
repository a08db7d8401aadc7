package watch

import (
	"time"

	"github.com/mortise-go/mortise"
)

// knownFor is how long the process of a client is known after its record was last read: a program that has
// ended has no record, and what it held may still be seen.
const knownFor = time.Minute

// process is the process of a client, and when its record was last read.
type process struct {
	info mortise.ClientInfo
	at   time.Time
}

// Process returns the process of the client that owner belongs to, if a look has read its record within
// the last minute. The client need not hold or wait for anything now.
func (s *Snapshot) Process(owner string) (info mortise.ClientInfo, ok bool) {
	p, ok := s.processes[clientOf(owner)]
	return p.info, ok
}

// know takes over the processes that records list, and those of the snapshot before.
func (m *merger) know() {
	for id, p := range m.last.processes {
		if m.now.At.Sub(p.at) < knownFor {
			m.now.processes[id] = p
		}
	}
	for id, c := range m.present {
		m.now.processes[id] = process{c.ClientInfo, m.now.At}
	}
}

// name names the process of a holder that no record names, if its client is known.
func (m *merger) name(p *Party) {
	if info, ok := m.now.Process(p.Owner); ok && !p.Named() {
		*p = party(&info, p.Owner)
	}
}
