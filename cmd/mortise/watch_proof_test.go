//go:build proof

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// beginWatch starts a watch whose streams are apart, and waits until it has looked once.
func beginWatch(t *testing.T, server *redistest.Server, addr string, args ...string) (s *session, stdout *transcript) {
	t.Helper()
	s = prepare(addr, exec.Command("mortise", append([]string{"watch"}, args...)...))
	stdout = &transcript{}
	s.cmd.Stdout, s.cmd.Stderr = stdout, &s.out
	before := commandCalls(t, server)
	s.launch(t)
	redistest.Eventually(t, "it looks", func() error {
		if n := commandCalls(t, server) - before; n < 4 {
			return fmt.Errorf("%d commands", n)
		}
		return nil
	})
	return s, stdout
}

// commandCalls returns how many scripts and other commands the server was sent, without those of the
// test and of connections.
func commandCalls(t *testing.T, server *redistest.Server) (calls int) {
	t.Helper()
	text, ok := server.Must(t, "INFO", "commandstats").(string)
	if !ok {
		t.Fatal("no commandstats")
	}
	for line := range strings.Lines(text) {
		for _, name := range []string{"eval", "evalsha"} {
			var n, usec int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,usec=%d", &n, &usec); err == nil {
				calls += n
			}
		}
	}
	return calls
}

// Two processes want one lock: the waiter is seen, and that the lock goes from one to the other.
func TestWatchTwoProcesses(t *testing.T) {
	t.Parallel()
	canary.Judge(t, watchTwoProcesses)
}

func watchTwoProcesses(t *testing.T, b *canary.Bounds) {
	server := redistest.Single(t)
	w, out := beginWatch(t, server, server.Addr(), "jo?", "--json")
	end, last := t.TempDir()+"/end", t.TempDir()+"/last"
	first := begin(t, server.Addr(), "run", "job", "-c", "while [ ! -e "+end+" ]; do sleep 0.02; done")
	awaitText(t, out, `"acquired"`)
	second := begin(t, server.Addr(), "run", "job", "-c", "sleep 2; while [ ! -e "+last+" ]; do sleep 0.02; done")
	awaitText(t, out, `"waiting"`)
	touch(t, end)
	first.wantStatus(t, 0)
	awaitText(t, out, `"granted"`)
	touch(t, last)
	second.wantStatus(t, 0)
	awaitText(t, out, fmt.Sprintf(`"pid":%d,"app":"mortise","command":"sh"},"held_ms":`, second.cmd.Process.Pid))
	w.signal(t, syscall.SIGINT)
	w.wantStatus(t, 0)
	seen := parseWatch(t, out.text())
	pids := [2]int{first.cmd.Process.Pid, second.cmd.Process.Pid}
	var story []string
	for _, e := range seen.events {
		story = append(story, fmt.Sprintf("%s %s %d", e.Type, *e.Lock, e.party().PID))
		late := e.Seen.Sub(e.Time)
		b.Within(e.Type+" is seen", late, 10*time.Second)
		if late < 0 {
			t.Errorf("%+v was seen %v after it happened", e, late)
		}
	}
	want := []string{fmt.Sprintf("acquired job %d", pids[0]), fmt.Sprintf("waiting job %d", pids[1]), fmt.Sprintf("released job %d", pids[0]), fmt.Sprintf("granted job %d", pids[1]), fmt.Sprintf("released job %d", pids[1])}
	if fmt.Sprint(story) != fmt.Sprint(want) {
		t.Fatalf("it tells %q, want %q", story, want)
	}
	if s := seen.summary; s.Events != 5 || len(s.Locks) != 1 || s.Locks[0].Acquisitions != 2 || s.Locks[0].LongestWait.Party.PID != pids[1] || s.Looks < 5 || s.Commands < 10 {
		t.Errorf("the summary is %+v", s)
	}
	checkGrant(t, b, seen.events, pids[0])
}

// checkGrant fails the test if the story of TestWatchTwoProcesses lacks who waited for whom, and how long.
func checkGrant(t *testing.T, b *canary.Bounds, events []eventLine, first int) {
	t.Helper()
	waiting, granted, released := events[1], events[3], events[4]
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if waiting.For == nil || waiting.For.PID != first || granted.From == nil || granted.From.PID != first || granted.Waited == nil || granted.Holder.Host != host {
		t.Errorf("the grant is %+v after %+v", granted, waiting)
	}
	held := time.Duration(*released.Held) * time.Millisecond
	b.Within("a hold of 2s, as it is seen", held, 20*time.Second)
	if held < 1900*time.Millisecond {
		t.Errorf("it was held for %v, want about 2s", held)
	}
}

// awaitText waits until text was written to out.
func awaitText(t *testing.T, out *transcript, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		have, more := out.look()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("%q was not written, but\n%s", text, have)
		}
	}
}

