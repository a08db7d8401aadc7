//go:build proof

package main

import (
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/memredis"
)

// listen starts an embedded server.
func listen(t *testing.T) *memredis.Server {
	t.Helper()
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// A wait that is too short for an answer of Redis is none: a free lock is acquired, and a held one is reported. And
// the time to wait is not the time to work. To reach Redis there is always a second.
func TestShortWaits(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		server := listen(t)
		holder := begin(t, server.Addr(), "run", "held", "-c", "echo ready; exec sleep 1000")
		holder.await(t, "ready\n")
		for _, test := range []struct {
			line   string
			status int
		}{
			{"run -w 0.0000001 held -- echo ran", exitBusy},
			{"run -w 1ns free -- echo ran", 0},
			{"run -w 500ms free -c", 0},
		} {
			args := strings.Fields(test.line)
			if args[len(args)-1] == "-c" {
				args = append(args, "sleep 0.8; echo ran")
			}
			start := time.Now()
			s := begin(t, server.Addr(), args...)
			status, took := s.status(t), time.Since(start)
			if status == exitUnreachable {
				b.Within("a connection for mortise "+test.line, took, connectLeast)
				continue
			}
			if ran := strings.Contains(s.out.text(), "ran\n"); status != test.status || ran != (status == 0) {
				t.Errorf("mortise %s: exit status %d, and it wrote %q; want %d", test.line, status, s.out.text(), test.status)
			}
		}
	})
}

// Who waits at a prompt for names does not wait for a Redis that says nothing.
func TestCompletionEndsInTime(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		start := time.Now()
		s := begin(t, silent.Addr().String(), "__complete", "show", "")
		if status := s.status(t); status != 0 || !strings.HasPrefix(s.out.text(), ":4\n") {
			t.Errorf("exit status %d, and it wrote %q; want no names", status, s.out.text())
		}
		b.Within("a completion on a silent Redis", time.Since(start), completionLimit+500*time.Millisecond)
	})
}

// --max-hold ends a command after the time that it names, and not before.
func TestMaxHoldEndsTheCommandInTime(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		const most = 2 * time.Second
		start := time.Now()
		s := begin(t, listen(t).Addr(), "run", "--max-hold", most.String(), "--kill-after", "100ms", "job", "-c", "echo ready; exec sleep 1000")
		s.await(t, "ready\n")
		ready := time.Now()
		s.wantStatus(t, exitLost)
		b.Within("the end of a command with --max-hold "+most.String(), time.Since(ready), most+time.Second)
		if took := time.Since(start); took < most {
			t.Errorf("it was ended after %v, before the time of --max-hold", took)
		}
	})
}

// watch ends when the time of --for is over.
func TestWatchEndsInTime(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		const length = 3 * time.Second
		s := begin(t, listen(t).Addr(), "watch", "job", "--for", length.String())
		s.wantStatus(t, 0)
		told := regexp.MustCompile(`(?m)^watched for ([0-9.]+s): 0 events`).FindStringSubmatch(s.out.text())
		if told == nil {
			t.Fatal("it does not say for how long it has watched")
		}
		took, err := time.ParseDuration(told[1])
		if err != nil || took < length {
			t.Errorf("it has watched for %v (%v), want %v at least", took, err, length)
		}
		b.Within("watch --for 3s", took, length+time.Second)
	})
}
