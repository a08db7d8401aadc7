package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate lies between one client and a server, sees each script go by, and closes at one of them: before
// the server gets it, or when the server has run it and nothing of the reply has passed.
type gate struct {
	listener net.Listener
	server   string
	passes   func(sha string) bool // false: the gate closes at this script
	after    bool
	slam     func() // called when the gate closes

	running sync.WaitGroup
	mu      sync.Mutex // guards the fields below
	closed  bool
	conns   []net.Conn
}

// newGate opens a gate. It is closed at the end of the test at the latest.
func newGate(t *testing.T, server string, after bool, passes func(sha string) bool, slam func()) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, server: server, after: after, passes: passes, slam: slam}
	g.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", g.server)
			if err != nil || !g.keep(client, server) {
				_ = client.Close()
				continue
			}
			replies := &replies{client: client}
			g.running.Go(func() { g.forward(client, server, replies) })
			g.running.Go(func() {
				_, _ = io.Copy(replies, server)
				_ = client.Close()
			})
		}
	})
	t.Cleanup(g.close)
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// keep notes connections to close, and reports whether the gate is open.
func (g *gate) keep(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, conns...)
	return !g.closed
}

// shut closes the gate. It reports whether this call has done so.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.closed
	g.closed = true
	return !was
}

func (g *gate) close() {
	g.shut()
	_ = g.listener.Close()
	g.mu.Lock()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.running.Wait()
}

// forward passes commands on, one by one.
func (g *gate) forward(client, server net.Conn, replies *replies) {
	defer server.Close()
	in := bufio.NewReader(client)
	for {
		text, name, sha, err := command(in)
		if err != nil {
			return
		}
		script := strings.EqualFold(name, "EVALSHA")
		if script && !g.passes(sha) && g.shut() {
			if g.after {
				ran := replies.hold()
				_, _ = server.Write(text)
				select {
				case <-ran:
				case <-time.After(5 * time.Second): // the server has closed the connection
				}
			}
			g.slam()
			return
		}
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if closed && script { // it went by while the client was killed
			return
		}
		if _, err := server.Write(text); err != nil {
			return
		}
	}
}

// command reads a command as it was sent, its name and its first argument.
func command(in *bufio.Reader) (text []byte, name, first string, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil || len(line) < 3 || line[0] != '*' {
		return nil, "", "", fmt.Errorf("no command: %q, %w", line, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil {
		return nil, "", "", err
	}
	text = line
	for i := range n {
		length, err := in.ReadBytes('\n')
		if err != nil || length[0] != '$' {
			return nil, "", "", fmt.Errorf("no argument: %q, %w", length, err)
		}
		size, err := strconv.Atoi(strings.TrimSpace(string(length[1:])))
		if err != nil {
			return nil, "", "", err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, "", "", err
		}
		text = append(append(text, length...), arg...)
		switch i {
		case 0:
			name = string(arg[:size])
		case 1:
			first = string(arg[:size])
		}
	}
	return text, name, first, nil
}

// replies passes on what a server says, until it holds it back.
type replies struct {
	client net.Conn
	mu     sync.Mutex // guards the field below
	ran    chan struct{}
}

// hold keeps back all that comes from now on. The returned channel is closed when something has.
func (r *replies) hold() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = make(chan struct{})
	return r.ran
}

func (r *replies) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ran == nil {
		return r.client.Write(p)
	}
	select {
	case <-r.ran:
	default:
		close(r.ran)
	}
	return len(p), nil
}
