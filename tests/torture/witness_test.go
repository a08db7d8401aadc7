package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// witness is what the clients of a round talk to, and that knows nothing of Redis.
type witness struct {
	loads    []torture.Load
	ttl      time.Duration
	allowed  []string // classes of errors that the nemesis explains
	listener net.Listener
	running  sync.WaitGroup
	farewell chan struct{} // closed when clients may end

	mu        sync.Mutex // guards the fields below
	calm      int64      // since when there are no faults; 0 before
	places    map[place]*seat
	conns     map[net.Conn]struct{}
	registers map[string]*register
	sections  []*section // those that have ended as well
	waits     []waited
	faults    []span   // in which Redis forgot what it had confirmed
	windows   []span   // in which a failover may have forgotten it
	taken     []taken  // holds whose key was deleted
	parties   []*party // of meetings, those that have gone as well
	latches   []*latch // the present one of each load
	named     map[string]*latch
	unsure    map[string]int // permits that may have been given back, or not
	bad       []string       // broken promises
	stops     int            // goroutines that have had enough
	byes      int            // clients whose library is closed
	tally     tally
}

// tally is what was counted.
type tally struct {
	acquisitions, losses int
	careful              int           // losses of holders that look at their context before they write
	late                 int           // of these, the ones that wrote nevertheless
	refused              int           // stale writes that the token has stopped
	unfenced             int           // stale writes that nothing has stopped, for lack of a token
	taken                int           // holds whose key was deleted
	unaware              int           // of these, the ones that had handed their lease on
	slowest              time.Duration // the longest time until one of these learned of it
	misses               map[string]int
	sharp, admitted      int           // 1 if a failover was judged by its kills alone; overlaps that a loss explains
	met                  int           // parties that have passed a barrier
	latches, opened      int           // parts of latches, and waiters that these have let pass
	wait                 time.Duration // the longest one from the end of the faults to a grant
	heap                 int64         // of a client, more at the end than at the beginning
}

// place is a goroutine of a client.
type place struct{ client, goroutine int }

// seat is what a goroutine does.
type seat struct {
	load    int
	waits   int64 // since when; 0 if it does not wait
	section *section
	party   *party // if it meets others
	served  bool   // since the faults have ended
	stopped bool
}

// waited is a wait that is over, whether or not it got what it wanted.
type waited struct {
	place
	span
	load int
}

// section is the time from an acquisition to its release.
type section struct {
	place
	load        int
	start, last int64 // when the hold was certainly valid first and last; 0 if never
	asked       int64 // when the witness heard that it was wanted
	came, ended int64 // when the witness heard of it, and of its end; 0 before that
	token       int64
	owner       string
	lost        bool
	noticed     int64
	class       string
}

// register is what a lock guards.
type register struct {
	newest  int64    // token
	by      *section // that has brought it
	version int64
	opened  *section // the last one that opened it alone
}

func newWitness(t *testing.T, loads []torture.Load, ttl time.Duration) *witness {
	t.Helper()
	dir, err := os.MkdirTemp("", "witness") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "w"))
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{
		loads: loads, ttl: ttl, listener: l, places: map[place]*seat{}, conns: map[net.Conn]struct{}{},
		registers: map[string]*register{}, farewell: make(chan struct{}), tally: tally{misses: map[string]int{}},
		latches: make([]*latch, len(loads)), named: map[string]*latch{}, unsure: map[string]int{},
	}
	w.running.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.dismiss()
		w.mu.Lock()
		for c := range w.conns {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.running.Wait()
	})
	return w
}

func (w *witness) accept() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.conns[conn] = struct{}{}
		w.mu.Unlock()
		w.running.Go(func() { w.listen(conn) })
	}
}

func (w *witness) listen(conn net.Conn) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	who := place{-1, -1}
	for {
		var m torture.Message
		err := in.Decode(&m)
		if err == nil {
			who = place{m.Client, m.Goroutine}
			reply := w.hear(m)
			if m.Op == torture.Bye {
				<-w.farewell
			}
			err = out.Encode(reply)
		}
		if err != nil {
			w.mu.Lock()
			delete(w.conns, conn)
			w.died(who)
			w.mu.Unlock()
			_ = conn.Close()
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
				w.blame("the witness does not understand client %d: %v", who.client, err)
			}
			return
		}
	}
}

