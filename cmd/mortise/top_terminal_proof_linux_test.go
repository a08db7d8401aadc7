//go:build proof

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/top"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The terminal is as it was, however top ends.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	ends := map[string]func(*testing.T, *topScreen){
		"q":      func(t *testing.T, s *topScreen) { s.press(t, "q") },
		"Ctrl-C": func(t *testing.T, s *topScreen) { s.press(t, "\x03") },
		"Ctrl-C in a dialog": func(t *testing.T, s *topScreen) {
			s.press(t, "u")
			s.shows(t, "Release it?")
			s.press(t, "\x03")
		},
		"SIGTERM while typing": func(t *testing.T, s *topScreen) {
			s.press(t, "/de")
			s.shows(t, "filter: de")
			s.signal(t, syscall.SIGTERM)
		},
		"SIGINT": func(t *testing.T, s *topScreen) { s.signal(t, syscall.SIGINT) },
		"SIGHUP": func(t *testing.T, s *topScreen) { s.signal(t, syscall.SIGHUP) },
		"Ctrl-C while it is too small": func(t *testing.T, s *topScreen) {
			s.resizeTerminal(t, 40, 10)
			s.shows(t, "mortise top needs 80 columns")
			s.press(t, "\x03")
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTop(t, server.Addr(), 80, 24, "deploy")
			s.row(t, "deploy", "8f1c2b3a")
			end(t, s)
			s.wantStatus(t, 0)
			s.restored(t)
			wantHeld(t, server, "deploy")
		})
	}
}

// When the terminal has gone, top ends, also if nobody tells it by a signal.
func TestTopEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	for _, before := range []string{"", "trap '' HUP; "} {
		s := openScreen(t, server.Addr(), 80, 24, nil, "sh", "-c", before+"exec mortise top deploy")
		s.row(t, "deploy", "8f1c2b3a")
		s.master.Close()
		if status := s.status(t); status != exitOutput && (status != 0 || before != "") { // 0: the signal came first
			t.Errorf("after %q, exit status %d, want %d", before, status, exitOutput)
		}
	}
}

func init() {
	bug := func(wrong func(*top.Options)) func() {
		return func() {
			d, err := connect.Open(context.Background(), os.Getenv("MORTISE_REDIS_URL"))
			if err != nil {
				panic(err)
			}
			o := top.Options{In: os.Stdin, Out: os.Stdout, Words: error.Error, Deadlocks: func([]mortise.ClientState) []*mortise.DeadlockError { return nil }}
			wrong(&o)
			if err := top.Run(context.Background(), d, o); err != nil {
				fmt.Println(err)
				os.Exit(exitBug)
			}
		}
	}
	programs["top-with-a-bug-in-a-look"] = bug(func(o *top.Options) {
		looks := 0
		o.Deadlocks = func([]mortise.ClientState) []*mortise.DeadlockError {
			if looks++; looks > 1 {
				panic("the bug")
			}
			return nil
		}
	})
	programs["top-with-a-bug-in-a-frame"] = bug(func(o *top.Options) {
		o.Deadlocks = func([]mortise.ClientState) []*mortise.DeadlockError {
			return []*mortise.DeadlockError{nil} // the screen takes each for one
		}
	})
}

// A bug leaves a terminal on which its text can be read.
func TestTopPanics(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for program, want := range map[string]string{"top-with-a-bug-in-a-look": "the bug", "top-with-a-bug-in-a-frame": "nil pointer dereference"} {
		s := openScreen(t, server.Addr(), 200, 50, nil, program)
		if status := s.status(t); status == 0 {
			t.Errorf("%s: it has ended without an error", program)
		}
		s.restored(t)
		s.shows(t, want, "goroutine ")
	}
}

// Ctrl-Z gives the terminal back to the shell, and fg the screen.
func TestTopStopsAndContinues(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	s := openScreen(t, server.Addr(), 80, 24, nil, "sh", "-i")
	s.press(t, "mortise top deploy\n")
	s.row(t, "deploy", "8f1c2b3a")
	s.press(t, "\x1a")
	s.leaves(t)
	s.press(t, "echo the shell $((40 + 2))\n")
	s.shows(t, "the shell 42")
	s.press(t, "fg\n")
	s.row(t, "deploy", "8f1c2b3a")
	s.press(t, "?")
	s.shows(t, "Keys")
	s.press(t, "qq")
	s.leaves(t)
	s.press(t, "exit 3\n")
	s.wantStatus(t, 3)
}

