package server

// Processes that wait for each other in a cycle.

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestHelperInCycle is one of the processes: it takes a lock, says so, and waits for the next one
// under it when it is told to.
func TestHelperInCycle(t *testing.T) {
	addr, nth := os.Getenv("MORTISE_TEST_ADDR"), os.Getenv("MORTISE_TEST_NTH")
	if nth == "" {
		return // not asked for
	}
	own, next, _ := strings.Cut(nth, " ")
	observer := mortise.ObserverFunc(func(e mortise.Event) {
		if e.Type == mortise.EventWaiting {
			fmt.Println("waits")
		}
		var cycle *mortise.DeadlockError
		if e.Type == mortise.EventDeadlock && errors.As(e.Err, &cycle) {
			for _, w := range cycle.Waits {
				fmt.Printf("cycle: %s %s %d\n", w.Lock, w.Client.Host, w.Client.PID)
			}
			fmt.Println("text:", e.Err)
		}
	})
	c := mortise.New(dialers["goredis"](t, addr, ""), &mortise.Options{Observer: observer, Identity: mortise.Identity{Host: "host-" + own}})
	defer c.Close()
	hold, ctx := mustLock(t, c.Lock("lock-"+own), t.Context())
	fmt.Println("holds")
	told := bufio.NewScanner(os.Stdin)
	told.Scan()
	o := mortise.LockOptions{}
	if os.Getenv("MORTISE_TEST_FAILS") != "" {
		o.Deadlock = mortise.DeadlockFail
	}
	start := time.Now()
	inner, _, err := c.Lock("lock-" + next).With(o).Lock(ctx)
	fmt.Printf("ended: %t %t %d\n", err == nil, errors.Is(err, mortise.ErrDeadlock), time.Since(start).Milliseconds())
	if err == nil {
		mustUnlock(t, inner)
	}
	mustUnlock(t, hold)
	fmt.Println("done")
}

// inCycle is a process that runs [TestHelperInCycle].
type inCycle struct {
	party

	tell func()
}

// newInCycle starts a process.
func newInCycle(t *testing.T, addr, nth, fails string) *inCycle {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperInCycle$")
	cmd.Env = append(os.Environ(), "MORTISE_TEST_ADDR="+addr, "MORTISE_TEST_NTH="+nth, "MORTISE_TEST_FAILS="+fails)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &inCycle{party{cmd, bufio.NewScanner(out)}, func() {
		if _, err := fmt.Fprintln(in, "wait"); err != nil {
			t.Error(err)
		}
	}}
}

// Three processes wait for each other. Each tells the locks, hosts and processes of the cycle; if
// they are to fail, the youngest wait does, and the others get through.
func TestRealCycleOfProcesses(t *testing.T) {
	t.Run("they tell", func(t *testing.T) { canary.Judge(t, cycleIsTold) })
	t.Run("the youngest fails", func(t *testing.T) { canary.Judge(t, youngestFails) })
}

func cycleIsTold(t *testing.T, b *canary.Bounds) {
	all := cycleOfThree(t, "")
	start := time.Now()
	for i, p := range all {
		p.wantCycle(t, all, i)
	}
	b.Within("what is told of the cycle", time.Since(start), 4*time.Second)
	for _, p := range all { // they wait on
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.cmd.Wait()
	}
}

func youngestFails(t *testing.T, b *canary.Bounds) {
	all := cycleOfThree(t, "yes")
	all[2].wantCycle(t, all, 2)
	through, deadlock, took := all[2].ended(t)
	if through || !deadlock {
		t.Errorf("the youngest ended with success: %t, a deadlock: %t", through, deadlock)
	}
	b.Within("the wait of the youngest", took, 3*time.Second)
	for _, i := range []int{1, 0} {
		if through, deadlock, _ := all[i].ended(t); !through {
			t.Errorf("process %d ended with success: %t, a deadlock: %t", i, through, deadlock)
		}
	}
	for _, p := range all {
		p.says(t, "done")
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// cycleOfThree starts three processes that wait for each other. The last is the youngest.
func cycleOfThree(t *testing.T, fails string) (all []*inCycle) {
	t.Helper()
	s := redistest.Single(t)
	for _, nth := range []string{"0 1", "1 2", "2 0"} {
		p := newInCycle(t, s.Addr(), nth, fails)
		p.says(t, "holds")
		all = append(all, p)
	}
	for _, p := range all {
		p.tell()
		p.says(t, "waits")
		// The next one is younger by more than what the processes mistake Redis' clock by, on a busy machine too.
		time.Sleep(300 * time.Millisecond)
	}
	return all
}

// ended returns how the wait of p has ended, and after how long.
func (p *inCycle) ended(t *testing.T) (through, deadlock bool, took time.Duration) {
	t.Helper()
	var ms int
	if _, err := fmt.Sscan(p.says(t, "ended:"), &through, &deadlock, &ms); err != nil {
		t.Fatal(err)
	}
	return through, deadlock, time.Duration(ms) * time.Millisecond
}

// wantCycle waits until p tells of the cycle, beginning with its own wait.
func (p *inCycle) wantCycle(t *testing.T, all []*inCycle, nth int) {
	t.Helper()
	for i := range all {
		at := (nth + i) % len(all)
		want := fmt.Sprintf(" lock-%d host-%d %d", (at+1)%len(all), at, all[at].cmd.Process.Pid)
		if got := p.says(t, "cycle:"); got != want {
			t.Errorf("process %d tells of %q, want %q", nth, got, want)
		}
	}
	text := p.says(t, "text:")
	for _, q := range all {
		if !strings.Contains(text, fmt.Sprint(" pid ", q.cmd.Process.Pid)) {
			t.Errorf("process %d tells %q, without the process %d", nth, text, q.cmd.Process.Pid)
		}
	}
}
