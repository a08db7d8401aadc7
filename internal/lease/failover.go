package lease

import (
	"sync"
	"time"
)

// releases are the last leases that a client has released, with Redis' confirmation. A failover
// to a replica that has not received such a release brings the lease back, but nobody holds it.
// If Redis then refuses a request because of it, the client releases it again.
type releases struct {
	mu   sync.Mutex
	last [64]pastLease // a ring
	next int
}

// pastLease is a lease that was released. Its id is not used again on that name.
type pastLease struct {
	lock *Lock
	id   string
	at   time.Time // when Redis had confirmed that
}

func (s *releases) note(l *Lease) {
	p := pastLease{l.Lock, l.id, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[s.next] = p
	s.next = (s.next + 1) % len(s.last)
}

// find returns a lock called name whose lease id was released before t, or nil.
func (s *releases) find(name, id string, t time.Time) *Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.last {
		if p := &s.last[i]; p.id == id && p.at.Before(t) && p.lock.name == name {
			return p.lock
		}
	}
	return nil
}
