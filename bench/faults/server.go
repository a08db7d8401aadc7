package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/redistest"
)

// server is a redis-server without persistence.
type server struct {
	addr   string
	dir    string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}
}

// startServer starts a redis-server with additional options.
func startServer(args ...string) (*server, error) {
	l, err := redistest.ListenLow()
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close() // the server takes it over
	dir, err := os.MkdirTemp("", "mortise-faults")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	s := &server{addr: addr, dir: dir, args: slices.Concat([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
	}, args)}
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// start starts the server, again after kill.
func (s *server) start() error {
	cmd, exited := exec.Command(rig.RedisProgram(), s.args...), make(chan struct{})
	if err := rig.Launch(cmd); err != nil {
		return fmt.Errorf("start redis-server (REDIS_SERVER_BIN names another): %w", err)
	}
	go func() {
		_ = cmd.Wait() // only that it ended matters, not how
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return within(20*time.Second, "redis-server answers", func() (bool, error) {
		select {
		case <-exited:
			return false, fmt.Errorf("redis-server at %s ended at once", s.addr)
		default:
		}
		_, err := s.do("PING")
		return err == nil, nil
	})
}

// kill ends the server with SIGKILL and returns when it is gone.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended already
		<-s.exited
		s.cmd = nil
	}
}

// stop ends the server for good.
func (s *server) stop() {
	s.kill()
	_ = os.RemoveAll(s.dir) // it is in the system's directory for temporary files
}

// do sends a command on a connection of its own.
func (s *server) do(args ...string) (any, error) {
	conn, err := redistest.Dial(s.addr, "", "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(args...)
}

// exists reports whether there is a key.
func (s *server) exists(key string) (bool, error) {
	n, err := s.do("EXISTS", key)
	return n == int64(1), err
}

// commands returns how many commands of clients the server has run.
func (s *server) commands() (n int64, err error) {
	text, err := s.do("INFO", "stats")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(fmt.Sprint(text), "total_commands_processed:")
	_, err = fmt.Sscan(after, &n)
	return n, err
}

// listeners returns the addresses of the connections with a subscription, or with tracking.
func (s *server) listeners() (addrs []string, err error) {
	text, err := s.do("CLIENT", "LIST")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(fmt.Sprint(text)) {
		var addr, flags string
		for field := range strings.FieldsSeq(line) {
			if name, value, _ := strings.Cut(field, "="); name == "addr" {
				addr = value
			} else if name == "flags" {
				flags = value
			}
		}
		if strings.ContainsAny(flags, "Pt") {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

// within waits until ready, which has no event to wait for.
func within(limit time.Duration, state string, ready func() (bool, error)) error {
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: still not so after %v", state, limit)
		}
	}
}
