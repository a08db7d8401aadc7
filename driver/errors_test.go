package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suffix that Redis 7 and later add to an error that ended a script.
const inScript = " script: 8b5d0e4b0f0bb0cb9ee6e8b8cbf2d3dfb5f02b5c, on @user_script:1."

// What Redis before 7.0 puts before such an error.
const before7 = "ERR Error running script (call to f_61636018f4e6b5817b89791bbed242f93fa089e3): @user_script:1: @user_script: 1: "

// The texts were produced on Redis 7.0.15 to 8.6 and Valkey 8.0 to 9.1; those of miniredis are
// marked.
var replies = []struct {
	text string
	want driver.Class
}{
	{"NOSCRIPT No matching script. Please use EVAL.", driver.NoScript},
	{"NOSCRIPT No matching script. Please use EVAL", driver.NoScript}, // miniredis
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", driver.Passing},
	{"LOADING Redis is loading the dataset in memory", driver.Passing},
	{"OOM command not allowed when used memory > 'maxmemory'.", driver.Passing},
	{"OOM command not allowed when used memory > 'maxmemory'." + inScript, driver.Passing},
	{"NOREPLICAS Not enough good replicas to write.", driver.Passing},
	{"NOREPLICAS Not enough good replicas to write." + inScript, driver.Passing},
	{"READONLY You can't write against a read only replica.", driver.Passing},
	{"READONLY You can't write against a read only replica." + inScript, driver.Passing},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", driver.Passing},
	{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", driver.Passing},
	{before7 + "-READONLY You can't write against a read only replica.", driver.Passing},
	{before7 + "-OOM command not allowed when used memory > 'maxmemory'.", driver.Passing},
	{strings.TrimPrefix(before7, "ERR ") + "-NOREPLICAS Not enough good replicas to write.", driver.Passing}, // rueidis
	{"ERR Script attempted to access a non local key in a cluster node script: c1577803d068b14bb8fcfc907d5d4d001a83cd8a, on @user_script:104.", driver.Unknown},
	{"ERR Error running script (call to f_c157): @user_script:104: @user_script: 104: Lua script attempted to access a non local key in a cluster node", driver.Unknown},
	{"TRYAGAIN Multiple keys request during rehashing of slot", driver.Passing},
	{"CLUSTERDOWN The cluster is down", driver.Passing},
	{"CLUSTERDOWN Hash slot not served", driver.Passing},
	{"MOVED 3999 127.0.0.1:6381", driver.Passing},
	{"ASK 3999 127.0.0.1:6381", driver.Passing},
	{"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.", driver.Passing},
	{"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", driver.Passing},
	{"ERR max number of clients reached", driver.Passing},
	{"ERR max number of clients + cluster connections reached", driver.Passing},

	{"WRONGTYPE Operation against a key holding the wrong kind of value", driver.WrongType},
	{"WRONGTYPE Operation against a key holding the wrong kind of value" + inScript, driver.WrongType},
	{"ERR Error compiling script (new function): WRONGTYPE Operation against a key holding the wrong kind of value", driver.WrongType}, // miniredis

	{"CROSSSLOT Keys in request don't hash to the same slot", driver.CrossSlot},

	{"NOAUTH Authentication required.", driver.Denied},
	{"WRONGPASS invalid username-password pair or user is disabled.", driver.Denied},
	{"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", driver.Denied},
	{"ERR Client sent AUTH, but no password is set", driver.Denied},
	{"ERR invalid password", driver.Denied},
	{"ERR unknown command 'EVALSHA', with args beginning with: 'a42059b356c875f0717db19a51f6aaca9ae659ea' '1' 'x' ", driver.NoScripts},
	{"ERR unknown command 'eval', with args beginning with: 'return 1' '0' ", driver.NoScripts},
	{"ERR unknown command `EVALSHA`, with args beginning with: `a42059b356c875f0717db19a51f6aaca9ae659ea`, ", driver.NoScripts}, // 6.2
	{"ERR unknown command 'SPUBLISH'", driver.Other},
	{"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.", driver.Denied},
	{"NOPERM this user has no permissions to access one of the keys used as arguments", driver.Denied},
	{"NOPERM this user has no permissions to access one of the channels used as arguments", driver.Denied},
	{"NOPERM this user has no permissions to run the 'evalsha' command", driver.Denied},
	{"NOPERM No permissions to access a key", driver.Denied},
	{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + inScript, driver.Denied},
	{"ERR The user executing the script can't run this command or subcommand" + inScript, driver.Denied},
	{"ERR The user executing the script can't publish to the channel mentioned in the command" + inScript, driver.Denied},
	{"ERR The user executing the script is lacking the permissions for the command" + inScript, driver.Denied},
	{"ERR ACL failure in script: No permissions to access a key" + inScript, driver.Denied},
	{"ERR ACL failure in script: No permissions to access a channel" + inScript, driver.Denied},

	{"ERR invalid expire time in 'pexpire' command" + inScript, driver.Other},
	{"ERR value is not an integer or out of range", driver.Other},
	{"ERR unknown command 'SPUBLISH', with args beginning with: ", driver.Other},
	{"ERR Unknown Redis command called from script", driver.Other},
	{"ERR Unknown command called from script", driver.Other},
	{"EXECABORT Transaction discarded because of previous errors.", driver.Other},
	{"", driver.Other},
	{"BUSYKEY Target key name already exists.", driver.Other}, // not BUSY
	{"ERR LOADING is only a word here", driver.Other},         // not the first word
	{"ERR no such key: 'NOSCRIPT No matching'", driver.Other}, // a key's name
	{"loading the dataset", driver.Other},                     // codes are in capitals
	{"NOSCRIPTS", driver.Other},
}

func TestClassifyReply(t *testing.T) {
	for _, r := range replies {
		if got := driver.ClassifyReply(r.text); got != r.want {
			t.Errorf("%q is of class %v, want %v", r.text, got, r.want)
		}
		// Some client libraries leave the mark of an error in the text.
		if got := driver.ClassifyReply("-" + r.text); got != r.want {
			t.Errorf("%q is of class %v, want %v", "-"+r.text, got, r.want)
		}
	}
}

// An error reply that only a server too old for locks gives is explained.
func TestReplyErrorOfAnOldServer(t *testing.T) {
	for _, text := range []string{
		"Write commands not allowed after non deterministic commands",
		"Wrong number of args calling Redis command From Lua script",
	} {
		own := errors.New("ERR Error running script (call to f_6163): @user_script:10: @user_script: 10: " + text)
		err := driver.ReplyError(own, own.Error())
		if driver.ClassOf(err) != driver.Other || !errors.Is(err, own) || !strings.Contains(err.Error(), "older than Redis 5.0") {
			t.Errorf("%q: %v, want an error of class other that says so", text, err)
		}
	}
}

func TestReplyError(t *testing.T) {
	for _, r := range replies {
		own := errors.New(r.text)
		err := driver.ReplyError(own, r.text)
		if got := driver.ClassOf(fmt.Errorf("in some operation: %w", err)); got != r.want {
			t.Errorf("the error for %q is of class %v, want %v", r.text, got, r.want)
		}
		if !errors.Is(err, own) {
			t.Errorf("the error for %q does not match the client library's own", r.text)
		}
		const hint = " (ACL LOG on the server says which)" // only where the reply does not
		want := r.text
		if r.want != driver.Other && r.want != driver.Unknown {
			want = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(want, before7), strings.TrimPrefix(before7, "ERR ")), inScript)
			if want != r.text {
				want = strings.TrimPrefix(want, "-")
			}
		}
		if r.want == driver.Denied && (strings.Contains(want, "executing the script") || strings.Contains(want, " access ")) {
			want += hint
		}
		if r.want == driver.NoScripts { // what follows is the script
			want, _, _ = strings.Cut(strings.TrimPrefix(want, "ERR "), ", with")
		}
		if err.Error() != want {
			t.Errorf("the error for %q reads %q, want %q", r.text, err, want)
		}
	}
}

func TestClassOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want driver.Class
	}{
		{&driver.Error{Class: driver.NotSent, Err: io.EOF}, driver.NotSent},
		{errors.Join(io.EOF, &driver.Error{Class: driver.Passing, Err: io.EOF}), driver.Passing},
		// The class that promises least.
		{io.EOF, driver.Unknown},
		{context.Canceled, driver.Unknown},
	} {
		if got := driver.ClassOf(test.err); got != test.want {
			t.Errorf("%v is of class %v, want %v", test.err, got, test.want)
		}
	}
}

func TestClassesHaveNames(t *testing.T) {
	seen := map[string]driver.Class{}
	for c := driver.Other; c <= driver.Closed; c++ {
		name := c.String()
		if other, ok := seen[name]; ok || name == "" {
			t.Errorf("class %d is called %q, as class %d", c, name, other)
		}
		seen[name] = c
	}
}

func TestUnknownErrorsSaySo(t *testing.T) {
	err := &driver.Error{Class: driver.Unknown, Err: io.ErrUnexpectedEOF}
	for _, want := range []string{"not known whether", io.ErrUnexpectedEOF.Error()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
	if sent := (&driver.Error{Class: driver.NotSent, Err: io.EOF}).Error(); sent != io.EOF.Error() {
		t.Errorf("an error of class not sent reads %q, want %q", sent, io.EOF)
	}
}

func TestContextError(t *testing.T) {
	cause := errors.New("the request is over")
	with := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	past, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for name, test := range map[string]struct {
		ctx   context.Context
		match []error
	}{
		"cancelled":              {with(nil), []error{context.Canceled}},
		"cancelled with a cause": {with(cause), []error{context.Canceled, cause}},
		"too late":               {past, []error{context.DeadlineExceeded}},
	} {
		for _, class := range []driver.Class{driver.NotSent, driver.Unknown} {
			err := driver.ContextError(test.ctx, class)
			if got := driver.ClassOf(err); got != class {
				t.Errorf("%s: the class is %v, want %v", name, got, class)
			}
			for _, want := range test.match {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v does not match %v", name, err, want)
				}
			}
		}
	}
	if err := driver.ContextError(with(nil), driver.NotSent); err.Error() != context.Canceled.Error() {
		t.Errorf("without a cause it reads %q, want %q", err, context.Canceled)
	}
}

// What a user reads names no script, which says nothing outside mortise; what mortise reads is the reply.
func TestReplyNamesNoScript(t *testing.T) {
	const wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, reply := range []string{wrong, wrong + inScript, before7 + "-" + wrong} {
		err := driver.ReplyError(errors.New(reply), reply)
		if err.Error() != wrong || driver.ClassOf(err) != driver.WrongType {
			t.Errorf("%q reads %q, of class %v, want %q", reply, err, driver.ClassOf(err), wrong)
		}
	}
}
