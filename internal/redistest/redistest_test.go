//go:build server

package redistest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/leaks"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func TestSingleRestartsEmptyOnTheSamePort(t *testing.T) {
	s := Single(t, "--requirepass", "secret")
	addr := s.Addr()
	s.Must(t, "SET", "k", "v")
	s.Restart(t)
	if got := s.Must(t, "GET", "k"); got != nil || s.Addr() != addr {
		t.Fatalf("after a restart: k = %v at %s, want nothing at %s", got, s.Addr(), addr)
	}
	if _, err := Dial(addr, "", "wrong"); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		t.Fatalf("wrong password: %v, want WRONGPASS", err)
	}
	s.Stop()
	if _, err := Dial(addr, "", ""); err == nil {
		t.Fatal("a stopped server accepts connections")
	}
}

func TestPausedServerIsSilentUntilResumed(t *testing.T) {
	s := Single(t)
	c, err := Dial(s.Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Pause(t)
	if err := c.Send("PING"); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Receive(50 * time.Millisecond); err == nil {
		t.Fatalf("a paused server answers %v", v)
	}
	s.Resume(t)
	if v, err := c.Receive(limit); v != "PONG" {
		t.Fatalf("after Resume: %v, %v, want %q", v, err, "PONG")
	}
}

func TestProxy(t *testing.T) {
	s := Single(t)
	p := NewProxy(t, s.Addr())

	t.Run("loses the reply and not the request", func(t *testing.T) { proxyLosesReply(t, s, p) })
	t.Run("stalls replies and lets them flow again", func(t *testing.T) { proxyStalls(t, s, p) })
	t.Run("strands what is open and serves what is new", func(t *testing.T) { proxyStrands(t, p) })
	t.Run("loses each reply for itself", func(t *testing.T) { proxyLosesEach(t, s, p) })
	t.Run("cuts what is stranded, and takes another server", func(t *testing.T) { proxyCutsStranded(t, s, p) })
	t.Run("refuses and accepts", func(t *testing.T) {
		p.Refuse()
		if _, err := Dial(p.Addr(), "", ""); err == nil {
			t.Fatal("a refusing proxy was dialled")
		}
		p.Accept(t)
		c := dial(t, p)
		if v, err := c.Do("PING"); v != "PONG" {
			t.Fatalf("got %v, %v, want %q", v, err, "PONG")
		}
		p.CutAll()
		if v, err := c.Do("PING"); err == nil {
			t.Fatalf("a cut connection passed %v", v)
		}
	})
}

// dial connects through the proxy.
func dial(t *testing.T, p *Proxy) *Conn {
	c, err := Dial(p.Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func proxyLosesReply(t *testing.T, s *Server, p *Proxy) {
	c := dial(t, p)
	lost := p.LoseReply("INCR", 2)
	if v, err := c.Do("INCR", "n"); v != int64(1) {
		t.Fatalf("got %v, %v, want %v", v, err, int64(1))
	}
	if v, err := c.Do("INCR", "n"); !errors.Is(err, io.EOF) {
		t.Fatalf("the second reply: %v, %v, want EOF", v, err)
	}
	<-lost
	if got := s.Int(t, "GET", "n"); got != 2 {
		t.Fatalf("the server counts %d, want 2", got)
	}
	if v, err := dial(t, p).Do("INCR", "n"); v != int64(3) {
		t.Fatal("later replies must pass:", v, err)
	}
}

func proxyStalls(t *testing.T, s *Server, p *Proxy) {
	c := dial(t, p)
	p.Stall(Replies)
	if err := c.Send("SET", "s", "1"); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "request arrived", func() error {
		if v, _ := s.Do("GET", "s"); v != "1" {
			return fmt.Errorf("s is %v", v)
		}
		return nil
	})
	if v, err := c.Receive(20 * time.Millisecond); err == nil {
		t.Fatalf("a stalled proxy passed %v", v)
	}
	p.Flow()
	if v, err := c.Receive(limit); v != "OK" {
		t.Fatalf("got %v, %v, want %q", v, err, "OK")
	}
}

// A reply that is still on its way when another one is to be lost is lost for itself.
func proxyLosesEach(t *testing.T, s *Server, p *Proxy) {
	c, other := dial(t, p), dial(t, p)
	p.Stall(Replies)
	first := p.LoseReply("first", 1)
	for i, c := range []*Conn{c, other} {
		key := []string{"first", "second"}[i]
		if err := c.Send("SET", key, "1"); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "request arrived", func() error {
			if v, _ := s.Do("GET", key); v != "1" {
				return fmt.Errorf("%s is %v", key, v)
			}
			return nil
		})
		if i == 0 {
			p.LoseReply("second", 1)
		}
	}
	p.Flow()
	<-first
	for _, c := range []*Conn{c, other} {
		if v, err := c.Receive(limit); err == nil {
			t.Fatalf("got %v, want no reply", v)
		}
	}
}

// Connections that were silent are closed, others go on; new ones go to another server.
func proxyCutsStranded(t *testing.T, s *Server, p *Proxy) {
	c := dial(t, p)
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	p.Strand()
	fresh := dial(t, p)
	if _, err := fresh.Do("PING"); err != nil {
		t.Fatal(err)
	}
	p.CutStranded()
	if v, err := c.Receive(limit); err == nil {
		t.Fatalf("got %v, want that the connection is closed", v)
	}
	if _, err := fresh.Do("PING"); err != nil {
		t.Fatal(err)
	}
	another := Single(t)
	p.Retarget(another.Addr())
	defer p.Retarget(s.Addr())
	if _, err := dial(t, p).Do("SET", "there", "1"); err != nil {
		t.Fatal(err)
	}
	if got := another.Str(t, "GET", "there"); got != "1" {
		t.Fatalf("the other server has %q, want what was written through the proxy", got)
	}
}

func proxyStrands(t *testing.T, p *Proxy) {
	c := dial(t, p)
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	p.Strand()
	if err := c.Send("PING"); err != nil {
		t.Fatal(err)
	}
	if v, err := dial(t, p).Do("PING"); v != "PONG" {
		t.Fatalf("got %v, %v, want %q", v, err, "PONG")
	}
	if v, err := c.Receive(20 * time.Millisecond); err == nil {
		t.Fatalf("a stranded connection passed %v", v)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	set := Sentinel(t, 1)
	old := set.Master(t)
	old.Must(t, "SET", "k", "v")
	old.Must(t, "WAIT", "1", "5000")
	promoted := set.Failover(t)
	if got := promoted.Str(t, "GET", "k"); promoted == old || got != "v" {
		t.Fatalf("the new master %s has k = %q, want v", promoted.Addr(), got)
	}
	old.StartAsReplica(t, promoted)
	if _, err := old.Do("SET", "k", "w"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Fatalf("the old master is not a replica: %v", err)
	}
}

func TestClusterMovesSlots(t *testing.T) {
	c := Cluster(t, 0)
	from, to := c.Masters[0], c.Masters[1]
	key := c.KeyOn(t, from, "k")
	from.Must(t, "SET", key, "v")
	c.MoveSlot(t, c.Slot(t, key), from, to)
	if got := to.Str(t, "GET", key); got != "v" {
		t.Fatalf("the new owner has %q, want v", got)
	}
	if _, err := from.Do("GET", key); err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
		t.Fatalf("the old owner answers %v, want MOVED", err)
	}
	if got := c.Owner(t, key); got != to {
		t.Fatalf("the owner is %s, want %s", got.Addr(), to.Addr())
	}
}
