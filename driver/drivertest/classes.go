package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// classes reproduces the error replies that locks must distinguish. The script must not have run,
// or not have changed anything, where the class says so.
func (s suite) classes(t *testing.T, server *redistest.Server) {
	t.Run("wrong type", func(t *testing.T) {
		server.Must(t, "HSET", "class:hash", "f", "v")
		s.refused(t, at(server), callIncr("class:hash"), driver.WrongType)
	})
	t.Run("no such right", func(t *testing.T) { s.denied(t, server) })
	t.Run("changed password", func(t *testing.T) { s.changedPassword(t) })
	t.Run("busy", func(t *testing.T) { s.busy(t) })
	t.Run("loading", func(t *testing.T) { s.loading(t) })
	t.Run("max clients", func(t *testing.T) { s.maxClients(t) })
	t.Run("out of memory", func(t *testing.T) {
		server := redistest.Single(t)
		server.Must(t, "CONFIG", "SET", "maxmemory", "1")
		s.refused(t, at(server), callIncr("oom"), driver.Passing)
		wantAbsent(t, server, "oom")
	})
	t.Run("too few replicas", func(t *testing.T) {
		server := redistest.Single(t, "--min-replicas-to-write", "1")
		s.refused(t, at(server), callIncr("noreplicas"), driver.Passing)
		wantAbsent(t, server, "noreplicas")
	})
	t.Run("replica", func(t *testing.T) {
		master := redistest.Single(t)
		replica := redistest.Replica(t, master, "--replica-serve-stale-data", "no")
		s.refused(t, at(replica), callIncr("readonly"), driver.Passing)
		wantAbsent(t, master, "readonly")
		master.Kill()
		redistest.Eventually(t, "MASTERDOWN", func() error { return wantReply(replica, "MASTERDOWN", "GET", "k") })
		s.refused(t, at(replica), callIncr("masterdown"), driver.Passing)
	})
}

// refused runs a call that Redis must refuse, alone and in a batch.
func (s suite) refused(t *testing.T, target Target, call driver.Call, want driver.Class) {
	t.Helper()
	d := s.driver(t, target)
	_, err := d.Eval(t.Context(), call)
	wantClass(t, err, want)
	wantClass(t, d.Batch(t.Context(), []driver.Call{call})[0].Err, want)
}

func wantAbsent(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	if got := server.Must(t, "GET", key); got != nil {
		t.Errorf("%s is %v: a refused script has changed it", key, got)
	}
}

// wantReply reports an error unless the server answers with the error code.
func wantReply(server *redistest.Server, code string, args ...string) error {
	v, err := server.Do(args...)
	var reply redistest.ReplyError
	if errors.As(err, &reply) && strings.HasPrefix(string(reply), code) {
		return nil
	}
	answer := fmt.Sprintf("%v, %v", v, err)
	return fmt.Errorf("%v answers %s, want %s", args, answer, code)
}

// denied withholds one right after another.
func (s suite) denied(t *testing.T, server *redistest.Server) {
	foreign := driver.NewScript("foreign", `return redis.call('GET', 'class:foreign')`)
	tests := []struct {
		name  string
		rules string
		call  driver.Call
	}{
		{"script", "~* +@all -eval -evalsha", callIncr("class:denied")},
		{"key", "~app:* +@all", callIncr("class:denied")},
		{"command in the script", "~* +@all -incr", callIncr("class:denied")},
		{"key in the script", "~app:* +@all", driver.Call{Script: foreign, Keys: []string{"app:denied"}}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := withUser(t, at(server), fmt.Sprint("denied", i), tt.rules, server)
			s.refused(t, target, tt.call, driver.Denied)
		})
	}
	wantAbsent(t, server, "class:denied")
}

