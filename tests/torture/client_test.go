package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

// client is a place for a process: when that is killed, another one takes its place.
type client struct {
	program string
	config  torture.Config
	links   []*redistest.Proxy // to each server

	mu      sync.Mutex // guards the fields below
	cmd     *exec.Cmd
	stderr  *bytes.Buffer
	exited  chan struct{}
	err     error // how it has ended
	frozen  bool
	ordered bool // it was killed on purpose
}

// start starts a process, the n-th in this place.
func (c *client) start(n int) error {
	config := c.config
	config.Client += 100 * n
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.program)
	cmd.Env = append(os.Environ(), torture.Env+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr := &bytes.Buffer{}
	cmd.Stderr, cmd.Stdout = stderr, stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd, c.stderr, c.exited, c.frozen, c.ordered = cmd, stderr, exited, false, false
	go func() {
		err := cmd.Wait()
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(exited)
	}()
	return nil
}

func (c *client) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case syscall.SIGSTOP:
		c.frozen = true
	case syscall.SIGCONT:
		c.frozen = false
	case syscall.SIGKILL:
		c.ordered = true
	}
	_ = c.cmd.Process.Signal(s) // it may have ended, which is noticed elsewhere
}

// kill kills the process and waits for its end.
func (c *client) kill() {
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// gone returns what is wrong with the end of the process, if it has ended.
func (c *client) gone() error {
	select {
	case <-c.exited:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || c.ordered {
		return nil
	}
	text := c.stderr.Bytes()
	return fmt.Errorf("%w: %s", c.err, text[:min(len(text), 4000)])
}

// await waits for the process to end by itself.
func (c *client) await(limit time.Duration) error {
	select {
	case <-c.exited:
		return c.gone()
	case <-time.After(limit):
	}
	c.signal(syscall.SIGQUIT) // it shows its goroutines
	select {
	case <-c.exited:
	case <-time.After(time.Minute):
		c.kill()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.stderr.Bytes()
	return fmt.Errorf("still runs after %v: %s", limit, text[:min(len(text), 8000)])
}

// linkTo returns the link to a server.
func (c *client) linkTo(addr string) *redistest.Proxy {
	for _, p := range c.links {
		if c.config.Via[addr] == p.Addr() {
			return p
		}
	}
	panic("no link to " + addr)
}

// link opens a link to each server for a new client.
func link(t *testing.T, addrs []string) (links []*redistest.Proxy, via map[string]string) {
	t.Helper()
	via = map[string]string{}
	for _, a := range addrs {
		p := redistest.NewProxy(t, a)
		links = append(links, p)
		via[a] = p.Addr()
	}
	return links, via
}
