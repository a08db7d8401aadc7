package memredis_test

import (
	"bufio"
	"errors"
	"net"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
	"github.com/mortise-go/mortise/memredis"
)

// A pattern that is none, or that miniredis cannot read, ends neither the server nor its process.
func TestPatternsThatAreNone(t *testing.T) {
	s, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	inside := memredis.New()
	defer inside.Close()
	bad := []string{"\xff", "[z-a]", "[^]", "[[:x:]]", `[\p]`, `\\E(`, "a[\x83"}
	for name, dial := range map[string]func() (net.Conn, error){
		"listening": func() (net.Conn, error) { return net.Dial("tcp", s.Addr()) },
		"inside":    inside.Dial,
	} {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c := newLine(conn)
		for _, pattern := range append(bad, "*", "[a-z]?", "x[") {
			for _, command := range [][]string{{"KEYS", pattern}, {"SCAN", "0", "MATCH", pattern}, {"PUBSUB", "CHANNELS", pattern}} {
				c.do(t, command...) // and the server replies
			}
		}
		if got := c.do(t, "ECHO", "here"); got != "here" {
			t.Errorf("%s: the server says %q", name, got)
		}
	}
	d := inside.Driver()
	defer d.Close()
	for _, pattern := range bad {
		err := d.(driver.Scanner).Scan(t.Context(), pattern, func([]string) error { return nil })
		if err == nil || driver.ClassOf(err) != driver.Other {
			t.Errorf("Scan of %q: %v, want a refusal", pattern, err)
		}
	}
}

// line sends commands and reads their replies.
type line struct {
	conn net.Conn
	r    *bufio.Reader
}

func newLine(conn net.Conn) line { return line{conn, bufio.NewReader(conn)} }

// do returns the reply, as text.
func (l line) do(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := l.conn.Write(resp.Append(nil, args...)); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	v, err := resp.Read(l.r)
	if _, refused := errors.AsType[resp.ReplyError](err); err != nil && !refused {
		t.Fatalf("%q: %v", args, err)
	}
	return v.Str()
}