// withUser creates a user on the servers and returns target for that user.
func withUser(t *testing.T, target Target, name, rules string, servers ...*redistest.Server) Target {
	t.Helper()
	cmd := append([]string{"ACL", "SETUSER", name, "reset", "on", ">pass-" + name}, redistest.Rules(t, strings.Fields(rules)...)...)
	for _, s := range servers {
		s.Must(t, cmd...)
	}
	target.Username, target.Password = name, "pass-"+name
	return target
}

// changedPassword covers errors of a client that reconnects after a change.
func (s suite) changedPassword(t *testing.T) {
	server := redistest.Single(t)
	open := s.driver(t, at(server)) // NOAUTH
	target := withUser(t, at(server), "rotated", "~* &* +@all", server)
	user := s.driver(t, target) // WRONGPASS
	eval(t, open, incr, []string{"password:first"})
	eval(t, user, incr, []string{"password:first"})

	connections := strings.Count(server.Str(t, "CLIENT", "LIST", "TYPE", "normal"), "id=")
	server.Must(t, "ACL", "SETUSER", "rotated", "resetpass", ">new")
	server.Must(t, "CONFIG", "SET", "requirepass", "secret")
	server.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for _, d := range []driver.Driver{open, user} {
		settle(t, d, "password", connections, driver.Denied)
	}
	for i := range 20 {
		wantAbsent(t, server, fmt.Sprint("password:", i))
	}
}

// busy runs a script in a loop until it is killed.
func (s suite) busy(t *testing.T) {
	server := redistest.Single(t, "--lua-time-limit", "10")
	d := s.driver(t, at(server))
	eval(t, d, incr, []string{"busy:first"})
	loop, err := redistest.Dial(server.Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	if err := loop.Send("EVAL", "while true do end", "0"); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "BUSY", func() error { return wantReply(server, "BUSY", "GET", "k") })
	for range 5 {
		_, err = d.Eval(t.Context(), callIncr("busy"))
		// A client that is just opening a connection may fail to do so.
		wantClass(t, err, driver.Passing, driver.NotSent)
	}
	server.Must(t, "SCRIPT", "KILL")
	recovers(t, d, "busy:later")
	wantAbsent(t, server, "busy")
}

// loading makes the server read back a data set slowly.
func (s suite) loading(t *testing.T) {
	server := redistest.Single(t, "--loading-process-events-interval-bytes", "1024", "--key-load-delay", "1000")
	d := s.driver(t, at(server))
	eval(t, d, incr, []string{"loading:first"})
	server.Must(t, "EVAL", "for i = 1, 2000 do redis.call('SET', 'filler:' .. i, 'value') end", "0")
	reload, err := redistest.Dial(server.Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer reload.Close()
	for loading := false; !loading; { // a busy machine may be done with it before the script comes
		server.Must(t, "DEL", "loading")
		if err := reload.Send("DEBUG", "RELOAD"); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "LOADING", func() error { return wantReply(server, "LOADING", "GET", "k") })
		_, err = d.Eval(t.Context(), callIncr("loading"))
		loading = err != nil || wantReply(server, "LOADING", "GET", "k") == nil
		if v, err := reload.Receive(time.Minute); err != nil {
			t.Fatal(v, err)
		}
	}
	wantClass(t, err, driver.Passing, driver.NotSent)
	recovers(t, d, "loading:later")
	wantAbsent(t, server, "loading")
}

// maxClients: the server closes the connection so early that the client may
// meet a broken pipe instead of the reason.
func (s suite) maxClients(t *testing.T) {
	server := redistest.Single(t)
	d := s.driver(t, at(server))
	eval(t, d, incr, []string{"max:first"})
	server.Must(t, "CONFIG", "SET", "maxclients", "1") // taken by the administration connection
	server.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 5 {
		_, err := d.Eval(t.Context(), callIncr("max"))
		wantClass(t, err, driver.Passing, driver.NotSent, driver.Unknown)
	}
	wantAbsent(t, server, "max")
	server.Must(t, "CONFIG", "SET", "maxclients", "1000")
	recovers(t, d, "max:later")
}
