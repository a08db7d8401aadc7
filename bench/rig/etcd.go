package rig

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// etcd is an etcd server of one member.
type etcd struct {
	cmd    *exec.Cmd
	addr   string
	dir    string
	exited chan struct{}
	log    tail
}

// EtcdProgram is the program that StartEtcd runs.
const EtcdProgram = "etcd"

// MemoryDir is a directory in memory.
const MemoryDir = "/dev/shm"

// StartEtcd starts an etcd on free ports of the loopback interface. It keeps its data in a
// directory of its own below parent, or in the system's directory for temporary files if parent is
// empty.
func StartEtcd(parent string, pin bool) (Server, error) {
	var err error
	for range 5 { // a port can be taken just after it was found
		var s *etcd
		if s, err = startEtcd(parent, pin); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startEtcd(parent string, pin bool) (*etcd, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	peers, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "mortise-bench")
	if err != nil {
		return nil, err
	}
	s := &etcd{addr: "127.0.0.1:" + port, dir: dir, exited: make(chan struct{})}
	client, peer := "http://"+s.addr, "http://127.0.0.1:"+peers
	s.cmd = exec.Command(EtcdProgram, "--data-dir", dir, "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.log, &s.log
	if err := launch(s.cmd, pin); err != nil {
		_ = os.RemoveAll(dir) // it is empty
		return nil, fmt.Errorf("start etcd: %w", err)
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

// awaitReady returns when the server is ready.
func (s *etcd) awaitReady() error {
	for deadline := time.Now().Add(startLimit); ; {
		text, err := s.get("/health")
		if err == nil && strings.Contains(text, `"true"`) {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("etcd ended at once: %s", s.log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("etcd is not ready at %s: %s", s.addr, s.log.String())
		}
	}
}

// get returns what the server reports about itself.
func (s *etcd) get(path string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + s.addr + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}

func (s *etcd) Addr() string { return s.addr }

func (s *etcd) Stop() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
	_ = os.RemoveAll(s.dir) // it is in a directory for temporary files
}

func (s *etcd) Usage() (Usage, error) {
	text, err := s.get("/metrics")
	if err != nil {
		return Usage{}, fmt.Errorf("look at etcd: %w", err)
	}
	return parseMetrics(text), nil
}

// parseMetrics parses etcd's metrics. Its commands are the messages that clients sent, by their
// method.
func parseMetrics(text string) Usage {
	u := Usage{Commands: map[string]int64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || number == 0 {
			continue
		}
		metric, labels, _ := strings.Cut(name, "{")
		switch metric {
		case "process_cpu_seconds_total":
			u.CPU = number
		case "grpc_server_msg_received_total":
			_, method, _ := strings.Cut(labels, `grpc_method="`)
			method, _, _ = strings.Cut(method, `"`)
			u.Commands[method] += int64(number)
		}
	}
	return u
}
