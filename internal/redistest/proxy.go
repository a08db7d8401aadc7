package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy sits between a client and a server and fails the way networks do. It is safe for
// concurrent use.
type Proxy struct {
	addr string

	mu       sync.Mutex // guards the fields below
	upstream string
	listener net.Listener
	links    map[*link]struct{}
	stalled  [2]bool       // by direction: all links hold back what they read
	changed  chan struct{} // closed and replaced when links must look again
	delay    time.Duration
	lose     []byte // a request that contains it loses its reply
	loseIn   int    // requests with lose still to let pass, plus one
	lost     chan struct{}
	closed   bool

	running sync.WaitGroup
}

// Direction is a way through a Proxy.
type Direction int

// The ways through a Proxy.
const (
	Requests Direction = iota // from the client to the server
	Replies                   // from the server to the client
)

// link is one client connection and its connection to the server.
type link struct {
	client, server net.Conn
	stranded       bool            // silent forever; guarded by Proxy.mu
	marked         chan<- struct{} // closed when its next reply is lost; nil if none will be; guarded by Proxy.mu
	gone           chan struct{}
	once           sync.Once
}

func (l *link) close() {
	l.once.Do(func() { close(l.gone) })
	_, _ = l.client.Close(), l.server.Close() // their errors do not matter any more
}

// NewProxy starts a proxy for the server at upstream, until the end of the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := StartProxy(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// StartProxy starts a proxy for the server at upstream, until Close.
func StartProxy(upstream string) (*Proxy, error) {
	l, err := ListenLow()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{upstream: upstream, addr: l.Addr().String(), listener: l, links: map[*link]struct{}{}, changed: make(chan struct{})}
	p.accept(l)
	return p, nil
}

// Close closes all connections and returns when the proxy has ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.CutAll()
	p.running.Wait()
}

// Retarget makes the proxy connect to another server from now on.
func (p *Proxy) Retarget(upstream string) { p.change(func() { p.upstream = upstream }) }

// Addr returns the address for clients.
func (p *Proxy) Addr() string { return p.addr }

func (p *Proxy) accept(l net.Listener) {
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // Refuse has closed the listener
			}
			p.mu.Lock()
			upstream := p.upstream
			p.mu.Unlock()
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			k := &link{client: client, server: server, gone: make(chan struct{})}
			p.mu.Lock()
			p.links[k] = struct{}{}
			if p.closed || p.upstream != upstream { // it connected to the former server meanwhile
				k.close()
			}
			p.mu.Unlock()
			p.running.Go(func() { p.forward(k, Requests, server, client) })
			p.running.Go(func() { p.forward(k, Replies, client, server) })
		}
	})
}

// forward copies one direction of a link until either end closes.
func (p *Proxy) forward(k *link, d Direction, dst, src net.Conn) {
	defer func() {
		k.close()
		p.mu.Lock()
		delete(p.links, k)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	var seen []byte // the end of what was read before, for a match across reads
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if !p.pass(k, d) {
				return
			}
			if d == Requests {
				seen = p.mark(k, append(seen, buf[:n]...))
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			// The end of one direction ends the link only when it may pass.
			if errors.Is(err, io.EOF) {
				p.pass(k, d)
			}
			return
		}
	}
}

// pass holds data back for as long as the proxy is stalled, and reports whether the link may go
// on.
func (p *Proxy) pass(k *link, d Direction) bool {
	for {
		p.mu.Lock()
		stalled, changed, delay := p.stalled[d] || k.stranded, p.changed, p.delay
		if !stalled && d == Replies && k.marked != nil {
			close(k.marked)
			k.marked = nil
			p.mu.Unlock()
			return false
		}
		p.mu.Unlock()
		if !stalled {
			if delay > 0 {
				select {
				case <-time.After(delay):
				case <-k.gone:
				}
			}
			return true
		}
		select {
		case <-changed:
		case <-k.gone:
			return false
		}
	}
}

// mark searches requests for the one whose reply the proxy loses, and returns the part that must
// be kept for the next search.
func (p *Proxy) mark(k *link, requests []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.loseIn > 0 {
		i := bytes.Index(requests, p.lose)
		if i < 0 {
			return bytes.Clone(requests[max(0, len(requests)-len(p.lose)+1):])
		}
		requests = requests[i+len(p.lose):]
		if p.loseIn--; p.loseIn == 0 {
			k.marked = p.lost
		}
	}
	return nil
}

// LoseReply makes the n-th request from now on that contains text lose its reply: the request
// goes to the server, and when the server has answered, the connection is cut. The returned
// channel is closed then. The client must not have other unanswered requests on that connection.
func (p *Proxy) LoseReply(text string, n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.loseIn, p.lost = []byte(text), n, make(chan struct{})
	return p.lost
}

// Stall makes the proxy hold back what it reads in the given directions, on all connections, old
// and new. They stay open.
func (p *Proxy) Stall(directions ...Direction) {
	p.change(func() {
		for _, d := range directions {
			p.stalled[d] = true
		}
	})
}

// Flow ends Stall. What was held back is forwarded.
func (p *Proxy) Flow() { p.change(func() { p.stalled = [2]bool{} }) }

// Strand makes the present connections silent forever, in both directions, without closing them,
// as when a firewall has forgotten them. New ones work.
func (p *Proxy) Strand() {
	p.change(func() {
		for k := range p.links {
			k.stranded = true
		}
	})
}

// CutStranded closes the connections that Strand has made silent, as when a server gives them up.
func (p *Proxy) CutStranded() {
	p.cut(func(k *link) bool { return k.stranded })
}

// Delay adds a delay to everything that is forwarded from now on.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// CutAll closes all present connections.
func (p *Proxy) CutAll() { p.cut(func(*link) bool { return true }) }

// CutFrom closes the connection that comes from the given address, as the server sees it, such as
// in its CLIENT LIST. It reports whether there was one.
func (p *Proxy) CutFrom(addr string) (found bool) {
	p.cut(func(k *link) bool {
		here := k.server.LocalAddr().String() == addr
		found = found || here
		return here
	})
	return found
}

// cut closes the connections for which which returns true; it is called with p.mu held.
func (p *Proxy) cut(which func(*link) bool) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for k := range p.links {
		if which(k) {
			links = append(links, k)
		}
	}
	p.mu.Unlock()
	for _, k := range links {
		k.close()
	}
}

// Refuse makes the system refuse new connections. Present ones stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.Close() // a failure would not matter here
	}
}

// Accept ends Refuse.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	if err := p.Reopen(); err != nil {
		t.Fatal(err)
	}
}

// Reopen ends Refuse.
func (p *Proxy) Reopen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("proxy: listen again: %w", err)
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.accept(l)
	return nil
}

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}
