package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/bench/rig"
)

// slack is how much longer than a request may take its answer is waited for.
const slack = 60 * time.Second

// process is a process with clients of a system. It is safe for concurrent use.
type process struct {
	system *contender.System
	cmd    *exec.Cmd
	exited chan struct{}

	mu       sync.Mutex // guards the fields below
	requests *json.Encoder
	waiting  map[int]chan contender.Answer
	last     int
}

func startProcess(s *contender.System) (*process, error) {
	var cmd *exec.Cmd
	if s.Command != nil {
		cmd = s.Command()
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(self, "worker")
	}
	// If the shell that started this program ends while one of its group is stopped, the system ends
	// the whole group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := rig.Launch(cmd); err != nil {
		return nil, fmt.Errorf("start a process for %s: %w", s.Name, err)
	}
	p := &process{
		system: s, cmd: cmd, exited: make(chan struct{}),
		requests: json.NewEncoder(in), waiting: map[int]chan contender.Answer{},
	}
	go p.receive(out)
	return p, nil
}

func (p *process) receive(out io.Reader) {
	answers := json.NewDecoder(bufio.NewReader(out))
	for {
		var a contender.Answer
		if answers.Decode(&a) != nil {
			break
		}
		p.mu.Lock()
		p.waiting[a.ID] <- a
		delete(p.waiting, a.ID)
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // only that it ended matters, not how
	close(p.exited)
}

// start sends a request and returns where its answer comes.
func (p *process) start(r contender.Request) (<-chan contender.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	r.ID = p.last
	answer := make(chan contender.Answer, 1)
	p.waiting[r.ID] = answer
	return answer, p.requests.Encode(r)
}

// await returns the answer that comes on a channel, for as long as a request with that wait takes.
func (p *process) await(ctx context.Context, answer <-chan contender.Answer, wait time.Duration) (contender.Answer, error) {
	timer := time.NewTimer(wait + slack)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a, nil
	case <-p.exited:
		return contender.Answer{}, fmt.Errorf("a process of %s ended", p.system.Name)
	case <-timer.C:
		return contender.Answer{}, fmt.Errorf("a process of %s does not answer", p.system.Name)
	case <-ctx.Done():
		return contender.Answer{}, ctx.Err()
	}
}

// ask sends a request and waits for its answer.
func (p *process) ask(ctx context.Context, r contender.Request) (contender.Answer, error) {
	answer, err := p.start(r)
	if err != nil {
		return contender.Answer{}, err
	}
	return p.await(ctx, answer, r.Wait)
}

// must is ask for what no fault disturbs.
func (p *process) must(ctx context.Context, r contender.Request) (contender.Answer, error) {
	a, err := p.ask(ctx, r)
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%s: %s %s: %s", p.system.Name, r.Do, r.Name, a.Error)
	}
	return a, err
}

// open opens a client.
func (p *process) open(ctx context.Context, client string, c contender.Config) error {
	c.System = p.system.Name
	_, err := p.must(ctx, contender.Request{Do: contender.Open, Client: client, Config: &c})
	return err
}

// freeze stops the process where it is, and thaw lets it go on.
func (p *process) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process with SIGKILL and returns when it is gone.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return // nothing else can be done about it
	}
	<-p.exited
}
