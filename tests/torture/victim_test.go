package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// victimEnv is the environment variable with what a client that will be killed does.
const victimEnv = "MORTISE_TORTURE_VICTIM"

// task is what a victim does, until it is killed.
type task struct {
	torture.Config // its loads are what it takes, again and again

	Waits bool // only once, and for as long as it takes
}

// suffer is the life of a victim. It returns only if something is wrong.
func suffer(text string) error {
	var c task
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	s, err := open(c.Config)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for i := range c.Goroutines {
		random := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		go func() {
			for {
				if err := c.busy(s.(*locks), random); err != nil {
					errs <- err
				}
			}
		}()
	}
	return <-errs
}

// busy takes a load, enters it again if it is of a kind that can be, and lets go.
func (c *task) busy(s *locks, random *rand.Rand) error {
	load := c.Loads[random.IntN(len(c.Loads))]
	limit := 2 * time.Second
	if c.Waits {
		limit = 0
	}
	held, ctx, err := s.Take(context.Background(), load, limit)
	switch class := s.Class(err); {
	case err != nil && strings.HasPrefix(class, "bad"):
		return err
	case err != nil:
		return nil
	case c.Waits:
		select {} // nobody should have let it have the lock
	}
	if slices.Contains(entered, load.Kind) && random.IntN(3) == 0 {
		if again, _, err := s.Take(ctx, load, limit); err == nil {
			_ = again.Unlock()
		}
	}
	pause := time.Duration(random.Int64N(int64(5 * time.Millisecond)))
	if random.IntN(5) == 0 {
		pause = c.TTL/3 + 100*time.Millisecond // it renews the lease
	}
	time.Sleep(pause)
	_ = held.Unlock()
	time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
	return nil
}

// entered are the kinds that an owner can enter again.
var entered = []string{"lock", "fenced", "fair", "spin", "read", "write", "group"}

// victim is a process that will be killed.
type victim struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	exited chan struct{}

	mu     sync.Mutex // guards the field below
	killed time.Time  // when it was dead
}

func startVictim(c task) (*victim, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	v := &victim{cmd: exec.Command(os.Args[0]), exited: make(chan struct{})}
	v.cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	v.cmd.Stdout, v.cmd.Stderr = &v.out, &v.out
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = v.cmd.Wait()
		close(v.exited)
	}()
	return v, nil
}

// kill kills the process and waits for its end. It returns an error if it had ended by itself.
func (v *victim) kill() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.killed.IsZero() {
		return nil
	}
	select {
	case <-v.exited:
		return fmt.Errorf("a client has ended by itself: %.2000s", v.out.Bytes())
	default:
	}
	_ = v.cmd.Process.Kill()
	<-v.exited
	v.killed = time.Now()
	return nil
}
