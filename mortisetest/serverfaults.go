package mortisetest

import (
	"slices"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// What Redis replies when it cannot serve, for [Server.Refuse] and [Fault]. These are the texts of
// Redis 7.0.
const (
	Loading      = "LOADING Redis is loading the dataset in memory"
	ReadOnly     = "READONLY You can't write against a read only replica."
	OutOfMemory  = "OOM command not allowed when used memory > 'maxmemory'."
	NoReplicas   = "NOREPLICAS Not enough good replicas to write."
	MasterDown   = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	Busy         = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	TryAgain     = "TRYAGAIN Multiple keys request during rehashing of slot"
	MaxClients   = "ERR max number of clients reached"
	NoPermission = "NOPERM this user has no permissions to access one of the keys used as arguments"
)

// refusalError is an error reply of the server.
type refusalError string

func (e refusalError) Error() string { return string(e) }

func refused(reply string) error { return driver.ReplyError(refusalError(reply), reply) }

// Refuse makes the server answer every script with an error reply, such as [Loading], until
// Refuse is called again; with "" it serves again. The script does not run: a Redis that is out of
// memory may refuse only the commands of a script that need memory, and that is not simulated.
// Subscriptions are not refused.
func (s *Server) Refuse(reply string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = reply
}

// FailOver makes a replica the master that has not received the last n writes: the server forgets
// them, and closes all connections, see [Link.Cut]. It returns how many writes it
// has forgotten: it knows the last 256. A write is all that one script, or one command
// of [Server.Do], has changed, including the expiry of keys; a script that has changed nothing
// does not count, and neither does the end of a key's time. Messages that were published stay so.
//
// It takes no time. For a failover that does, call [Server.Refuse] before and after.
func (s *Server) FailOver(n int) int {
	s.mu.Lock()
	s.tick()
	n = min(n, len(s.writes))
	for range n {
		last := len(s.writes) - 1
		for key, e := range s.writes[last] {
			s.put(key, e)
		}
		s.writes = s.writes[:last]
	}
	s.hits[FailedOver]++
	s.hits[Forgotten] += n
	if n > 0 {
		s.lost()
	} else {
		for _, h := range s.watchers {
			h.Disturbed()()
		}
	}
	s.mu.Unlock()
	s.cutAll()
	return n
}

// Restart restarts the server without persistence: all keys vanish, and all connections
// close, see [Link.Cut]. It takes no time.
func (s *Server) Restart() {
	s.mu.Lock()
	s.mini.FlushAll()
	s.writes = nil
	s.hits[Restarted]++
	s.lost()
	s.mu.Unlock()
	s.cutAll()
}

// Evict removes keys, as the server does when it needs memory, and returns how many there were.
// Nothing is published.
func (s *Server) Evict(keys ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, _ := s.do(slices.Concat([]string{"DEL"}, keys)...)
	n := int(v.Int())
	if s.hits[Evicted] += n; n > 0 {
		s.lost()
	}
	return n
}

// Jump moves the clock of the server by d, which may be negative. A jump forward ends the keys
// whose time comes meanwhile; a jump back lengthens what is left of all others. The clocks of
// clients do not jump.
func (s *Server) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	s.offset += d
	if d < 0 {
		s.mini.FastForward(d) // miniredis keeps what is left, where Redis keeps the end
	}
	s.tick()
	s.hits[Jumped]++
	switch {
	case d > 0:
		s.lost()
	case d < 0:
		for _, h := range s.watchers {
			h.lasts(-d)
		}
	}
}

// tick sets the time of the server, and ends the keys whose time has come. It must be called with
// s.mu held.
func (s *Server) tick() {
	s.now = time.Now().Round(0).Add(s.offset)
	s.mini.SetTime(s.now)
	s.mini.DB(0)
}

func (s *Server) cutAll() {
	s.mu.Lock()
	links := slices.Clone(s.links)
	s.mu.Unlock()
	for _, l := range links {
		l.Cut(0)
	}
}
