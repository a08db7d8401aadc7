//go:build unix && proof

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

// printed runs mortise and returns its standard output.
func printed(t *testing.T, addr string, args ...string) string {
	t.Helper()
	s := prepare(addr, exec.CommandContext(t.Context(), "mortise", args...))
	s.cmd.Stderr = &s.out
	out, err := s.cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", args, err, out, s.out.text())
	}
	return string(out)
}

// awaitOutput runs mortise until its standard output matches.
func awaitOutput(t *testing.T, addr, pattern string, args ...string) {
	t.Helper()
	expression := regexp.MustCompile("(?m)" + pattern)
	redistest.Eventually(t, fmt.Sprintf("%q shows %s", args, pattern), func() error {
		if got := printed(t, addr, args...); !expression.MatchString(got) {
			return errors.New(got)
		}
		return nil
	})
}

// nameOf returns how the process of a run is shown, as a regular expression.
func nameOf(t *testing.T, s *session, program string) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return regexp.QuoteMeta(fmt.Sprintf("%s pid %d (mortise: %s)", host, s.cmd.Process.Pid, program))
}

// Two processes want one lock: each command names the one that has it, and the one that waits.
func TestProcessesAreNamed(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	addr := server.Addr()
	const past = ` for [0-9.]+m?s`
	holder := begin(t, addr, "run", "--history", "5", "job", "--", "sleep", "1000")
	awaitHeld(t, server, "job")
	waiter := begin(t, addr, "run", "-v", "job", "--", "true")
	held, waits := nameOf(t, holder, "sleep")+past, nameOf(t, waiter, "true")+past
	waiter.awaitMatch(t, `^mortise: waiting [0-9]+s for job: held by `+held+"\n") // its first line
	awaitOutput(t, addr, `^holder +`+held+`  count 1  [0-9a-f-]{36}:1$`, "show", "job")
	awaitOutput(t, addr, `^waiter 1 +`+waits+`$`, "show", "job")
	awaitOutput(t, addr, `^job +lock +[0-9]+s +1 +`+held+` +1 waiting$`, "ls")
	awaitOutput(t, addr, fmt.Sprintf(`^job +lock +[0-9]+s +1 +[0-9a-f-]{36}:1 +\S+ +%d +mortise: sleep +20[0-9-]+T[0-9:]+Z +[0-9.]+m?s +1$`,
		holder.cmd.Process.Pid), "ls", "--wide")
	awaitOutput(t, addr, nameOf(t, holder, "sleep")+`  [0-9a-f-]{36}\n  holds +job +lock +for`, "who")
	awaitOutput(t, addr, nameOf(t, waiter, "true")+`  [0-9a-f-]{36}\n  waits +job +lock +for [0-9.]+m?s, held by `+held+`$`, "who")
	wantJSONOfProcesses(t, addr, holder.cmd.Process.Pid, waiter.cmd.Process.Pid)
	if got := printed(t, addr, "__complete", "who", "mor"); !strings.HasPrefix(got, "mortise\tapplication\n") {
		t.Errorf("the completion of who offers %q, want the application", got)
	}
	if got := printed(t, addr, "who", "no-such-host"); got != "" {
		t.Errorf("who of another host shows %q, want nothing", got)
	}
	if got := printed(t, addr, "who", "mortise"); strings.Count(got, " pid ") < 2 {
		t.Errorf("who of the application shows %q, want both", got)
	}
	redistest.Eventually(t, "a refusal names the process", func() error { // on a busy machine the name may come too late for one
		refused := begin(t, addr, "run", "-n", "job", "--", "true")
		refused.wantStatus(t, exitBusy)
		if got := refused.out.text(); !regexp.MustCompile(`"job" is held by ` + held + ` \(count 1\)`).MatchString(got) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	waiter.signal(t, syscall.SIGTERM)
	holder.signal(t, syscall.SIGTERM)
	holder.wantStatus(t, 128+int(syscall.SIGTERM))
	awaitOutput(t, addr, fmt.Sprintf(` pid %d \(mortise: sleep\) +lock .* released +-$`, holder.cmd.Process.Pid), "history", "job")
}

// seenProcess is a process as --json shows it.
type seenProcess struct {
	Client struct {
		Host, App string
		PID       int
		Extra     map[string]string
	}
	Since  time.Time
	Held   int64 `json:"held_ms"`
	Waited int64 `json:"waited_ms"`
}

// seenLock is a lock as --json shows it.
type seenLock struct {
	Holders, Queue []seenProcess
	Waiters        int
}

// wantJSONOfProcesses checks what programs read about the holder and the waiter of the lock job.
func wantJSONOfProcesses(t *testing.T, addr string, holder, waiter int) {
	t.Helper()
	var shown seenLock
	var listed []seenLock
	for text, to := range map[string]any{printed(t, addr, "show", "--json", "job"): &shown, printed(t, addr, "ls", "--json", "job"): &listed} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !regexp.MustCompile(`"since": "[0-9-]+T[0-9:.]+Z"`).MatchString(text) {
			t.Errorf("no instant in UTC in %s", text)
		}
	}
	if len(listed) != 1 || len(listed[0].Holders) != 1 || len(shown.Holders) != 1 || len(shown.Queue) != 1 || listed[0].Waiters != 1 {
		t.Fatalf("show --json has %+v, and ls --json %+v, want a holder and a waiter", shown, listed)
	}
	for _, p := range []seenProcess{listed[0].Holders[0], shown.Holders[0]} {
		p.want(t, holder, p.Held)
		if p.Client.App != "mortise" || p.Client.Extra["command"] != "sleep" {
			t.Errorf("the holder is %+v, want mortise with sleep", p)
		}
	}
	shown.Queue[0].want(t, waiter, shown.Queue[0].Waited)
}

// want checks that p is a process, and for how long it holds or waits.
func (p *seenProcess) want(t *testing.T, pid int, lasted int64) {
	t.Helper()
	if p.Client.PID != pid || lasted < 250 || p.Since.IsZero() {
		t.Errorf("the process is %+v for %d ms, want %d for a quarter of a second at least", p, lasted, pid)
	}
}

// The waiters of both sides of a read/write lock, of a fair lock and of permits are shown.
func TestWaitersOfAllKindsAreShown(t *testing.T) {
	t.Parallel()
	const past = ` for [0-9.]+m?s`
	for name, test := range map[string]struct{ hold, wait, more string }{
		"read":  {"--write", "--read", "  to read"},
		"write": {"--read", "--write", "  to write"},
		"fair":  {"--fair", "--fair", "  deadline in .*"},
		"sem":   {"--sem --limit 1", "--sem", ""},
		"fence": {"--fence", "--fence", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			run := func(flags, program string, args ...string) *session {
				words := append([]string{"run", "job"}, strings.Fields(flags)...)
				return begin(t, server.Addr(), append(append(words, "--", program), args...)...)
			}
			holder := run(test.hold, "sleep", "1000")
			awaitHeld(t, server, "job")
			awaitOutput(t, server.Addr(), `^(holder|permit) .*`+nameOf(t, holder, "sleep")+past, "show", "job")
			waiter := run(test.wait, "true")
			awaitOutput(t, server.Addr(), `^waiter 1 +`+nameOf(t, waiter, "true")+past+test.more+`$`, "show", "job")
			awaitOutput(t, server.Addr(), nameOf(t, waiter, "true")+`  [0-9a-f-]{36}\n  waits +job .*, held by `+nameOf(t, holder, "sleep"), "who")
			holder.signal(t, syscall.SIGTERM)
			waiter.wantStatus(t, 0)
		})
	}
}

