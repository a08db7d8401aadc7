//go:build proof

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

const foreignOwner = "8f1c2b3a-0000-4000-8000-000000000001:77"

// On a terminal unlock --force shows who loses the lock, and releases it only after a yes.
func TestUnlockAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for answer, test := range map[string]struct {
		status int
		says   string
	}{
		"y\n":   {0, "freed job, which was held by " + foreignOwner},
		"Yes\n": {0, "freed job, which was held by " + foreignOwner},
		"n\n":   {1, "nothing was released"},
		"\n":    {1, "nothing was released"},
		"\x04":  {1, "nothing was released"}, // the end of the input
		"\x03":  {130, ""},
	} {
		t.Run(strconv.Quote(answer), func(t *testing.T) {
			server.Must(t, "HSET", "job", foreignOwner, "2")
			s, terminal := onTerminal(t, server.Addr(), "mortise", "unlock", "job", "--force")
			s.await(t, "mortise: job is held by "+foreignOwner+" without a time limit\r\n")
			s.await(t, "[y/N] ")
			typeIn(t, terminal, answer)
			s.wantStatus(t, test.status)
			s.await(t, test.says)
			if held := server.Int(t, "EXISTS", "job") == 1; held != (test.status != 0) {
				t.Errorf("after %q the lock is held: %v", answer, held)
			}
		})
	}
}

// A holder that the user has not seen loses nothing.
func TestUnlockAfterAChange(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "HSET", "job", foreignOwner, "1")
	s, terminal := onTerminal(t, server.Addr(), "mortise", "unlock", "job", "--force")
	s.await(t, "[y/N] ")
	other := strings.Replace(foreignOwner, ":77", ":78", 1)
	server.Must(t, "DEL", "job")
	server.Must(t, "HSET", "job", other, "1")
	typeIn(t, terminal, "y\n")
	s.wantStatus(t, 1)
	s.await(t, "has changed hands meanwhile, so nothing was released: it is held by "+other)
	if server.Int(t, "EXISTS", "job") != 1 {
		t.Error("the new holder has lost the lock")
	}
}

// With --yes, and without --force, nobody is asked, also on a terminal.
func TestUnlockDoesNotAsk(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for _, flags := range [][]string{{"--force", "--yes"}, {"--owner", foreignOwner}} {
		server.Must(t, "HSET", "job", foreignOwner, "1")
		s, _ := onTerminal(t, server.Addr(), append([]string{"mortise", "unlock", "job"}, flags...)...)
		s.wantStatus(t, 0)
		s.await(t, "freed job")
	}
}

// ls writes what it finds at once, and on a terminal shows how far it is. Here it is interrupted before its end.
func TestListOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Must(t, "EVAL", `for i = 1, 20000 do redis.call('HSET', 'job:' .. i, ARGV[1], 1) end`, "0", foreignOwner)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.Delay(100 * time.Millisecond)
	s, terminal := onTerminal(t, proxy.Addr(), "sh", "-c", "stty cols 100; TERM=xterm exec mortise ls")
	s.awaitMatch(t, "job:[0-9]+ +lock +no limit  1      "+foreignOwner+"\r\n")
	s.awaitMatch(t, "\r[1-9][0-9]*s: [1-9][0-9]* keys? looked at; Ctrl-C ends it\x1b\\[K")
	typeIn(t, terminal, "\x03")
	s.wantSignal(t, syscall.SIGINT)
}
