package torture

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

const (
	// recordMost is how many commands of a server are kept, and showMost how many of these are
	// shown for one overlap.
	recordMost, showMost = 20000, 80
	// recordWords is how much of a command is kept.
	recordWords = 400
)

// recorder keeps the last commands that the servers of a round have run, so that two holders at
// once come with what Redis did for them: the clients cannot tell.
type recorder struct {
	mu      sync.Mutex // guards the fields below
	servers map[string][]executed
	conns   map[*redistest.Conn]struct{}
	ended   bool

	clock *wallClock
}

// executed is what MONITOR showed of a command, and when.
type executed struct {
	at   int64 // of torture.Now, when it was read
	text string
}

// record starts to record what servers do, until the end of the test.
func record(t *testing.T, servers []*redistest.Server) *recorder {
	t.Helper()
	c := &recorder{servers: map[string][]executed{}, conns: map[*redistest.Conn]struct{}{}, clock: watchWallClock(t)}
	var running sync.WaitGroup
	for _, s := range servers {
		running.Go(func() { c.follow(s.Addr()) })
	}
	t.Cleanup(func() {
		c.mu.Lock()
		c.ended = true
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		running.Wait()
	})
	return c
}

// follow records one server. The connection ends with the faults that end all others.
func (c *recorder) follow(addr string) {
	for {
		conn, err := redistest.Dial(addr, "", "")
		if err == nil {
			if !c.watch(conn, true) {
				conn.Close()
				return
			}
			c.read(conn, addr)
			conn.Close()
		}
		if !c.watch(conn, false) {
			return
		}
		time.Sleep(20 * time.Millisecond) // the server may be down
	}
}

// watch notes that a connection is open, or not any more, and reports whether the round goes on.
func (c *recorder) watch(conn *redistest.Conn, open bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	if open && !c.ended {
		c.conns[conn] = struct{}{}
	}
	return !c.ended
}

// read records what a connection shows until it ends.
func (c *recorder) read(conn *redistest.Conn, addr string) {
	if _, err := conn.Do("MONITOR"); err != nil {
		return
	}
	for {
		line, err := conn.Receive(time.Hour)
		if err != nil {
			return
		}
		c.note(addr, fmt.Sprint(line))
	}
}

func (c *recorder) note(addr, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers[addr]) == recordMost {
		c.servers[addr] = append(c.servers[addr][:0], c.servers[addr][recordMost/2:]...)
	}
	c.servers[addr] = append(c.servers[addr], executed{torture.Now(), text[:min(len(text), recordWords)]})
}

// show returns what the servers did about a name in a span, and in the time of a lease before it, and whether
// the clock by which they end leases was set then.
func (c *recorder) show(name string, s span, ttl time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for addr, commands := range c.servers {
		var shown []string
		for _, m := range commands {
			if m.at >= s.from-int64(ttl) && m.at <= s.to && strings.Contains(m.text, name) {
				shown = append(shown, fmt.Sprintf("\n        %s at %+v: %s", addr, time.Duration(m.at-s.from).Round(time.Microsecond), m.text))
			}
		}
		if left := len(shown) - showMost; left > 0 {
			fmt.Fprintf(&all, "\n        %s: %d commands before these", addr, left)
			shown = shown[left:]
		}
		all.WriteString(strings.Join(shown, ""))
	}
	if all.Len() == 0 {
		all.WriteString("\n        no server has run a command about " + name)
	}
	return c.clock.show(s, ttl) + all.String()
}
