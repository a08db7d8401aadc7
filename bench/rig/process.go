package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// ErrHung is the error of a worker that does not answer in time.
var ErrHung = errors.New("hung")

// Process is a worker seen from outside. It is not safe for concurrent use.
type Process struct {
	cmd     *exec.Cmd
	in      *json.Encoder
	close   func() error
	answers chan answer // closed when the worker's output ends
	stderr  tail
	exited  chan struct{}
}

// Start runs a worker. It ends with this process at the latest. With pin it and its children run on
// one CPU.
func Start(cmd *exec.Cmd, pin bool) (*Process, error) {
	p := &Process{cmd: cmd, answers: make(chan answer, 1), exited: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &p.stderr
	if err := launch(cmd, pin); err != nil {
		return nil, fmt.Errorf("start the worker %s: %w", cmd.Path, err)
	}
	p.in, p.close = json.NewEncoder(in), in.Close
	go func() {
		lines := json.NewDecoder(bufio.NewReader(out))
		for {
			var a answer
			if lines.Decode(&a) != nil {
				break
			}
			p.answers <- a
		}
		close(p.answers)
		_ = cmd.Wait() // only that it ended matters, not how
		close(p.exited)
	}()
	return p, nil
}

// Launch starts cmd. Where the system allows it, cmd is killed when this process ends.
func Launch(cmd *exec.Cmd) error { return launch(cmd, false) }

// send sends a command without waiting for its answer.
func (p *Process) send(do string, order *Order) error {
	if err := p.in.Encode(command{Do: do, Order: order}); err != nil {
		return p.failure(err)
	}
	return nil
}

// await returns the answer to a command. A worker that has not answered when ctx ends has hung.
func (p *Process) await(ctx context.Context, do string) (*workload.Result, error) {
	select {
	case a, ok := <-p.answers:
		switch {
		case !ok:
			return nil, p.failure(errors.New("the worker ended"))
		case a.Is == "failed":
			return nil, errors.New(a.Error)
		case a.Is != answers[do]:
			return nil, fmt.Errorf("the worker answers %q to %q", a.Is, do)
		}
		return a.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no answer to %q", ErrHung, do)
	}
}

// failure adds the worker's own messages to err.
func (p *Process) failure(err error) error {
	if text := p.stderr.String(); text != "" {
		return fmt.Errorf("%w; it says: %s", err, text)
	}
	return err
}

// Stop ends the worker. It kills a worker that does not end within grace.
func (p *Process) Stop(grace time.Duration) {
	_ = p.close() // the worker may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case <-p.answers: // an answer that is not needed any more
		case <-p.exited:
			return
		case <-timer.C:
			_ = p.cmd.Process.Kill() // it may have ended already
		}
	}
}

// tail keeps the end of its input.
type tail struct {
	mu  sync.Mutex // guards the fields below
	end []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if over := len(t.end) - 2000; over > 0 {
		t.end = bytes.Clone(t.end[over:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
