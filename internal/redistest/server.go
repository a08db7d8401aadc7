package redistest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit is how long a test waits for what must happen: for a server to reach a state, or to answer. It is far
// above what a healthy one needs, so that a busy machine does not fail tests; that something happens soon is not
// judged with it, but in virtual time, or with package canary.
const limit = time.Minute

// Server is one running redis-server. It is safe for concurrent use.
type Server struct {
	port, busPort int
	dir           string
	args          []string
	env           []string // in addition to that of the test
	password      string
	log           lockedBuffer

	mu     sync.Mutex // guards the fields below
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has been waited for
	admin  *Conn
}

// Single starts a server without persistence. Args are redis-server options,
// such as "--requirepass", "secret", and override those that Single sets.
func Single(t testing.TB, args ...string) *Server {
	t.Helper()
	return single(t, nil, args)
}

// single is Single with additions to the environment.
func single(t testing.TB, env, args []string) *Server {
	t.Helper()
	defaults := append([]string{
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--loglevel", "notice",
	}, debugCommand(t)...)
	return launch(t, env, func(int, int) []string { return append(defaults, args...) })
}

// debugCommand returns the option that allows the command DEBUG. Before Redis 7.0 there was none,
// and DEBUG was always allowed.
func debugCommand(t testing.TB) []string {
	t.Helper()
	if !Current(t).AtLeast(7, 0) {
		return nil
	}
	return []string{"--enable-debug-command", "yes"}
}

// stopWith stops s at the end of t, and shows its log if t has failed.
func (s *Server) stopWith(t testing.TB) {
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of redis-server %s:\n%s", s.Addr(), s.log.tail(10))
		}
	})
}

// Replica starts a replica of master and waits until it is in sync.
func Replica(t testing.TB, master *Server, args ...string) *Server {
	t.Helper()
	r := Single(t, append(master.asReplica(), args...)...)
	await(t, "replica in sync", func() error {
		return r.wantInfo("replication", "master_link_status", "up")
	})
	return r
}

// AwaitReplicas waits until that many replicas have all that s has now.
func (s *Server) AwaitReplicas(t testing.TB, n int) {
	t.Helper()
	await(t, "replicas in sync", func() error {
		// WAIT is about the last command of its connection that was sent to replicas, and not about those of others.
		if _, err := s.Do("PUBLISH", "mortise:test:sync", ""); err != nil {
			return err
		}
		// Each try asks for more than the one before, so each lasts longer than any lag of a test.
		v, err := s.Do("WAIT", strconv.Itoa(n), "5000")
		if err == nil && v != int64(n) {
			err = fmt.Errorf("%v of %d have it", v, n)
		}
		return err
	})
}

// asReplica returns the options of a replica of s.
func (s *Server) asReplica() []string {
	options := []string{"--replicaof", "127.0.0.1", strconv.Itoa(s.port)}
	if s.password != "" {
		options = append(options, "--masterauth", s.password, "--requirepass", s.password)
	}
	return options
}

// launch starts a server with the options that args returns for its port and cluster bus port.
// If a port was taken meanwhile, it tries another.
func launch(t testing.TB, env []string, args func(port, busPort int) []string) *Server {
	t.Helper()
	dir := t.TempDir()
	var err error
	for range 10 {
		s := &Server{dir: dir, env: env}
		s.port, s.busPort = freePorts(t)
		s.args = append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", dir},
			args(s.port, s.busPort)...)
		for i, a := range s.args[:len(s.args)-1] {
			if a == "--requirepass" {
				s.password = s.args[i+1]
			}
		}
		if err = s.start(); err == nil {
			s.stopWith(t)
			return s
		}
		if !bytes.Contains([]byte(s.log.tail(40)), []byte("Address already in use")) {
			break
		}
	}
	t.Fatal(err)
	return nil
}

// start runs the program, with more options for this run, and waits until it answers.
func (s *Server) start(more ...string) error {
	path, err := Program()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, append(slices.Clone(s.args), more...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // only that it ended matters, not how
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()

	return poll(func() error {
		select {
		case <-exited:
			return final{fmt.Errorf("redis-server %s ended at once:\n%s", s.Addr(), s.log.tail(20))}
		default:
		}
		return s.isOurs()
	})
}

// isOurs returns an error if another server answers at the address than the one that was started, or none does.
func (s *Server) isOurs() error {
	if _, err := s.Do("PING"); err != nil { // it may still be loading
		return err
	}
	pid, err := s.Info("server", "process_id")
	if err != nil {
		return err
	}
	if want := strconv.Itoa(s.cmd.Process.Pid); pid != want {
		return fmt.Errorf("at %s answers the server with pid %s, not the one with pid %s", s.Addr(), pid, want)
	}
	return nil
}

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Port returns the port the server listens on.
func (s *Server) Port() int { return s.port }

// Password returns what --requirepass set, empty if nothing.
func (s *Server) Password() string { return s.password }

// Stop kills the server and waits until it is gone. Connections are reset.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	cmd, exited, admin := s.cmd, s.exited, s.admin
	s.cmd, s.admin = nil, nil
	s.mu.Unlock()
	if admin != nil {
		admin.Close()
	}
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it may have ended already
	<-exited
}

// Kill is Stop: the server gets SIGKILL and loses what it has in memory.
func (s *Server) Kill() { s.Stop() }

// Restart stops the server and starts it again on the same port. Without
// persistence it comes back empty, and without scripts.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.Start(t)
}

// Start starts a stopped server again on its port.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// StartAsReplica starts a stopped server again as a replica of master. One that was a master, and is
// only started, is a second master until it is told, and sentinels take their time for that.
func (s *Server) StartAsReplica(t testing.TB, master *Server) {
	t.Helper()
	if err := s.start(master.asReplica()...); err != nil {
		t.Fatal(err)
	}
}

// Pause freezes the server with SIGSTOP: the kernel still accepts connections for it, but it
// answers nothing. Resume ends the pause; so does the end of the test.
func (s *Server) Pause(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		t.Fatalf("redis-server %s does not run", s.Addr())
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal redis-server %s: %v", s.Addr(), err)
	}
}

// FreePort returns a free loopback port of this process.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := nextPort(2*half, free)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freePorts returns two free ports, for the clients and for the bus of a cluster. Before Redis 7.0
// no option sets the second one.
func freePorts(t testing.TB) (port, bus int) {
	t.Helper()
	if Current(t).AtLeast(7, 0) {
		return FreePort(t), FreePort(t)
	}
	port, err := nextPort(half, func(port int) bool { return free(port) && free(port+distance) })
	if err != nil {
		t.Fatal(err)
	}
	return port, port + distance
}
