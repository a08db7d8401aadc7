package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
)

// A Redis that answers but cannot serve has a next step of its own: to start one there is none.
func TestHintsForRefusals(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }}
	for reply, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                                          "maxmemory",
		"READONLY You can't write against a read only replica.":                                            "master",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 "master",
		"NOREPLICAS Not enough good replicas to write.":                                                    "min-replicas-to-write",
		"ERR max number of clients reached":                                                                "maxclients",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": "disk",
		"LOADING Redis is loading the dataset in memory":                                                   "loading:0",
		"CLUSTERDOWN Hash slot not served":                                                                 "CLUSTER NODES",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":           "SCRIPT KILL",
	} {
		err := driver.ReplyError(errors.New(reply), reply)
		later := &mortise.Error{Op: "lock", Name: "job", Err: fmt.Errorf("%w: %w", mortise.ErrUnreachable, err)}
		for _, err := range []error{connectError(err), later} {
			if hint := a.hint(err); !strings.Contains(hint, want) || strings.Contains(hint, "Start Redis") || exitCode(err) != exitUnreachable {
				t.Errorf("%v: exit code %d, hint %q; want %d, and %q in the hint", err, exitCode(err), hint, exitUnreachable, want)
			}
		}
		if err := connectError(err); driver.Reason(err) == "" || strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("the error is %q, want the reason", err)
		}
	}
	if hint := a.hint(connectError(&driver.Error{Class: driver.NotSent, Err: errors.New("refused")})); !strings.Contains(hint, "Start Redis there") {
		t.Errorf("hint %q for a Redis that does not run", hint)
	}
}

// Where keys were refused, and there is no prefix, no rule is offered that would open all keys.
func TestHintForRefusedKeys(t *testing.T) {
	const missing, rule = "is --prefix missing", "mortise acl --add --kind lock --user default"
	for _, test := range []struct{ prefix, reply, want, not string }{
		{"", "NOPERM this user has no permissions to access one of the keys used as arguments", missing, rule},
		{"", "NOPERM No permissions to access a key", missing, rule},
		{"", "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", missing, rule},
		{"", "NOPERM User default has no permissions to access the 'job' key", missing, rule},
		{"", "NOPERM No permissions to access a channel", rule, missing},
		{"", "NOPERM this user has no permissions to run the 'evalsha' command", rule, missing},
		{"app:", "NOPERM No permissions to access a key", rule + " --prefix app:", missing},
	} {
		a := &app{getenv: func(name string) string { return map[string]string{envPrefix: test.prefix}[name] }, kinds: "lock"}
		err := &mortise.Error{Op: "lock", Name: "job", Err: fmt.Errorf("%w: %w", mortise.ErrDenied, driver.ReplyError(errors.New(test.reply), test.reply))}
		if hint := a.hint(err); !strings.Contains(hint, test.want) || strings.Contains(hint, test.not) {
			t.Errorf("%s, with the prefix %q: the hint is %q, want %q in it, and not %q", test.reply, test.prefix, hint, test.want, test.not)
		}
	}
}

// A port for TLS closes the connection of a client that does not speak it.
func TestHintForATLSPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	_, err = connect.Open(t.Context(), "redis://"+l.Addr().String())
	if err == nil {
		t.Fatal("it was opened")
	}
	a := &app{getenv: func(string) string { return "" }}
	if hint := a.hint(connectError(err)); !strings.Contains(hint, "rediss://") || strings.Contains(hint, "Start Redis") {
		t.Errorf("for %v the hint is %q, want a word of TLS", err, hint)
	}
	wantFound(t, err, "rediss://")
}

// wantFound wants words in what the doctor says is to be done about an error of connecting.
func wantFound(t *testing.T, err error, words string) {
	t.Helper()
	failed, _ := errors.AsType[*connect.PhaseError](err)
	found := doctor.Refused(string(failed.Phase), "", failed.Err).Find("connection-connect")
	if len(found) != 1 || !strings.Contains(found[0].Do, words) {
		t.Errorf("for %v the doctor finds %+v, want %q", err, found, words)
	}
}

// near is a driver of a cluster that has a server for each key.
type near struct{ driver.Driver }

func (near) Shard(key string) string { return key + ":7000" }

// On a cluster the server that was asked is named: that of the URL may work. One that does not answer need not be started.
func TestHintNamesTheServer(t *testing.T) {
	a := &app{getenv: func(name string) string { return map[string]string{"MORTISE_PREFIX": "app."}[name] }, driver: near{}}
	late := &driver.Error{Class: driver.Unknown, Err: errors.New("no answer")}
	err := &mortise.Error{Op: "lock", Name: "job", Err: fmt.Errorf("%w: %w", mortise.ErrUnreachable, late)}
	if hint := a.hint(err); !strings.HasPrefix(hint, "Tried app.job:7000, of the cluster of redis://") || !strings.Contains(hint, "Nothing answers there") || !strings.HasSuffix(hint, ": redis-cli -h app.job -p 7000 ping") {
		t.Errorf("the hint is %q, want that app.job:7000 does not answer", hint)
	}
	for _, driver := range []driver.Driver{nil, mute{}} {
		a.driver = driver
		if hint := a.hint(err); !strings.HasPrefix(hint, "Tried redis://") {
			t.Errorf("without a cluster the hint is %q", hint)
		}
	}
}

// A server that accepts connections, and says nothing, need not be started.
func TestHintForASilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // connections stay in the backlog
	_, err = connect.Open(t.Context(), "redis://"+l.Addr().String())
	if err == nil {
		t.Fatal("a silent server was opened")
	}
	wantFound(t, err, "Redis may be stopped or hang")
	var told strings.Builder
	a := &app{getenv: func(string) string { return "" }, stderr: &told}
	a.report(connectError(err))
	for text, want := range map[string]bool{"no answer in time": true, "Nothing answers there": true, "redis-cli -h 127.0.0.1 -p 6379 ping\n": true, "deadline exceeded": false, "Start Redis": false} {
		if strings.Contains(told.String(), text) != want {
			t.Errorf("%s\nwant %q in it: %v", told.String(), text, want)
		}
	}
}