// A run that is asked for its lock ends its command gently, releases, and says by whom it was asked.
func TestRunIsAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for _, verb := range []string{"run", "elect"} {
		holder := begin(t, server.Addr(), verb, verb, "-c", `trap 'echo asked to end; exit 3' TERM; echo ready; while :; do sleep 0.02; done`)
		holder.await(t, "ready\n")
		name := nameOf(t, holder, "sh")
		awaitOutput(t, server.Addr(), `^holder +`+name, "show", verb)
		got := printed(t, server.Addr(), "unlock", verb, "--ask", "--reason", "hot\x1bfix", "--wait", "60s")
		if !regexp.MustCompile(`^asked to release ` + verb + `: ` + name + ` for [0-9.]+m?s` + "\n" + verb + " was released\n$").MatchString(got) {
			t.Errorf("unlock --ask wrote %q", got)
		}
		holder.wantStatus(t, exitLost)
		holder.awaitMatch(t, `mortise: the command was ended: asked by \S+ pid [0-9]+ to release the (lock|lead) "`+verb+`": "hot\\x1bfix"`+"\n")
		holder.await(t, "asked to end\n")
		wantFree(t, server, verb)
	}
}

// A command that does not end in time loses the lock, if the operator wants that, and no other holder does.
func TestAskedThenForced(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	holder := begin(t, server.Addr(), "run", "--on-lost", "warn", "job", "--", "sleep", "1000")
	awaitHeld(t, server, "job")
	awaitOutput(t, server.Addr(), `^holder +`+nameOf(t, holder, "sleep"), "show", "job")
	got := printed(t, server.Addr(), "unlock", "job", "--ask", "--wait", "500ms", "--force")
	if !regexp.MustCompile(`\nfreed job, which was held by ` + nameOf(t, holder, "sleep") + ` for [0-9.]+m?s, [0-9a-f-]{36}:1 \(count 1\)\n$`).MatchString(got) {
		t.Errorf("unlock --ask --force wrote %q", got)
	}
	holder.awaitMatch(t, `mortise: asked by \S+ pid [0-9]+ to release the lock "job"; the command goes on with it`)
	wantFree(t, server, "job")
	holder.signal(t, syscall.SIGTERM)
	holder.wantStatus(t, 128+int(syscall.SIGTERM))
}

