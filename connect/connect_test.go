package connect

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/leaks"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// A closed cluster client still waits for a refresh that it has scheduled.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
	)
}

// open opens a URL that must work, and makes a call.
func open(t *testing.T, url string) driver.Driver {
	t.Helper()
	d, err := Open(t.Context(), url)
	if err != nil {
		t.Fatalf("Open(%s): %v", Redact(url), err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	set := driver.Call{Script: driver.NewScript("set", `redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])`),
		Keys: []string{"connect"}, Args: []string{url}}
	if v, err := d.Eval(t.Context(), set); err != nil || v.Str() != url {
		t.Fatalf("Eval: %v, %v", v, err)
	}
	found := false
	err = d.(driver.Scanner).Scan(t.Context(), "conn*", func(keys []string) error { found = true; return nil })
	if err != nil || !found {
		t.Errorf("Scan finds the key: %v, %v", found, err)
	}
	return d
}

func TestOpenEmbedded(t *testing.T) {
	a, b := open(t, "mem://"), open(t, "mem://")
	get := driver.Call{Script: driver.NewScript("incr", `return redis.call('INCR', KEYS[1])`), Keys: []string{"n"}}
	for _, d := range []driver.Driver{a, b} {
		if v, err := d.Eval(t.Context(), get); err != nil || v.Int() != 1 {
			t.Errorf("n = %v, %v: want a server of its own for each", v, err)
		}
	}
}

// refused opens a URL that must fail with a class, and without secrets.
func refused(t *testing.T, ctx context.Context, url string, class driver.Class, texts ...string) {
	t.Helper()
	d, err := Open(ctx, url)
	if err == nil {
		d.Close()
		t.Errorf("Open(%s) succeeds", url)
		return
	}
	if driver.ClassOf(err) != class {
		t.Errorf("Open(%s): %v has class %v, want %v", url, err, driver.ClassOf(err), class)
	}
	sentinels := map[driver.Class]error{driver.NotSent: mortise.ErrUnreachable, driver.Denied: mortise.ErrDenied, driver.Other: mortise.ErrInvalid}
	for of, sentinel := range sentinels {
		if errors.Is(err, sentinel) != (of == class) {
			t.Errorf("Open(%s): %v, which matches %q: %v", url, err, sentinel, of != class)
		}
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("Open(%s): %v, want %q in it", url, err, text)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Open(%s): the error shows the password: %v", url, err)
	}
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "context")) {
		t.Errorf("Open(%s): %v, which speaks of the caller's context", url, err)
	}
}

// silentServer returns the address of a server that accepts and stays silent.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // connections stay in the backlog
	return l.Addr().String()
}

// abandoned opens URLs of a silent server with a context that ends soon, and then Open must end, too. It tells
// how long each took.
func abandoned(t *testing.T, addr string, took func(time.Duration)) {
	t.Helper()
	for _, url := range []string{"redis://" + addr, "rediss://" + addr, "redis+cluster://" + addr, "redis-sentinel://" + addr + "?master=m"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		d, err := Open(ctx, url)
		took(time.Since(start))
		cancel()
		if err == nil {
			d.Close()
			t.Fatalf("%s: connected to a silent server", url)
		}
		if driver.ClassOf(err) != driver.NotSent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, class %v", url, err, driver.ClassOf(err))
		}
	}
}

// A server that accepts and stays silent must not delay Open beyond ctx, and nothing may be left behind.
func TestOpenSilentServer(t *testing.T) {
	abandoned(t, silentServer(t), func(time.Duration) {})
}

// A server that turns clients away closes the connection at once. Its reason is the error.
func TestOpenTurnedAway(t *testing.T) {
	for reply, class := range map[string]driver.Class{
		"ERR max number of clients reached":                                                     driver.Passing,
		"DENIED Redis is running in protected mode because protected mode is enabled and so on": driver.Denied,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("-" + reply + "\r\n"))
				conn.Close()
			}
		}()
		for range 5 { // the client may write before or after the end
			_, err = Open(t.Context(), "redis://"+l.Addr().String())
			if err == nil || driver.ClassOf(err) != class || !strings.HasSuffix(err.Error(), ": "+reply) {
				t.Errorf("Open: %v, class %v, want %v and the reason %q", err, driver.ClassOf(err), class, reply)
			}
		}
		l.Close()
		<-done
	}
}

// A server that is full says so, and closes the connection, before the client has written anything.
func TestWriteToAServerThatTurnsAway(t *testing.T) {
	for said, want := range map[string]string{
		"-ERR max number of clients reached\r\n": "ERR max number of clients reached",
		"+PONG\r\n":                              "broken pipe",
		"":                                       "broken pipe",
	} {
		m := &mortal{Conn: &closedConn{said: strings.NewReader(said)}}
		if _, err := m.Write([]byte("HELLO")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %q: %v, want %s", said, err, want)
		}
	}
}

// closedConn is a connection that the other side has closed after it has said something.
type closedConn struct {
	net.Conn
	said *strings.Reader
}

func (c *closedConn) Write([]byte) (int, error)       { return 0, syscall.EPIPE }
func (c *closedConn) Read(p []byte) (int, error)      { return c.said.Read(p) }
func (c *closedConn) SetReadDeadline(time.Time) error { return nil }
