package mortisetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/minired"
	"github.com/mortise-go/mortise/memredis"
)

// Server is an embedded Redis whose faults all its clients suffer. Those that one client suffers
// are faults of its [Link]. All methods are safe for concurrent use; none of them waits for time
// to pass, except Settle.
//
// Scripts run one at a time, and the time of the server stands still while one runs, as in Redis.
type Server struct {
	mem     *memredis.Server
	mini    *miniredis.Miniredis
	backend driver.Driver // runs scripts for all links

	mu      sync.Mutex // guards the fields below; held while a script runs
	offset  time.Duration
	now     time.Time // the server's time, as of the last script
	writes  []write   // the last ones, the newest at the end
	current write     // what the script that runs has changed so far
	refusal string
	links   []*Link
	hits    map[Hit]int
	plan    *serverChaos
	after   func(script string)

	watchers []*History

	roads roads
}

// NewServer returns an empty server. Close it at the end. In a [testing/synctest] bubble, create
// and close it inside the bubble.
func NewServer() *Server {
	s := &Server{mem: memredis.New(), hits: make(map[Hit]int)}
	s.mini = minired.Take(s.mem)
	s.backend = s.mem.Driver()
	s.mini.Server().SetPreHook(s.beforeCommand)
	s.roads.closed = make(chan struct{})
	return s
}

// Link returns a new connection of one client to the server, without faults. Each mortise client
// needs a link of its own, which it closes: two clients that suffer the same faults are two links on
// which the test calls the same methods.
func (s *Server) Link() *Link {
	l := &Link{
		server: s, timeout: DefaultTimeout, cut: make(chan struct{}),
		calls: make(map[string]int), hits: make(map[Hit]int),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
	return l
}

// Close ends the server. Calls and messages that are under way are lost.
func (s *Server) Close() {
	s.roads.close()
	_ = s.backend.Close()
	s.mem.Close()
}

// Settle returns when no call and no message is under way: all that were late have arrived. It
// waits for ever for those that a frozen link holds back.
func (s *Server) Settle() { s.roads.settle() }

// Do runs one command on the server, such as "HGETALL", "job", without any fault. Only commands
// that a script may run can be used.
func (s *Server) Do(args ...string) (driver.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(args...)
}

var command = driver.NewScript("command", `return redis.call(unpack(ARGV))`)

func (s *Server) do(args ...string) (driver.Value, error) {
	return s.eval(driver.Call{Script: command, Args: args})
}

// Publish publishes a message, as any client of the server may.
func (s *Server) Publish(channel, payload string) { _, _ = s.Do("PUBLISH", channel, payload) }

// run runs scripts for a link.
func (s *Server) run(calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = s.serve(call)
	}
	return results
}

func (s *Server) serve(call driver.Call) (driver.Value, error) {
	s.mu.Lock()
	if reply := s.refusal; reply != "" {
		s.hits[Refused]++
		s.mu.Unlock()
		return driver.Value{}, refused(reply)
	}
	v, err := s.eval(call)
	fault, after := s.plan.draw(), s.after
	s.mu.Unlock()
	if after != nil {
		after(call.Script.Name())
	}
	if fault != nil {
		fault(s)
	}
	return v, err
}

// AfterEach has f called after each script that runs for a link, with its name, before the client
// gets the reply; nil ends that. F may cause faults of the server and of links: with a FailOver, the
// client gets a reply about what the server has forgotten. F may be called by several goroutines
// at once, and must not wait for a call of a client.
func (s *Server) AfterEach(f func(script string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

// eval runs a script at an instant of the server's time, and notes what it changes. It must be
// called with s.mu held.
func (s *Server) eval(call driver.Call) (driver.Value, error) {
	s.tick()
	s.current = make(write)
	v, err := s.backend.Eval(context.Background(), call)
	s.note()
	return v, err
}

func (s *Server) scan(ctx context.Context, match string) (keys []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != "" {
		return nil, refused(s.refusal)
	}
	s.tick()
	err = s.backend.(driver.Scanner).Scan(ctx, match, func(page []string) error {
		keys = append(keys, page...)
		return nil
	})
	return keys, err
}

// Hits returns how often each fault has occurred, those of all links included.
func (s *Server) Hits() map[Hit]int {
	s.mu.Lock()
	hits, links := maps.Clone(s.hits), slices.Clone(s.links)
	s.mu.Unlock()
	for _, l := range links {
		for hit, n := range l.Hits() {
			hits[hit] += n
		}
	}
	return hits
}