// died hears that the process of a place has ended. It must be called with w.mu held.
func (w *witness) died(who place) {
	if s := w.places[who]; s != nil && s.party != nil {
		s.party.gone, s.party.killed = torture.Now(), true
	}
	delete(w.places, who)
}

// dismiss lets clients end that have said goodbye.
func (w *witness) dismiss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.farewell:
	default:
		close(w.farewell)
	}
}

// blame notes a broken promise.
func (w *witness) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// note is blame with w.mu held.
func (w *witness) note(format string, args ...any) {
	if len(w.bad) < 20 {
		w.bad = append(w.bad, fmt.Sprintf(format, args...))
	}
}

func (w *witness) hear(m torture.Message) torture.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	who := place{m.Client, m.Goroutine}
	if m.Op == torture.Bye {
		w.byes++
		w.tally.heap = max(w.tally.heap, m.Heap)
		if m.Bad != "" {
			w.note("client %d: %s", m.Client, m.Bad)
		}
		return torture.Reply{}
	}
	s := w.places[who]
	if s == nil {
		s = &seat{}
		w.places[who] = s
	}
	reply := torture.Reply{Calm: w.calm != 0}
	switch m.Op {
	case torture.Want:
		s.load, s.waits = m.Load, torture.Now()
		if s.served && w.calm != 0 {
			s.stopped, s.waits, reply.Stop = true, 0, true
			w.stops++
		} else if w.loads[m.Load].Meets {
			reply.Name, reply.Role = w.meets(who, s)
		}
	case torture.Miss:
		w.missed(who, s, m)
	case torture.Got:
		reply.Version = w.got(who, s, m)
	case torture.Still:
		s.section.last = max(s.section.last, m.At)
	case torture.Leave:
		s.section.last = max(s.section.last, m.At)
		s.party.valid, s.party.leaves = s.section.last, torture.Now()
	case torture.Write:
		reply.Refused = w.write(s.section, m)
	case torture.End:
		w.end(s, m)
	}
	return reply
}

// meets begins a meeting, and returns what the caller shall do in it.
func (w *witness) meets(who place, s *seat) (name, role string) {
	p := &party{place: who, load: w.loads[s.load], came: torture.Now()}
	if p.load.Kind == "latch" {
		name, role = w.assign(s.load)
		p.load.Name, p.load.Role = name, role
	}
	s.party = p
	w.parties = append(w.parties, p)
	return name, role
}

func (w *witness) missed(who place, s *seat, m torture.Message) {
	since := s.waits
	w.waits = append(w.waits, waited{who, span{since, torture.Now()}, s.load})
	s.waits = 0
	w.tally.misses[m.Class]++
	if p := s.party; p != nil {
		p.gone, p.class = torture.Now(), m.Class
		s.party = nil
		if p.load.Role == "wait" && m.Class == "missing" {
			w.shut(p)
		}
	}
	switch {
	case strings.HasPrefix(m.Class, "bad"):
		w.note("client %d asked for %s: %s", who.client, w.describe(s.load), m.Text)
	case w.loads[s.load].Meets && slices.Contains(unmet, m.Class):
	case w.calm != 0 && since > w.calm:
		w.note("after the faults, client %d asked for %s: %s", who.client, w.describe(s.load), m.Text)
	case m.Class == "lost" && w.loads[s.load].Kind == "multi": // one of them, while it waited for another
	case m.Class == "unknown" && slices.Contains([]string{"permit", "semaphore", "latch"}, w.loads[s.load].Kind): // when it set their number
	case !slices.Contains(expected, m.Class) && !slices.Contains(w.allowed, m.Class):
		w.note("client %d asked for %s, and got an error that nothing explains: %s", who.client, w.describe(s.load), m.Text)
	}
}

// unmet are the errors of those that have not met the others.
var unmet = []string{"missing", "broken", "vanished", "locked", "lost", "unreachable"}

// expected are the errors of callers that give up, or that cannot reach Redis.
var expected = []string{"locked", "permits", "context", "unreachable"}

func (w *witness) describe(load int) string {
	l := w.loads[load]
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", l.Kind, l.Name, strings.Join(l.Names, ",")))
}

