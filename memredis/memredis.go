// Package memredis is an embedded Redis: a real server in the memory of the process, for tests,
// demonstrations and experiments.
//
// It runs miniredis with a clock, so that leases end on their own as they do on a real server. It
// is not for production: it stores nothing on disk and replicates nothing. A request
// through [Server.Driver] takes about as long as with a Redis on the same machine; the scripts of
// other clients take many times longer.
//
// Tests of code that uses mortise need neither a Redis server nor a port:
//
//	server := memredis.New()
//	defer server.Close()
//	client := mortise.New(server.Driver(), nil)
//	defer client.Close()
//
// Inside a [testing/synctest] bubble the server's time is the bubble's, so a test that waits for
// the end of a lease of hours takes no real time. Create the server and the client inside the
// bubble, and close both before it ends.
//
// Package mortisetest has the same server with faults: lost replies, partitions, failovers.
package memredis

import (
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/minired"
)

// Server is an embedded Redis. Its methods are safe for concurrent use.
//
// Scripts run one at a time, and the time of the server stands still while one runs, as in Redis.
type Server struct {
	mini    *miniredis.Miniredis
	clock   clock
	scripts *scripts // used with mini locked

	mu     sync.Mutex // guards closed; held while a connection is added
	closed bool
}

var errServerClosed = errors.New("the embedded Redis is closed")

// New returns an embedded Redis that cannot be reached from outside the process. Connect to it with
// [Server.Driver] or [Server.Dial], and close it at the end.
func New() *Server {
	s, _ := start(func(mini *miniredis.Miniredis) error {
		c, err := mini.Dial() // the first connection starts miniredis; it cannot fail
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return s
}

// Listen returns an embedded Redis that accepts connections of any Redis client on the TCP address
// addr, such as "127.0.0.1:6379", or "127.0.0.1:0" for a free port. There is no password: listen on
// loopback only.
func Listen(addr string) (*Server, error) {
	return start(func(mini *miniredis.Miniredis) error { return mini.StartAddr(addr) })
}

// start returns a server once f has started its miniredis.
func start(f func(*miniredis.Miniredis) error) (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	mini.SetError("LOADING the embedded Redis is starting") // until there is the hook
	if err := f(mini); err != nil {
		return nil, err
	}
	s := &Server{mini: mini, clock: clock{mini: mini}}
	s.scripts = newScripts(mini.Server(), contextOfScripts(mini.Server()))
	mini.Server().SetPreHook(s.beforeCommand)
	return s, nil
}

// beforeCommand is called before each command of a connection, and of a script. It returns true if
// the command is answered, or refused.
func (s *Server) beforeCommand(c *server.Peer, command string, args ...string) bool {
	s.clock.beforeCommand(c)
	return introduce(c, command, args...) || refusePatterns(c, command, args...)
}

// introduce answers INFO server, which miniredis does not know: the doctor has to know that nothing is to be examined here
// that makes a server fit for production.
func introduce(c *server.Peer, command string, args ...string) bool {
	if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
		return false
	}
	c.WriteBulk("# Server\r\nserver_name:mortise\r\n")
	return true
}

// run runs a script at an instant of the server's time.
func (s *Server) run(call driver.Call) (driver.Value, error) {
	s.clock.set()
	s.mini.Lock()
	defer s.mini.Unlock()
	return s.scripts.run(call)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Addr returns the address that the server listens on. It must not be called if the server does not
// listen.
func (s *Server) Addr() string { return s.mini.Addr() }

// Dial returns a new connection to the server, in memory. It fits the dialer option of a Redis
// client; the client must speak RESP2 (AlwaysRESP2 in rueidis, Protocol: 2 in go-redis). It fails
// if the server is closed.
func (s *Server) Dial() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errServerClosed // miniredis would start again, with its old data
	}
	return s.mini.Dial()
}

// Driver returns a new driver for mortise.New, connected to the server in memory. Each mortise
// client needs a driver of its own.
func (s *Server) Driver() driver.Driver { return &embedded{server: s} }

// Close ends the server and its connections, permanently. It returns when they have ended.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.mini.Close()
}

// Faults are for tests: package mortisetest has them.
func init() {
	minired.Take = func(server any) *miniredis.Miniredis {
		s := server.(*Server)
		s.clock.taken = true
		return s.mini
	}
	minired.Refuse = refusePatterns
}
