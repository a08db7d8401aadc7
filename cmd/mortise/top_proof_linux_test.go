//go:build proof

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// From the list to one lock, to a client, and back.
func TestTopShowsLocks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.chain()
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "migrate", "db-2 pid", "(cron)", " 1 ")
	top.shows(t, "locks 2 ", "contended 2 ", "waiters 2 ", s.server.Addr(), " of 100 commands/s")
	top.press(t, "ssssg") // by name, and the first one
	top.row(t, "LOCK▾")
	row := top.row(t, "▸ deploy", "api-7 pid", "s  ", " 1 ")
	if !strings.HasPrefix(row, " ▸ ") {
		t.Errorf("the first row is %q, want the cursor in it", row)
	}
	top.press(t, "\r")
	top.shows(t, " deploy  lock  1 waiter", "NEXT  WAITER", "LAST HOLDERS", "none has ended yet, or none is recorded")
	top.row(t, "  1  api-8 pid ", "s ")
	top.row(t, "▸ api-7 pid ", ":1 ")
	top.press(t, "qc/api-7")
	top.row(t, "▸ api-7", "migrate")
	top.press(t, "\r\r")
	top.row(t, "waits  migrate", "db-2")
	top.row(t, "holds  deploy", "itself")
	top.press(t, "j\r")
	top.shows(t, " deploy  lock  1 waiter")
	top.press(t, "?")
	top.shows(t, "Keys", "look at a lock, or a client, in detail")
	top.press(t, "qqqq")
	top.shows(t, "filter: api-7")
	top.press(t, "\x1b")
	top.lacks(t, "filter:")
	top.press(t, "q")
	top.wantStatus(t, 0)
	top.restored(t)
}

// A process that does not renew its record is marked.
func TestTopMarksTheSilent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.silence()
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "!▸ deploy", "api-7 pid 4121 silent 2")
	top.press(t, "\r")
	top.row(t, "!▸ api-7 pid 4121 silent ")
	top.press(t, "qc")
	top.row(t, "!▸ api-7 pid 4121 silent ")
}

// From the deploy that hangs to the process that blocks it, without a word from elsewhere.
func TestTopFindsWhoBlocks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.chain()
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "deploy", "api-7", " 1 ")
	top.press(t, "/deploy\rssssg") // by name
	top.row(t, "▸ deploy ")
	top.press(t, "\r")
	top.row(t, "▸ api-7 pid ")
	top.row(t, "which waits for migrate, held by db-2 pid ", " (cron), for ")
	top.press(t, "\r") // its process
	top.row(t, "▸ waits  migrate", "db-2 pid ")
	top.press(t, "\r") // the lock that it waits for
	top.row(t, " migrate  lock  1 waiter")
	top.row(t, "▸ db-2 pid ")
	top.lacks(t, "which waits")
	top.press(t, "q")
	top.row(t, "▸ waits  migrate")
	top.press(t, "q")
	top.row(t, "which waits for migrate")
	top.row(t, " deploy  lock  1 waiter")
}

// A lock that is only kept until the time of --min-hold is over, is told apart.
func TestTopOfAKeptLock(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	begin(t, server.Addr(), "run", "job", "--min-hold", "100s", "--", "true").wantStatus(t, 0)
	top := openTop(t, server.Addr(), 80, 24, "job")
	top.row(t, "job", "kept after its release")
	top.press(t, "u")
	top.shows(t, "It was released before the time of --min-hold")
	top.press(t, "y")
	top.shows(t, "released job")
	wantFree(t, server, "job")
}

// A user of Redis without the rights gets an error, and the terminal back.
func TestTopWithoutRights(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "ACL", "SETUSER", "viewer", "on", ">secret", "~nothing", "+@all")
	top := openTop(t, "viewer:secret@"+server.Addr(), 200, 24)
	top.wantStatus(t, exitDenied)
	top.restored(t)
	top.shows(t, "mortise acl --add --kind look --user")
	if text := top.written(); strings.Contains(text, "secret") || strings.Contains(text, "\x1b[?") {
		t.Errorf("it tells the password, or has begun a screen: %q", text)
	}
}

