package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

// TestScripts runs the sessions in testdata/redis, each on an embedded server of its own.
func TestScripts(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { runScripts(t, "testdata/redis/*.txt", embedded) })
}

// embedded starts an embedded server for a session.
func embedded(env *testscript.Env) (addr, db string, err error) {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	env.Defer(server.Close)
	return server.Addr(), "0", nil
}

// TestWordScripts runs the sessions that need no server.
func TestWordScripts(t *testing.T) {
	runScripts(t, "testdata/words*.txt", func(*testscript.Env) (string, string, error) { return "", "", nil })
}

// runScripts runs scripts with the MORTISE_REDIS_URL that setup returns as an address and a
// database.
func runScripts(t *testing.T, glob string, setup func(*testscript.Env) (addr, db string, err error)) {
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts %s: %v, %v", glob, files, err)
	}
	testscript.Run(t, testscript.Params{
		Files: files, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv(patient, "yes")
			addr, db, err := setup(env)
			if err != nil || addr == "" {
				return err
			}
			env.Setenv("MORTISE_REDIS_URL", "redis://"+addr+"/"+db)
			env.Setenv("ADDR", addr)
			env.Setenv("DB", db)
			conn, err := redistest.Dial(addr, "", "")
			if err != nil {
				return err
			}
			env.Values[adminKey{}] = conn
			env.Defer(conn.Close)
			_, err = conn.Do("SELECT", db)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": cmdStatus,
			"held":   cmdHeld,
			"redis":  cmdRedis,
		},
	})
}

type adminKey struct{}

// cmdStatus is "status N CMD ARG…": it runs a command that must exit with N.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = shellStatus(exit.ProcessState)
	}
	ts.Logf("[stdout]\n%s[stderr]\n%s", ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdHeld is "held NAME", which waits until the lock is held, or "! held NAME", which waits until
// it is not.
func cmdHeld(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: held NAME")
	}
	conn := ts.Value(adminKey{}).(*redistest.Conn)
	for range time.Tick(5 * time.Millisecond) {
		n, err := conn.Do("EXISTS", args[0])
		ts.Check(err)
		if (n == int64(1)) != neg {
			return
		}
	}
}

// cmdRedis is "redis CMD ARG…": it sends Redis a command and makes the reply the standard output.
func cmdRedis(ts *testscript.TestScript, neg bool, args []string) {
	v, err := ts.Value(adminKey{}).(*redistest.Conn).Do(args...)
	if neg || err != nil {
		ts.Fatalf("redis %q: %v", args, err)
	}
	fmt.Fprintln(ts.Stdout(), v)
}
