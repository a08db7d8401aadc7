// Package examples_test runs the programs in the folders below, as processes, on an embedded Redis.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
	_ "modernc.org/sqlite"
)

// bin is a directory with all programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "mortise-examples-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(bin) }()
		build := exec.Command("go", "build", "-o", bin, "./...", "github.com/mortise-go/mortise/cmd/mortise")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// world is an embedded Redis, and a client of it.
type world struct {
	server *memredis.Server
	client *mortise.Client
}

func newWorld(t *testing.T) *world {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// With a record, others would name its process once it holds a lock for a while, and its owner before.
	client := mortise.New(server.Driver(), &mortise.Options{Identity: mortise.Identity{Hide: true}})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return &world{server, client}
}

// program returns the command of a program.
func (w *world) program(t *testing.T, name string, args ...string) *exec.Cmd {
	_, _ = os.Stat(filepath.Join(name, "main.go")) // so that go test knows what a result depends on
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	url := "redis://" + w.server.Addr()
	cmd.Env = append(os.Environ(), "REDIS_URL="+url, "MORTISE_REDIS_URL="+url, "LISTEN=127.0.0.1:0", "PATH="+bin+":"+os.Getenv("PATH"))
	return cmd
}

// prints runs a program to its end, which must be as expected.
func prints(t *testing.T, cmd *exec.Cmd, succeeds bool, want ...string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			t.Errorf("%s printed\n%s\nwant: %s", cmd, out, text)
		}
	}
}

// begin starts a program and returns its output, line by line.
func begin(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out)
}

// await reads lines until one matches, and returns what the pattern's parentheses enclose.
func await(t *testing.T, lines *bufio.Scanner, pattern string) string {
	t.Helper()
	var read bytes.Buffer
	for lines.Scan() {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); found != nil {
			return found[len(found)-1]
		}
		fmt.Fprintln(&read, lines.Text())
	}
	t.Fatalf("no line matches %s:\n%s", pattern, &read)
	return ""
}

// end tells a program to end, which it must do without an error.
func end(t *testing.T, cmd *exec.Cmd, rest *bufio.Scanner) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	var last bytes.Buffer
	for rest.Scan() {
		fmt.Fprintln(&last, rest.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, &last)
	}
}

func TestNightly(t *testing.T) { t.Parallel(); nightly(t) }

func nightly(t *testing.T) {
	w := newWorld(t)
	hold, _, err := w.client.Lock("nightly:report").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	prints(t, w.program(t, "nightly"), true, "another machine writes the report, or has written it: held by "+hold.Owner())
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	prints(t, w.program(t, "nightly"), true, "reporting on orders", "reporting on returns")
	// A machine whose clock is late finds no work, although the first has ended.
	prints(t, w.program(t, "nightly"), true, "another machine writes the report, or has written it: kept for another ")
}

func TestOrders(t *testing.T) { t.Parallel(); orders(t) }

func orders(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "orders")
	cmd := w.program(t, "orders", file)
	lines := begin(t, cmd)
	url := await(t, lines, `listens on (http://\S+)`)
	answers := func(order string, want int, says string) {
		t.Helper()
		post := func() *http.Response {
			response, err := http.Post(url+"/orders/"+order+"/shipment", "text/plain", nil)
			if err != nil {
				t.Fatal(err)
			}
			return response
		}
		response := post()
		// On a busy machine Redis may not answer in time: then a client tries again.
		for begin := time.Now(); response.StatusCode == http.StatusServiceUnavailable && want != response.StatusCode && time.Since(begin) < time.Minute; {
			response.Body.Close()
			response = post()
		}
		text, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || response.StatusCode != want || !strings.Contains(string(text), says) {
			t.Errorf("order %s: %v, %s, %s; want status %d: %s", order, err, response.Status, text, want, says)
		}
		if busy := want == http.StatusLocked || want == http.StatusServiceUnavailable; busy && response.Header.Get("Retry-After") == "" {
			t.Errorf("order %s: status %d does not say when to try again", order, want)
		}
	}
	answers("42", http.StatusOK, "now")
	hold, _, err := w.client.Lock("order:42").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers("42", http.StatusLocked, "somebody else")
	answers("43", http.StatusOK, "now")
	answers("%01", http.StatusBadRequest, "number")
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	answers("42", http.StatusOK, "before")
	first := url
	other := w.program(t, "orders", file)
	more := begin(t, other)
	url = await(t, more, `listens on (http://\S+)`)
	answers("43", http.StatusOK, "before")
	answers("44", http.StatusOK, "now")
	end(t, other, more)
	url = first
	answers("44", http.StatusOK, "before")
	endsWithItsRequests(t, w, first, cmd, lines)
	another := w.program(t, "orders", file)
	more = begin(t, another)
	url = await(t, more, `listens on (http://\S+)`)
	answers("45", http.StatusOK, "order 45 is shipped")
	w.server.Close()
	answers("42", http.StatusServiceUnavailable, "at the moment")
	end(t, another, more)
}