// Where no shell could continue it, as with ssh -t, Ctrl-Z does not stop it.
func TestTopGoesOnWithoutAShell(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "deploy", foreign, "1")
	s := openTop(t, server.Addr(), 80, 24, "deploy")
	for range 2 {
		s.row(t, "deploy", "8f1c2b3a")
		before := len(s.written())
		s.press(t, "\x1a")
		s.until(t, "the screen again", func(string) bool {
			text := s.written()[before:]
			left := strings.Index(text, "\x1b[?1049l")
			return left >= 0 && strings.Contains(text[left:], "\x1b[?1049h")
		})
		s.press(t, "?")
		s.shows(t, "Keys")
		s.press(t, "q")
	}
	s.row(t, "deploy", "8f1c2b3a")
	s.press(t, "q")
	s.wantStatus(t, 0)
	s.restored(t)
}

// The screen follows the size of the terminal.
func TestTopResizes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.chain()
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "deploy", "api-7")
	top.lacks(t, "KIND")
	top.resizeTerminal(t, 120, 40)
	top.shows(t, "KIND")
	top.until(t, "the keys in the last line", func(text string) bool {
		lines := strings.Split(text, "\n")
		return len(lines) == 40 && strings.Contains(lines[39], "q quit")
	})
	top.resizeTerminal(t, 79, 24)
	top.shows(t, "mortise top needs 80 columns and 24 lines; this terminal has 79 and 24.", "mortise ls")
	top.lacks(t, "deploy")
	top.resizeTerminal(t, 80, 24)
	top.row(t, "deploy", "api-7")
}

// Without a terminal that it can use, top says what to use instead.
func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "top")
	s.wantStatus(t, exitUsage)
	s.await(t, "mortise top needs a terminal for its input and its output\n")
	s.await(t, "mortise ls, or mortise who.")
	for _, kind := range []string{"TERM=dumb", "TERM="} {
		d := openScreen(t, server.Addr(), 80, 24, []string{kind}, "mortise", "top")
		d.wantStatus(t, exitUsage)
		d.shows(t, "mortise top needs a terminal that can move its cursor", "mortise watch")
		if strings.Contains(d.written(), "\x1b") {
			t.Errorf("%s: it has written %q", kind, d.written())
		}
		d.restored(t)
	}
}

// NO_COLOR leaves out the colours, and nothing that they tell.
func TestTopWithoutColour(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.cycle()
	colour := regexp.MustCompile(`\x1b\[[0-9;:]*\b[34]8[;:]|\x1b\[([0-9]+;)*(3[0-7]|9[0-7])[;m]`)
	for _, no := range []string{"", "1"} {
		top := openScreen(t, s.server.Addr(), 80, 24, []string{"NO_COLOR=" + no}, "mortise", "top")
		top.row(t, "! deadlock: ")
		top.row(t, "!▸ ")
		top.row(t, "▾WAITERS")
		if colours := colour.MatchString(top.written()); colours != (no == "") {
			t.Errorf("with NO_COLOR=%q, it writes colours: %v", no, colours)
		}
	}
}

// If Redis goes away, the screen keeps what it knew, and says since when; it goes on when Redis is back.
func TestTopWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.NewProxy(t, server.Addr())
	server.Must(t, "HSET", "deploy", foreign, "1")
	s := openTop(t, proxy.Addr(), 80, 24, "deploy")
	s.row(t, "deploy", "8f1c2b3a")
	proxy.Refuse()
	proxy.CutAll()
	s.row(t, "! Redis cannot be read since ", " ago: ")
	s.row(t, "deploy", "8f1c2b3a")
	s.press(t, "u")
	s.row(t, "! ", "reach")
	proxy.Accept(t)
	s.lacks(t, "cannot be read")
	server.Must(t, "DEL", "deploy")
	s.shows(t, "Nothing is held")
}

