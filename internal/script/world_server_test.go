//go:build server

package script_test

import (
	"net"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// single starts a server for everywhere.
func single(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Single(t, args...)
}

// onServer runs f as a test with server.
func onServer(t *testing.T, name string, server *redistest.Server, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { f(t, realWorld(t, server)) })
}

// parallel does nothing: the tests of a table share a server.
func parallel(*testing.T) {}

// publishers are the commands with which messages are sent.
func publishers(t *testing.T) []string {
	if !redistest.Sharded(t) {
		return []string{"publish"}
	}
	return []string{"publish", "spublish"}
}

// realWorld empties server.
func realWorld(t *testing.T, server *redistest.Server) *world {
	t.Helper()
	w := newWorld(t, nil, func() net.Conn {
		c, err := net.Dial("tcp", server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
	w.must(t, "FLUSHALL")
	return w
}

// without returns the options with which a server does not know a command that came with Redis 7.0.
func without(t *testing.T, command string) []string {
	t.Helper()
	if !redistest.Sharded(t) {
		return nil
	}
	return []string{"--rename-command", command, ""}
}

// fuzzServer returns a connection to a server of its own for a fuzz target.
func fuzzServer(f *testing.F) net.Conn {
	c, err := net.Dial("tcp", redistest.Single(f).Addr())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c
}