// endsWithItsRequests ends a program in which a request waits for its lock: the request gets the lock and an answer.
func endsWithItsRequests(t *testing.T, w *world, url string, cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	hold, _, err := w.client.Lock("order:45").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		response, err := http.Post(url+"/orders/45/shipment", "text/plain", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- response.Status
		_ = response.Body.Close()
	}()
	for waiting := false; !waiting && len(answered) == 0; {
		q, err := w.client.Queue(t.Context(), "order:45")
		if err != nil {
			t.Fatal(err)
		}
		waiting = len(q.Waiters) > 0
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(t, cmd, lines)
	}()
	for connects := true; connects; { // until it ends
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if connects = err == nil; connects {
			_ = conn.Close()
		}
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "200 OK" && got != "423 Locked" { // the latter if the machine was slow
		t.Errorf("a request under way is answered %q", got)
	}
	<-ended
}

func TestWorkers(t *testing.T) { t.Parallel(); workers(t) }

func workers(t *testing.T) {
	w := newWorld(t)
	out, err := w.program(t, "workers", "a", "b", "c", "d", "e", "f").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	running, done := 0, 0
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "begins") {
			running++
		} else {
			running--
			done++
		}
		if running > 2 {
			t.Errorf("%d run at the same time, want at most 2\n%s", running, out)
		}
	}
	available, err := w.client.PermitSemaphore("converter:licenses").Available(t.Context())
	if done != 6 || available != 2 || err != nil {
		t.Errorf("%d are done, %d licenses are available, %v; want 6 and 2\n%s", done, available, err, out)
	}
}

// The process that is told to end hands over: it does not leave its lease to its end.
func TestLeader(t *testing.T) { t.Parallel(); leader(t) }

func leader(t *testing.T) {
	w := newWorld(t)
	first := w.program(t, "leader")
	lines := begin(t, first)
	await(t, lines, `leads, term 1$`)
	second := w.program(t, "leader")
	more := begin(t, second)
	end(t, first, lines)
	leader, err := w.client.Election("scheduler").Leader(t.Context())
	if was := fmt.Sprintf("process %d", first.Process.Pid); err != nil && !errors.Is(err, mortise.ErrNoLeader) || leader.Value == was {
		t.Errorf("the leader is %q, %v, after %s has ended", leader.Value, err, was)
	}
	await(t, more, `leads, term 2$`)
	end(t, second, more)
}

func TestLedger(t *testing.T) { t.Parallel(); ledger(t) }

func ledger(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "ledger")
	prints(t, w.program(t, "ledger", file, "7", "10"), true, "account 7 has 10, written with token 1")
	prints(t, w.program(t, "ledger", file, "7", "5"), true, "account 7 has 15, written with token 2")

	// As if this process had been frozen since before another one wrote with token 9.
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `UPDATE account SET balance = 100, token = 9`); err != nil {
		t.Fatal(err)
	}
	prints(t, w.program(t, "ledger", file, "7", "1"), false, "a newer holder of the lock has written this account")
	var balance int
	if err := db.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance); err != nil || balance != 100 {
		t.Errorf("the balance is %d, %v; want 100", balance, err)
	}
}

// The line of the crontab makes the report, unless another machine does.
func TestCron(t *testing.T) { t.Parallel(); cron(t) }

func cron(t *testing.T) {
	w := newWorld(t)
	crontab, err := os.ReadFile("cron/crontab")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ \S+ +root +(mortise .*)$`).FindSubmatch(crontab)
	if line == nil {
		t.Fatalf("the crontab has no line with mortise:\n%s", crontab)
	}
	report := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(report, []byte("#!/bin/sh\necho report $*\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	machine := func(want string) {
		t.Helper()
		text := string(line[1])
		if want == "" { // the lock is held: a minute would be in vain
			text = strings.Replace(text, " -w 60 ", " -w 10 ", 1)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
		cmd.Env = append(w.program(t, "mortise").Env, "PATH="+filepath.Dir(report)+":"+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v, %q; want %q", cmd, err, out, want)
		}
	}
	hold, _, err := w.client.Lock("nightly:report").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	machine("")
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	machine("report --all\n")
	// The clock of another machine is late, and the report is made.
	machine("")
	// The next night.
	if _, err := w.client.Lock("nightly:report").ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	machine("report --all\n")
}

// A script of several steps runs under one lock, also inside a run of another name, and not a second time inside itself.
func TestSteps(t *testing.T) {
	t.Parallel()
	steps(t, "steps/deploy.sh")
}

// stale is what a process that was started under the lock has in its environment for ever.
var stale = []string{"MORTISE_NAME=deploy", "MORTISE_HELD=1", "MORTISE_OWNER=8f1c2b3a-0000-8000-8000-000000000001:1"}

func steps(t *testing.T, script string) {
	w := newWorld(t)
	hold, _, err := w.client.Lock("deploy").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(cmd *exec.Cmd) chan string {
		ended := make(chan string, 1)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v", cmd, err)
			}
			ended <- string(out)
		}()
		return ended
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = w.program(t, "mortise").Env
		return cmd
	}
	first := command(script, "shop")
	first.Env = append(first.Env, stale...)
	waiting := run(first)
	const want = "migrating shop\nrestarting shop\n"
	for queued := 0; queued == 0; {
		q, err := w.client.Queue(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		queued = len(q.Waiters)
		select {
		case out := <-waiting:
			t.Fatalf("%s did not wait: %s", script, out)
		default:
		}
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	if got := <-waiting; got != want {
		t.Errorf("%s printed %q, want %q", script, got, want)
	}
	if got := <-run(command(filepath.Join(bin, "mortise"), "run", "other", "--", script, "shop")); got != want {
		t.Errorf("%s printed %q under another lock, want %q", script, got, want)
	}
	if got := <-run(command(filepath.Join(bin, "mortise"), "run", "deploy", "--", script, "shop")); got != want {
		t.Errorf("%s printed %q under its lock, want %q", script, got, want)
	}
}
