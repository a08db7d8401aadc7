//go:build proof

package main

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mortise-go/mortise/internal/redistest"
)

// TestScriptsOnRedis runs the sessions of TestScripts once more, each in a database of a real server.
func TestScriptsOnRedis(t *testing.T) {
	runScripts(t, "testdata/redis/*.txt", databases(redistest.Single(t, "--databases", "64")))
}

// TestCrowdScripts runs the sessions with more holders than a reply lists, which take an embedded server long.
func TestCrowdScripts(t *testing.T) {
	runScripts(t, "testdata/crowd/*.txt", databases(redistest.Single(t)))
}

// TestBenchScripts runs mortise bench, whose loads take their time, on an embedded server and on a real one.
func TestBenchScripts(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { runScripts(t, "testdata/bench/*.txt", embedded) })
	t.Run("real", func(t *testing.T) { runScripts(t, "testdata/bench/*.txt", databases(redistest.Single(t))) })
}

// databases gives each session a database of the server.
func databases(server *redistest.Server) func(*testscript.Env) (addr, db string, err error) {
	var last atomic.Int64
	return func(*testscript.Env) (string, string, error) {
		return server.Addr(), strconv.FormatInt(last.Add(1), 10), nil
	}
}

// TestRefusalScripts runs the sessions that need rules that only a real server has.
func TestRefusalScripts(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "s3cret")
	server.Must(t, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@read", "+@connection", "+eval", "+evalsha", "+info", "+role")
	server.Must(t, "ACL", "SETUSER", "worker", "on", ">pw", "~app:*", "&*", "+@all")
	runScripts(t, "testdata/refusal/*.txt", func(env *testscript.Env) (string, string, error) {
		env.Setenv("ADDR", server.Addr())
		return "", "", nil
	})
}

// TestNoScripts runs the sessions on a server that runs no scripts.
func TestNoScripts(t *testing.T) {
	server := redistest.Single(t, "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
	runScripts(t, "testdata/noscripts/*.txt", func(env *testscript.Env) (string, string, error) {
		env.Setenv("ADDR", server.Addr())
		return "", "", nil
	})
}
