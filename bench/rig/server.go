package rig

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// Server is a server for one trial.
type Server interface {
	// Addr is the server's address for workers; of a cluster, all of them, with commas.
	Addr() string
	// Usage returns the usage so far.
	Usage() (Usage, error)
	// Stop ends it and returns when it is gone.
	Stop()
}

// Usage is the work of a server. Commands counts the commands of clients and those called by
// scripts, by name, without those that ask for the usage; nil if the server does not report them.
type Usage struct {
	Commands map[string]int64
	CPU      float64   // seconds
	Shards   []float64 // the same, of each shard of a cluster
	Memory   float64   // bytes in use now
}

// Since returns the usage since before.
func (u Usage) Since(before Usage) Usage {
	d := Usage{Commands: map[string]int64{}, CPU: u.CPU - before.CPU, Memory: u.Memory - before.Memory}
	for i, cpu := range u.Shards {
		d.Shards = append(d.Shards, cpu-before.Shards[i])
	}
	maps.Copy(d.Commands, u.Commands)
	for name, n := range before.Commands {
		if d.Commands[name] -= n; d.Commands[name] == 0 {
			delete(d.Commands, name)
		}
	}
	return d
}

// startLimit bounds the start of a server.
const startLimit = 20 * time.Second

// redis is a redis-server.
type redis struct {
	cmd    *exec.Cmd
	addr   string
	bus    string // port for the other nodes of a cluster
	dir    string
	exited chan struct{}
	log    tail
	admin  *redistest.Conn
}

// StartRedis starts a redis-server without persistence on a free port of the loopback interface.
// The program is redis-server from PATH, or that of the environment variable REDIS_SERVER_BIN.
func StartRedis(pin bool) (Server, error) {
	var err error
	for range 5 { // a port can be taken just after it was found
		var s *redis
		if s, err = startRedis(pin, nil); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// RedisProgram returns the program that StartRedis runs.
func RedisProgram() string {
	if program := os.Getenv("REDIS_SERVER_BIN"); program != "" {
		return program
	}
	return "redis-server"
}

func startRedis(pin bool, options []string) (*redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mortise-bench")
	if err != nil {
		return nil, err
	}
	s := &redis{addr: "127.0.0.1:" + port, dir: dir, exited: make(chan struct{})}
	s.cmd = exec.Command(RedisProgram(), append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxclients", "20000"}, options...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.log, &s.log
	if err := launch(s.cmd, pin); err != nil {
		_ = os.RemoveAll(dir) // it is empty
		return nil, fmt.Errorf("start redis-server (`make bench` installs it; REDIS_SERVER_BIN names another): %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // only that it ended matters, not how
		close(s.exited)
	}()
	if err := s.awaitReady(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// awaitReady returns when the server answers.
func (s *redis) awaitReady() error {
	for deadline := time.Now().Add(startLimit); ; {
		if conn, err := redistest.Dial(s.addr, "", ""); err == nil {
			if _, err = conn.Do("PING"); err == nil {
				s.admin = conn
				return nil
			}
			conn.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("redis-server ended at once: %s", s.log.String())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server does not answer at %s: %s", s.addr, s.log.String())
		}
	}
}

func (s *redis) Addr() string { return s.addr }

func (s *redis) Stop() {
	if s.admin != nil {
		s.admin.Close()
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
	_ = os.RemoveAll(s.dir) // it is in the system's directory for temporary files
}

func (s *redis) Usage() (Usage, error) {
	text, err := s.admin.Do("INFO", "everything")
	if err != nil {
		return Usage{}, fmt.Errorf("look at redis-server: %w", err)
	}
	return parseInfo(fmt.Sprint(text)), nil
}

// parseInfo parses a reply of INFO.
func parseInfo(text string) Usage {
	u := Usage{Commands: map[string]int64{}}
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name, command := strings.CutPrefix(field, "cmdstat_"); {
		case command:
			var calls int64
			if n, _ := fmt.Sscanf(value, "calls=%d,", &calls); n == 1 && name != "info" && !strings.HasPrefix(name, "config") {
				u.Commands[name] = calls
			}
		case field == "used_memory":
			if n, _ := fmt.Sscan(value, &u.Memory); n != 1 {
				u.Memory = 0
			}
		case field == "used_cpu_user" || field == "used_cpu_sys":
			var seconds float64
			if n, _ := fmt.Sscan(value, &seconds); n == 1 {
				u.CPU += seconds
			}
		}
	}
	return u
}

// freePort returns a free port of the loopback interface. It is below the range from which systems
// take the ports of outgoing connections: a client that dials a stopped server could connect to
// itself.
func freePort() (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(12000 + rand.IntN(20000))
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
