//go:build !server

package script_test

import (
	"net"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

// Without the build tag server, tests run on the embedded Redis only.

// parallel has t run in parallel with other tests, also if it is called again.
func parallel(t *testing.T) {
	if _, again := isParallel.LoadOrStore(t, true); !again {
		t.Parallel()
	}
}

var isParallel sync.Map // of *testing.T

func single(*testing.T, ...string) *redistest.Server { return nil }

func onServer(*testing.T, string, *redistest.Server, func(t *testing.T, w *world)) {}

// publishers are the commands with which messages are sent: the embedded Redis
// has no sharded ones.
func publishers(*testing.T) []string { return []string{"publish"} }

// without has no meaning for the embedded Redis.
func without(*testing.T, string) []string { return nil }

// fuzzServer returns a connection to a server for a fuzz target. With the build tag server it is a
// real one: the embedded one has a Lua of its own, with other errors.
func fuzzServer(f *testing.F) net.Conn {
	s := memredis.New()
	f.Cleanup(s.Close)
	c, err := s.Dial()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c
}
