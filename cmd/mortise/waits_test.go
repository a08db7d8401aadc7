package main

import (
	"net"
	"regexp"
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

// A command that waits for Redis at its start says so, and that time counts as its wait.
func TestSaysThatItWaitsForRedis(t *testing.T) {
	for name, args := range map[string][]string{
		"run":   {"run", "-v", "-w", "1m", "job", "--", "true"},
		"latch": {"latch", "ready", "wait", "-v", "-w", "1m"},
		"elect": {"elect", "-v", "-w", "1m", "job", "--", "true"},
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
			s.await(t, " of 1m0s for Redis at redis://"+addr+": ")
			startServer(t, addr)
			s.wantStatus(t, 0)
			if said := s.out.text(); name != "latch" && !regexp.MustCompile(`got job after [0-9.]+s, as`).MatchString(said) {
				t.Errorf("it says\n%swant how long it has waited", said)
			}
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
