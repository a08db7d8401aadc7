package main

import (
	"net"
	"testing"
)

// A command that waits also waits for a Redis that is just restarting; one that does not wait fails at once.
func TestWaitsForRedis(t *testing.T) {
	for name, args := range map[string][]string{
		"limited":   {"run", "-w", "1m", "job", "--", "true"},
		"unlimited": {"run", "job", "--", "true"},
		"latch":     {"latch", "ready", "wait", "-w", "1m"},
		"elect":     {"elect", "-w", "1m", "lead", "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := l.Addr().String()
			s := begin(t, addr, args...)
			turnAway(t, l)
			startServer(t, addr)
			s.wantStatus(t, 0)
		})
	}
}

func TestDoesNotWaitForRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, l.Addr().String(), "run", "-n", "job", "--", "true")
	turnAway(t, l)
	s.wantStatus(t, exitUnreachable)
}

// turnAway closes the first connection, and the port.
func turnAway(t *testing.T, l net.Listener) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = l.Close()
}