// The last acquisitions of a lock.
func TestTopShowsTheHistory(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.history()
	s.hold(s.client("api-9", "cron", mortise.Options{}), "nightly")
	s.settled(1, 0)
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "nightly", "api-9")
	top.press(t, "\r")
	top.row(t, "api-8 pid ", "(cron)", "released", "ms ")
	top.row(t, "api-7 pid ", "expired")
}

// A deadlock is named in a line, and wait by wait.
func TestTopNamesADeadlock(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.cycle()
	top := openTop(t, s.server.Addr(), 160, 30)
	top.row(t, "! deadlock: api-", " waits for ", ", which waits for ")
	top.row(t, "!▸ ")
	top.press(t, "d")
	top.row(t, "api-7 pid", "(orders) has waited for ")
	top.row(t, "for stock")
	top.row(t, "for orders")
}

// A release names the holder and asks; only y is a yes.
func TestTopReleases(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx := s.hold(s.client("api-7", "deploy", mortise.Options{}), "deploy")
	s.settled(1, 0)
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "deploy", "api-7")
	for _, no := range []string{"n", "\r", "\x1b", "q", "u"} {
		top.press(t, "u")
		top.shows(t, "Release deploy?", "holder  api-7 pid ", "Release it? [y/N]")
		top.press(t, no)
		top.shows(t, "nothing was released")
	}
	top.press(t, "u")
	top.shows(t, "Release it? [y/N]")
	top.press(t, "y")
	top.shows(t, "released deploy, which api-7 pid "+fmt.Sprint(os.Getpid())+" (deploy) held")
	wantFree(t, s.server, "deploy")
	top.shows(t, "Nothing is held, and nobody waits.")
	select { // the client has not renewed it
	case <-ctx.Done():
		t.Log("the holder has noticed it already")
	default:
	}
	top.press(t, "q")
	top.wantStatus(t, 0)
}

// If the holder has changed while the user was asked, nothing is released.
func TestTopReleasesNoOther(t *testing.T) {
	t.Parallel()
	const old, next = "8f1c2b3a-0000-4000-8000-000000000001:77", "8f1c2b3a-0000-4000-8000-000000000002:5"
	server := redistest.Single(t)
	for _, kind := range []string{"lock", "write"} {
		server.Must(t, "FLUSHALL")
		fields := map[string][]string{
			"lock":  {"HSET", "deploy", old, "1"},
			"write": {"HSET", "deploy", "mode", "write", old + ":write", "1"},
		}[kind]
		server.Must(t, fields...)
		top := openTop(t, server.Addr(), 80, 24, "deploy")
		top.row(t, "deploy", "8f1c2b3a")
		top.press(t, "u")
		top.shows(t, "Release deploy?", "owner   "+old)
		server.Must(t, "DEL", "deploy")
		for i, f := range fields {
			fields[i] = strings.ReplaceAll(f, old, next)
		}
		server.Must(t, fields...)
		top.press(t, "y")
		top.row(t, "! deploy was not released: its holder has changed; now held by 8f1c2b3a")
		if server.Int(t, "HEXISTS", "deploy", fields[len(fields)-2]) != 1 {
			t.Errorf("%s: the other holder has lost it", kind)
		}
		// The screen catches up, and then it can be released.
		top.press(t, "\r")
		top.row(t, "▸ unknown process", "2:5")
		top.press(t, "u")
		top.shows(t, "owner   "+next)
		top.press(t, "y")
		top.row(t, "released deploy, which 8f1c2b3a")
		wantFree(t, server, "deploy")
		top.press(t, "qq")
		top.wantStatus(t, 0)
	}
}