// Clients that wait for each other in a cycle are named.
func TestWhoNamesADeadlock(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	type party struct {
		hold *mortise.Hold
		held context.Context
		next *mortise.Lock // of the other party
	}
	var parties []party
	for _, names := range [][2]string{{"first", "second"}, {"second", "first"}} {
		d, err := connect.Open(ctx, "redis://"+server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c := mortise.New(d, &mortise.Options{Identity: mortise.Identity{App: names[0]}})
		t.Cleanup(func() { c.Close() })
		hold, held, err := c.Lock(names[0]).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		parties = append(parties, party{hold, held, c.Lock(names[1])})
	}
	for _, p := range parties {
		waiting.Go(func() {
			if _, _, err := p.next.Lock(p.held); !errors.Is(err, context.Canceled) {
				t.Errorf("the wait for %s: %v, want that it was canceled", p.next.Name(), err)
			}
			_ = p.hold.Unlock()
		})
	}
	const process = `\S+ pid [0-9]+ \((first|second)\)`
	awaitOutput(t, server.Addr(), `^deadlock: `+process+` waits for (first|second), held by `+process+
		`, which waits for (first|second), held by `+process+`$`, "who")
	if got := printed(t, server.Addr(), "who", "--json", "first"); !strings.Contains(got, `"deadlocks": [`+"\n    {") {
		t.Errorf("who --json names no deadlock: %s", got)
	}
	cancel()
	waiting.Wait()
}

// A list of many locks asks for what is known of processes once, and not for each lock.
func TestListAsksForProcessesOnce(t *testing.T) {
	t.Parallel()
	const locks = 300
	server := redistest.Single(t)
	for i := range locks {
		server.Must(t, "HSET", fmt.Sprint("lock:", i), fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d:1", i), "1")
	}
	printed(t, server.Addr(), "ls") // the server knows the scripts from now on
	for _, args := range [][]string{{"ls"}, {"ls", "--wide"}, {"ls", "--json"}} {
		server.Must(t, "CONFIG", "RESETSTAT")
		if got := strings.Count(printed(t, server.Addr(), args...), "lock:"); got != locks {
			t.Errorf("%q shows %d locks, want %d", args, got, locks)
		}
		runs := 0
		for _, calls := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=([0-9]+)`).FindAllStringSubmatch(fmt.Sprint(server.Must(t, "INFO", "commandstats")), -1) {
			n, err := strconv.Atoi(calls[1])
			if err != nil {
				t.Fatal(err)
			}
			runs += n
		}
		if runs < locks || runs > locks+10 {
			t.Errorf("%q ran %d scripts for %d locks, want one for each and a few more", args, runs, locks)
		}
	}
}

// Redisson's clients do not tell who they are: those that listen for a release are counted.
func TestListenersAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "job", "8f1c2b3a-0000-4000-8000-000000000001:77", "1")
	for _, want := range []string{"1 Redisson client listens", "2 Redisson clients listen"} {
		conn, err := redistest.Dial(server.Addr(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Do("SUBSCRIBE", keyspace.LockChannel("job")); err != nil {
			t.Fatal(err)
		}
		if got := printed(t, server.Addr(), "show", "job"); !strings.Contains(got, "listening  "+want+"\n") {
			t.Errorf("show wrote %q, want %q", got, want)
		}
	}
}