func (w *witness) got(who place, s *seat, m torture.Message) (version int64) {
	now := torture.Now()
	if s.party != nil {
		s.party.passed, s.party.valid = now, m.At
		if s.party.load.Kind == "latch" {
			w.counted(s.load, s.party)
		}
	} else if w.calm != 0 {
		w.tally.wait = max(w.tally.wait, time.Duration(now-max(w.calm, s.waits)))
		s.served = true
	}
	w.tally.acquisitions++
	c := &section{place: who, load: s.load, start: m.At, last: m.At, asked: s.waits, came: now, token: m.Token, owner: m.Owner}
	w.waits = append(w.waits, waited{who, span{s.waits, now}, s.load})
	s.waits, s.section = 0, c
	w.sections = append(w.sections, c)
	load := w.loads[s.load]
	for _, thing := range things(load) {
		r := w.registers[thing]
		if r == nil {
			r = &register{}
			w.registers[thing] = r
		}
		if modeOf(load) == alone {
			r.opened = c
		}
		version = r.version
		if !load.Fenced {
			continue
		}
		switch {
		case m.Token <= 0:
			w.note("%s: client %d has token %d, which is none", thing, who.client, m.Token)
		case m.Token == r.newest && !w.forgot(r.by.came):
			w.note("%s: client %d has token %d, which client %d had before", thing, who.client, m.Token, r.by.client)
		case m.Token > r.newest:
			r.newest, r.by = m.Token, c
		}
	}
	return version
}

// forgot reports whether Redis has forgotten since then what it had confirmed.
func (w *witness) forgot(since int64) bool {
	return slices.ContainsFunc(w.faults, func(f span) bool { return f.to >= since-int64(w.ttl) })
}

func (w *witness) write(c *section, m torture.Message) (refused bool) {
	load := w.loads[c.load]
	if modeOf(load) != alone {
		return false
	}
	for _, thing := range things(load) {
		r := w.registers[thing]
		stale := r.opened != c
		if load.Fenced {
			refused = m.Token < r.newest
			if !refused && m.Version != r.version && !w.forgot(c.came) { // two may have had one token
				w.note("%s: client %d wrote with token %d, and nothing refused it: an update is lost", thing, c.client, m.Token)
			}
		}
		switch {
		case stale && !m.Careless:
			w.tally.late++
		case refused && m.Careless:
			w.tally.refused++
		}
		if stale && !refused {
			w.tally.unfenced++
		}
		if !refused {
			r.version++
		}
	}
	return refused
}

func (w *witness) end(s *seat, m torture.Message) {
	c := s.section
	s.section = nil
	c.last, c.ended = max(c.last, m.At), torture.Now()
	c.lost, c.noticed, c.class = m.Lost, m.Noticed, m.Class
	if s.party != nil {
		s.party.gone, s.party.class = c.ended, m.Class
		s.party = nil
	}
	if load := w.loads[c.load]; load.Kind == "semaphore" && m.Class != "" {
		w.unsure[load.Name]++
	}
	if m.Lost {
		w.tally.losses++
		w.tally.careful++ // all look at their context; the careless write nevertheless
	}
	if m.Bad == "" && strings.HasPrefix(m.Class, "bad") {
		m.Bad = m.Text
	}
	if m.Bad != "" {
		w.note("client %d had %s: %s", c.client, w.describe(c.load), m.Bad)
	}
}

// things returns what a load uses.
func things(l torture.Load) (names []string) {
	switch l.Kind {
	case "read", "write":
		return []string{"rw:" + l.Name}
	case "permit":
		return []string{"permits:" + l.Name}
	case "semaphore":
		return []string{"places:" + l.Name}
	case "double":
		return []string{"inside:" + l.Name}
	case "latch", "barrier": // nobody keeps them
		return nil
	case "redlock":
		return []string{"redlock:" + l.Name}
	case "election":
		return []string{"election:" + l.Name}
	case "group":
		for _, v := range l.Names {
			names = append(names, "group:"+l.Name+"#"+v)
		}
		return names
	case "multi":
		for _, n := range l.Names {
			names = append(names, "lock:"+n)
		}
		return names
	}
	return []string{"lock:" + l.Name}
}

func modeOf(l torture.Load) mode {
	switch l.Kind {
	case "read":
		return shared
	case "permit", "semaphore", "double", "latch", "barrier":
		return permit
	}
	return alone
}