// Of several readers, the user chooses the one that loses the lock.
func TestTopReleasesOneOfSeveral(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var owners []string
	for _, host := range []string{"api-7", "api-8"} {
		h, ctx, err := s.client(host, "reader", mortise.Options{}).RWLock("table").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.all.Go(func() {
			<-ctx.Done()
			_ = h.Unlock() // one of them has lost it
		})
	}
	s.settled(2, 0)
	state, err := s.look.Inspect(t.Context(), "table")
	if err != nil || len(state.Holders) != 2 {
		t.Fatalf("%+v, %v", state, err)
	}
	for _, h := range state.Holders {
		owners = append(owners, h.Owner)
	}
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "table", "+1: api-")
	top.press(t, "u")
	top.shows(t, "Move to the holder that shall lose it, and press u.", "LAST HOLDERS")
	top.row(t, "▸ api-")
	top.press(t, "ju")
	top.shows(t, "Release table?", "owner   "+owners[1])
	top.press(t, "y")
	top.row(t, "released table, which "+state.Holders[1].Client.Host)
	if s.server.Int(t, "HEXISTS", "table", owners[0]) != 1 || s.server.Int(t, "HEXISTS", "table", owners[1]) != 0 {
		t.Error("it has released the wrong reader, or both")
	}
}

// A holder is asked, with a reason, and knows by whom.
func TestTopAsks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx := s.hold(s.client("api-7", "deploy", mortise.Options{}), "deploy")
	s.settled(1, 0)
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "deploy", "api-7")
	top.press(t, "a")
	top.shows(t, "Ask the holder to release deploy?", "holder  api-7 pid ")
	top.press(t, "hotfix 4711 q?") // keys of the screen are text here
	top.shows(t, "reason  hotfix 4711 q?")
	top.press(t, "\r")
	top.row(t, "asked api-7 pid ", " to release deploy")
	<-ctx.Done()
	var asked *mortise.RevokedError
	if cause := context.Cause(ctx); !errors.As(cause, &asked) || asked.Reason != "hotfix 4711 q?" || !strings.HasSuffix(asked.By, fmt.Sprint(" pid ", top.cmd.Process.Pid)) {
		t.Errorf("the holder was told %v (%+v), want who asks and why", cause, asked)
	}
	top.shows(t, "Nothing is held")
}

// A holder that cannot be asked is named.
func TestTopAsksNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	top := openTop(t, server.Addr(), 80, 24, "deploy")
	top.row(t, "deploy", "8f1c2b3a")
	top.press(t, "a")
	top.shows(t, "Ask the holder to release deploy?")
	top.press(t, "\x1b")
	top.shows(t, "nobody was asked")
	top.press(t, "a")
	top.shows(t, "Ask the holder to release deploy?")
	top.press(t, "\r")
	top.row(t, "! cannot ask 8f1c2b3a")
	wantHeld(t, server, "deploy")
	// Another one that has it meanwhile is not asked.
	top.press(t, "a")
	top.shows(t, "Ask the holder to release deploy?")
	server.Must(t, "DEL", "deploy")
	server.Must(t, "HSET", "deploy", "8f1c2b3a-0000-4000-8000-000000000009:1", "1")
	top.press(t, "\r")
	top.row(t, "! nobody was asked: its holder has changed; now held by 8f1c2b3a")
}

func wantHeld(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	if server.Int(t, "EXISTS", name) != 1 {
		t.Errorf("the lock %s is free, want held", name)
	}
}

// With --read-only nothing can be released or asked, and nothing is written.
func TestTopReadOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	top := openTop(t, server.Addr(), 80, 24, "deploy", "--read-only")
	top.row(t, "deploy", "8f1c2b3a")
	top.row(t, "mortise top (read-only)")
	top.press(t, "uya\r")
	top.shows(t, "LAST HOLDERS")
	top.press(t, "uya")
	top.press(t, "?")
	top.shows(t, "Keys")
	if text := top.text(); strings.Contains(text, "release a lock") || strings.Contains(text, "Release") {
		t.Errorf("it shows keys that it does not have:\n%s", text)
	}
	top.press(t, "q")
	top.row(t, "p pause  ? help  q back")
	wantHeld(t, server, "deploy")
	stats := fmt.Sprint(server.Must(t, "INFO", "commandstats"))
	for _, write := range []string{"cmdstat_del:", "cmdstat_set:", "cmdstat_hdel:", "cmdstat_publish:", "cmdstat_zadd:", "cmdstat_expire:"} {
		if strings.Contains(stats, write) {
			t.Errorf("it has sent a command that writes:\n%s", stats)
		}
	}
	top.press(t, "qq")
	top.wantStatus(t, 0)
}