// What others have written neither does anything to the terminal nor moves what is next to it.
func TestTopOfHostileTexts(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	now := time.Now().UnixMilli()
	for i, text := range []string{
		"<img src=x onerror=alert(1)>", "\x1b[2J\x1b[31m", "\x1b]0;evil\x07", "\u202eabc", strings.Repeat("\xfe", 512), strings.Repeat("注", 170), "a\r\n\tb",
		"e\u0301\u0301\u0301", "👩\u200d🚀🇩🇪", "שלום", "\x9b31m", "\x00",
	} {
		id := fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", i)
		body, err := json.Marshal(record.Body{
			Host: text, PID: i, App: text, HoldCount: 1, WaitCount: 1,
			Holds: []record.Hold{{Name: "n" + text, Kind: "lock", Owner: id + ":1", Since: now - int64(i)*1000}},
			Waits: []record.Wait{{Name: "n" + text, Kind: "lock", Since: now - int64(i)*1000, For: text}},
		})
		if err != nil {
			t.Fatal(err)
		}
		server.Must(t, "HSET", "mortise:client:{"+id+"}", "body", string(body), "at", fmt.Sprint(now), "edition", "1")
		server.Must(t, "ZADD", "mortise:clients:{all}", fmt.Sprint(now+3_600_000), id)
		server.Must(t, "HSET", "n"+text, id+":1", "1")
	}
	s := openTop(t, server.Addr(), 80, 24)
	s.shows(t, "locks 12 ")
	lines, _ := s.look()
	for _, line := range lines[4:16] {
		if runes := []rune(line); !strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, " ▸") || !regexp.MustCompile(`[0-9]s$`).MatchString(line) || len(runes) > 80 {
			t.Errorf("a row is %q", line)
		}
	}
	// The numbers of all rows end in the last column but one.
	s.mu.Lock()
	for y := 4; y < 16; y++ {
		if c := s.vt.CellAt(78, y); c == nil || c.Content != "s" {
			t.Errorf("row %d is not where the others are:\n%s", y, strings.Join(lines, "\n"))
		}
	}
	s.mu.Unlock()
	s.press(t, "c")
	s.row(t, "CLIENT", "HOLDS")
	s.press(t, "\r")
	s.row(t, "holds ")
	if text := s.text(); strings.Contains(text, "\u202e") || strings.Contains(s.written(), "evil\x07") || strings.Contains(s.written(), "\x1b[2J\x1b[31m") {
		t.Errorf("it has written what others have:\n%s", text)
	}
	s.press(t, "qqq")
	s.wantStatus(t, 0)
	s.restored(t)
}

// With 10,000 locks every key is answered at once.
func TestTopOfManyLocks(t *testing.T) {
	t.Parallel()
	const clients, each = 160, 64
	server := redistest.Single(t)
	now := time.Now().UnixMilli()
	for i := range clients {
		b := record.Body{Host: fmt.Sprintf("api-%d", i), PID: 100 + i, App: "orders", HoldCount: each}
		id := fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", i)
		for j := range each {
			b.Holds = append(b.Holds, record.Hold{Name: fmt.Sprintf("order:%d", 10_000+i*each+j), Kind: "lock", Owner: fmt.Sprintf("%s:%d", id, j), Since: now - int64(i*each+j)})
		}
		body, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		server.Must(t, "HSET", "mortise:client:{"+id+"}", "body", string(body), "at", fmt.Sprint(now+60_000), "edition", "1")
		server.Must(t, "ZADD", "mortise:clients:{all}", fmt.Sprint(now+3_600_000), id)
	}
	server.Must(t, "EVAL", `for i = 0, tonumber(ARGV[2]) - 1 do
		redis.call('HSET', 'order:'..(10000 + i), ARGV[1]..string.format('%012d:%d', math.floor(i / 64), i % 64), '1')
	end`, "0", "8f1c2b3a-0000-8000-8000-", fmt.Sprint(clients*each))
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) { pressInManyLocks(t, b, server.Addr()) })
}

func pressInManyLocks(t *testing.T, b *canary.Bounds, addr string) {
	s := openTop(t, addr, 140, 40, "--load", "1000")
	s.shows(t, "locks 10,240")
	press := func(keys, shows string) {
		t.Helper()
		start := time.Now()
		s.press(t, keys)
		s.shows(t, shows)
		b.Within(fmt.Sprintf("the key %q, with 10,240 locks", keys), time.Since(start), 2*time.Second)
	}
	press("ssss", "LOCK▾")
	press("g", "▸ order:10000 ")
	press("G", "▸ order:20239 ")
	press("g", "▸ order:10000 ")
	press("\x1b[6~", "▸ order:10034 ")
	press("/20", "of 10,240 locks")
	press("23", "20239")
	press("9\r", "▸ order:20239 ")
	press("\r", "LAST HOLDERS")
	press("q\x1b", "▸ order:20239 ")
}

// A Redis that cannot be reached is an error, without a screen.
func TestTopWithoutAnyRedis(t *testing.T) {
	t.Parallel()
	s := openTop(t, "127.0.0.1:1", 80, 24)
	s.wantStatus(t, exitUnreachable)
	s.shows(t, "Tried redis://127.0.0.1:1")
	if strings.Contains(s.written(), "\x1b[?1049h") {
		t.Error("it has begun a screen")
	}
	s.restored(t)
}
