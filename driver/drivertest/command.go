package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

func commander(t *testing.T, d driver.Driver) driver.Commander {
	t.Helper()
	c, ok := d.(driver.Commander)
	if !ok {
		t.Fatal("the driver is no driver.Commander")
	}
	return c
}

// onlyServer returns the one server that a driver knows.
func onlyServer(t *testing.T, c driver.Commander) string {
	t.Helper()
	got, err := c.Servers(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("Servers = %q, %v, want one", got, err)
	}
	return got[0]
}

// commands: replies of each form that commands have, whatever the protocol.
func commands(t *testing.T, d driver.Driver) {
	c := commander(t, d)
	server := onlyServer(t, c)
	run := func(words ...string) driver.Value {
		t.Helper()
		v, err := c.Command(t.Context(), server, words...)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return v
	}
	if got := run("PING"); got.Str() != "PONG" {
		t.Errorf("PING: %v", got)
	}
	if got := run("INFO", "server"); !strings.HasPrefix(got.Str(), "# Server\r\nredis_version:") {
		t.Errorf("INFO: %v", got)
	}
	if got := run("CONFIG", "GET", "maxmemory*"); got.Len() < 4 || got.Len()%2 != 0 || !hasPair(got, "maxmemory-policy", "noeviction") {
		t.Errorf("CONFIG GET: %v, want names and values in turn", got)
	}
	if got := run("DBSIZE"); got.Kind() != driver.Int {
		t.Errorf("DBSIZE: %v", got)
	}
	if got := run("GET", "command:none"); got.Kind() != driver.Nil {
		t.Errorf("GET of what is not there: %v", got)
	}
	run("ZADD", "command:zset", "1.5", "a")
	if got := run("ZSCORE", "command:zset", "a"); got.Str() != "1.5" {
		t.Errorf("ZSCORE: %v, want the text 1.5", got)
	}
	_, err := c.Command(t.Context(), server, "NOSUCHCOMMAND", "x")
	wantClass(t, err, driver.Other)
	_, err = c.Command(t.Context(), "nowhere:1", "INFO", "server")
	wantClass(t, err, driver.NotSent)

	why := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err = c.Command(ctx, server, "INCR", "command:ended"); !errors.Is(err, why) {
		t.Errorf("Command for a context that has ended: %v, want its cause", err)
	}
	wantClass(t, err, driver.NotSent)
	if got := run("EXISTS", "command:ended"); got.Int() != 0 {
		t.Error("a command was sent for a context that had ended")
	}
}

func hasPair(v driver.Value, key, value string) bool {
	for i := 0; i+1 < v.Len(); i += 2 {
		if v.At(i).Str() == key && v.At(i+1).Str() == value {
			return true
		}
	}
	return false
}

// commandWithoutTheRight: the class shows that the user may not.
func (s suite) commandWithoutTheRight(t *testing.T, server *redistest.Server) {
	server.Must(t, redistest.Rules(t, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@connection", "+eval", "+evalsha")...)
	d := s.driver(t, Target{Mode: Single, Addrs: []string{server.Addr()}, Username: "poor", Password: "pw"})
	c := commander(t, d)
	_, err := c.Command(t.Context(), onlyServer(t, c), "CONFIG", "GET", "maxmemory")
	wantClass(t, err, driver.Denied)
}

// commandsToEach: a command goes to the server that it names, and every master is known.
func commandsToEach(t *testing.T, d driver.Driver, set *redistest.ClusterSet) {
	c := commander(t, d)
	known, err := c.Servers(t.Context())
	if err != nil || !slices.IsSorted(known) {
		t.Fatalf("Servers = %q, %v, want them in order", known, err)
	}
	ids := make(map[string]bool)
	for _, server := range known {
		v, err := c.Command(t.Context(), server, "CLUSTER", "MYID")
		if err != nil || ids[v.Str()] {
			t.Errorf("CLUSTER MYID of %s: %v, %v, want an id of its own", server, v, err)
		}
		ids[v.Str()] = true
	}
	for _, s := range set.Masters {
		if id := s.Str(t, "CLUSTER", "MYID"); !ids[id] {
			t.Errorf("Servers = %q, without the master %s", known, s.Addr())
		}
	}
}
