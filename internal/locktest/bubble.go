package locktest

import (
	"bufio"
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	_ "github.com/mortise-go/mortise/internal/minired/lean" // most tests with the embedded server are in bubbles
	"github.com/mortise-go/mortise/internal/resp"
	"github.com/mortise-go/mortise/memredis"
)

// Goroutines returns how many goroutines there are. [runtime.NumGoroutine] counts one more for
// each that has returned, but has not been put away yet; synctest.Wait does not wait for that.
func Goroutines() int {
	stacks := make([]byte, 1<<16)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			return 1 + bytes.Count(stacks[:n], []byte("\n\ngoroutine "))
		}
		stacks = make([]byte, 2*len(stacks))
	}
}

// Bubble runs f in virtual time, with an embedded Redis inside. The bubble itself fails the test
// if a goroutine is left after the cleanups of f. It runs in parallel with other tests.
func Bubble(t *testing.T, f func(t *testing.T, s *memredis.Server)) {
	t.Helper()
	t.Parallel()
	Alone(t, f)
}

// Alone is Bubble for a test that must not run in parallel with others, because it changes or examines
// something that belongs to the whole process.
func Alone(t *testing.T, f func(t *testing.T, s *memredis.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		t.Cleanup(s.Close) // after the cleanups of f
		f(t, s)
	})
}

// Open returns a client on s that is closed when the test ends, and its driver, which can inject
// faults.
func Open(t *testing.T, s *memredis.Server, options *mortise.Options) (*mortise.Client, *Faults) {
	t.Helper()
	f := &Faults{Driver: s.Driver()}
	c := mortise.New(f, options)
	t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
	return c, f
}

// Do sends one command to the embedded server.
func Do(t *testing.T, s *memredis.Server, args ...string) driver.Value {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(resp.Append(nil, args...)); err != nil {
		t.Fatal(err)
	}
	v, err := resp.Read(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Several runs f in virtual time with n independent servers, in parallel with other tests.
func Several(t *testing.T, n int, f func(t *testing.T, servers []*memredis.Server)) {
	t.Helper()
	t.Parallel()
	SeveralAlone(t, n, f)
}

// SeveralAlone is to Several what Alone is to Bubble.
func SeveralAlone(t *testing.T, n int, f func(t *testing.T, servers []*memredis.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var servers []*memredis.Server
		for range n {
			s := memredis.New()
			t.Cleanup(s.Close)
			servers = append(servers, s)
		}
		f(t, servers)
	})
}
