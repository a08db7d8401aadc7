package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ReplyError is an error reply of Redis, as sent.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Conn is a plain connection to a server, to examine or disturb it without a client library. It
// is not safe for concurrent use.
type Conn struct {
	net net.Conn
	r   *bufio.Reader
}

// Dial connects to addr. With a password it authenticates as user, or as the
// default user if user is empty.
func Dial(addr, user, password string) (*Conn, error) {
	n, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, err
	}
	c := &Conn{net: n, r: bufio.NewReader(n)}
	if password == "" {
		return c, nil
	}
	auth := []string{"AUTH", password}
	if user != "" {
		auth = []string{"AUTH", user, password}
	}
	if _, err := c.Do(auth...); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.net.Close() } // nothing is lost by a failed close

// Do sends a command and returns its reply: nil, int64, string or []any. An
// error reply is returned as a ReplyError. It waits a minute at most.
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive(limit)
}

// Send writes a command and does not wait for the reply.
func (c *Conn) Send(args ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(limit))
	_, err := io.WriteString(c.net, b.String())
	return err
}

// Receive reads one reply, for at most that long.
func (c *Conn) Receive(most time.Duration) (any, error) {
	_ = c.net.SetReadDeadline(time.Now().Add(most))
	return c.read()
}

func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("redistest: empty line in a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, ReplyError(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		if kind == '*' {
			return c.readArray(n)
		}
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, buf); err != nil {
			return nil, err
		}
		return string(buf[:n]), nil
	}
	return nil, fmt.Errorf("redistest: unexpected reply %q", line)
}

func (c *Conn) readArray(n int) (any, error) {
	items := make([]any, n)
	for i := range items {
		v, err := c.read()
		var reply ReplyError
		if errors.As(err, &reply) {
			v, err = reply, nil // an error inside an array is a value
		}
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

// Do runs a command on the server's own administration connection.
func (s *Server) Do(args ...string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil, fmt.Errorf("redis-server %s does not run", s.Addr())
	}
	if s.admin == nil {
		c, err := Dial(s.Addr(), "", s.password)
		if err != nil {
			return nil, err
		}
		s.admin = c
	}
	v, err := s.admin.Do(args...)
	var reply ReplyError
	if err != nil && !errors.As(err, &reply) {
		s.admin.Close()
		s.admin = nil
	}
	return v, err
}

// Must is Do, and fails the test on an error.
func (s *Server) Must(t testing.TB, args ...string) any {
	t.Helper()
	v, err := s.Do(args...)
	if err != nil {
		t.Fatalf("redis-server %s: %s: %v", s.Addr(), strings.Join(args, " "), err)
	}
	return v
}

// Int is Must for commands that reply a number or the text of one.
func (s *Server) Int(t testing.TB, args ...string) int64 {
	t.Helper()
	switch v := s.Must(t, args...).(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	case nil:
		return 0
	}
	t.Fatalf("redis-server %s: %s does not reply a number", s.Addr(), strings.Join(args, " "))
	return 0
}

// Str is Must for commands that reply a string; nil becomes "".
func (s *Server) Str(t testing.TB, args ...string) string {
	t.Helper()
	v := s.Must(t, args...)
	if v == nil {
		return ""
	}
	str, ok := v.(string)
	if !ok {
		t.Fatalf("redis-server %s: %s replies %v, want a string", s.Addr(), strings.Join(args, " "), v)
	}
	return str
}

// Info returns one field of INFO section, "" if it is missing.
func (s *Server) Info(section, field string) (string, error) {
	v, err := s.Do("INFO", section)
	if err != nil {
		return "", err
	}
	return infoField(fmt.Sprint(v), field), nil
}

func (s *Server) wantInfo(section, field, want string) error {
	got, err := s.Info(section, field)
	if err == nil && got != want {
		err = fmt.Errorf("%s: %s is %q, want %q", s.Addr(), field, got, want)
	}
	return err
}

// infoField returns the value of field in a text of "field:value" lines.
func infoField(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// Subscribers returns how many connections of the server are in pub/sub mode.
func (s *Server) Subscribers(t testing.TB) int {
	t.Helper()
	return strings.Count(s.Str(t, "CLIENT", "LIST", "TYPE", "pubsub"), "id=")
}