// A trace has a slice for a hold that is over, and for one that lasts.
func TestWatchTrace(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	lasting := begin(t, server.Addr(), "run", "lasting", "--", "sleep", "100")
	awaitHeld(t, server, "lasting")
	w, out := beginWatch(t, server, server.Addr(), "-o", "trace", "-n", "3")
	runs := 0
	for ended := false; !ended; runs++ {
		begin(t, server.Addr(), "run", "job", "--", "sleep", "1").wantStatus(t, 0)
		select {
		case <-w.exited:
			ended = true
		case <-time.After(5 * time.Second): // it has missed a hold that was so short
		}
	}
	w.wantStatus(t, 0)
	slices, processes := tracedSlices(t, out.text())
	if !slices["hold job"] || !slices["hold lasting"] || len(processes) < 2 || len(processes) > 1+runs {
		t.Errorf("slices %v of %v, want the holds of job and of lasting", slices, processes)
	}
	if want := fmt.Sprintf("pid %d (mortise: sleep)", lasting.cmd.Process.Pid); !strings.Contains(fmt.Sprint(processes), want) {
		t.Errorf("the processes are %v, want %q", processes, want)
	}
	if !strings.Contains(w.out.text(), "ui.perfetto.dev") {
		t.Errorf("it says %q", w.out.text())
	}
}

// A watch whose reader has gone ends silently.
func TestWatchIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(server.Addr(), exec.Command("mortise", "watch"))
	s.cmd.Stdout, s.cmd.Stderr = out, &s.out
	s.launch(t)
	out.Close()
	end := t.TempDir() + "/end"
	first := begin(t, server.Addr(), "run", "job", "-c", "until [ -e "+end+" ]; do sleep 0.02; done")
	if _, err := io.ReadFull(in, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	in.Close()
	touch(t, end)
	first.wantStatus(t, 0)
	s.wantSignal(t, syscall.SIGPIPE)
	if text := s.out.text(); text != "" {
		t.Errorf("it says %q, want nothing", text)
	}
}

// A watch goes on when Redis was away.
func TestWatchWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.NewProxy(t, server.Addr())
	hold := begin(t, server.Addr(), "run", "job", "--", "sleep", "100")
	awaitHeld(t, server, "job")
	w, out := beginWatch(t, server, proxy.Addr(), "--json")
	awaitText(t, out, `"lock":"job"`)
	proxy.Refuse()
	proxy.CutAll()
	awaitText(t, out, "Redis cannot be read")
	hold.signal(t, syscall.SIGTERM)
	hold.wantStatus(t, 128+int(syscall.SIGTERM))
	proxy.Accept(t)
	awaitText(t, out, "Redis can be read again")
	awaitText(t, out, `"released"`)
	again := begin(t, server.Addr(), "run", "again", "--", "sleep", "100")
	awaitText(t, out, `"lock":"again"`)
	again.signal(t, syscall.SIGTERM)
	w.signal(t, syscall.SIGTERM)
	w.wantStatus(t, 0)
	for _, e := range parseWatch(t, out.text()).events {
		if e.Type == "released" && *e.Lock == "job" && !e.Unsure {
			t.Errorf("%+v is said to be sure", e)
		}
	}
}

// What others have written cannot do anything to a terminal.
func TestWatchOfHostileRecords(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const id = "8f1c2b3a-0000-8000-8000-000000000001"
	evil := "\x1b]0;evil\x07\n\u202e"
	body, err := json.Marshal(map[string]any{
		"host": evil, "pid": -5, "app": evil, "started": 1,
		"holds": []map[string]any{{"name": "job" + evil, "kind": evil, "owner": id + ":1" + evil, "since": int64(-1) << 62}, {"name": "", "kind": "lock", "owner": ""}},
		"waits": []map[string]any{{"name": "job" + evil, "kind": evil, "since": int64(1)<<62 + 1, "for": evil}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Must(t, "HSET", "mortise:client:{"+id+"}", "body", string(body), "at", "9999999999999", "edition", "1", "ask:"+id+":1"+evil, `{"by":"`+"\u202e"+`\u001b[2J","reason":"\u0007"}`)
	server.Must(t, "ZADD", "mortise:clients:{all}", "9999999999999", id)
	server.Must(t, "HSET", "mortise:client:{x}", "body", strings.Repeat("[", 100_000), "at", "1", "edition", "1")
	server.Must(t, "ZADD", "mortise:clients:{all}", "9999999999999", "x")
	server.Must(t, "HSET", "lock"+evil, id+":2"+evil, "1")
	for _, form := range []string{"text", "json", "trace"} {
		w, out := beginWatch(t, server, server.Addr(), "-n", "3", "--for", "8s", "-o", form)
		w.wantStatus(t, 0)
		text := out.text() + w.out.text()
		if strings.ContainsAny(text, "\x1b\x07") || form == "text" && strings.Contains(text, "\u202e") || !strings.Contains(text, "evil") {
			t.Errorf("%s is %q", form, text)
		}
		if form == "json" {
			parseWatch(t, out.text())
		}
	}
}
