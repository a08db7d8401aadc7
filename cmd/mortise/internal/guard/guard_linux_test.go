package guard

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds every wait, far longer than a wait takes.
const limit = time.Minute

// lease is a hold that lasts until a time.
type lease time.Time

func (l lease) Until() time.Time { return time.Time(l) }

// journal is an observer that records what it receives.
type journal struct {
	mu     sync.Mutex
	losses []error
	others []string
}

func (j *journal) Lost(cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.losses = append(j.losses, cause)
}

func (j *journal) Stopped(time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.others = append(j.others, "stopped")
}

func (j *journal) Undying(error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.others = append(j.others, "undying")
}

func (j *journal) Unguarded() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.others = append(j.others, "unguarded")
}

// guarded is a command of a test, in a directory of its own.
type guarded struct {
	child   *Child
	signals chan os.Signal
	lose    context.CancelCauseFunc
	journal *journal
	dir     string
}

// start starts a shell's command line under a hold that lasts for a minute. These tests cannot be
// parallel: there is one guard per process.
func start(t *testing.T, line string, p Plan) *guarded {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{signals: make(chan os.Signal, 8), journal: &journal{}, dir: t.TempDir()}
	held, lose := context.WithCancelCause(t.Context())
	g.lose = lose
	t.Cleanup(func() { lose(nil) })
	p.Path, p.Argv, p.Env = sh, []string{"sh", "-c", "exec 2>/dev/null\n" + line}, append(os.Environ(), "DIR="+g.dir)
	if p.Signal == 0 {
		p.Signal = syscall.SIGTERM
	}
	if g.child, err = Start(held, lease(time.Now().Add(time.Minute)), p, g.journal, Prepare()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	return g
}

// The guard process knows until when the command may run before it starts it: this process may be
// stopped before it can tell it anything else.
func TestDeadlineIsKnownFromTheStart(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	began, left := time.Now(), 300*time.Millisecond
	c, err := Start(t.Context(), lease(began.Add(left)), Plan{Path: sh, Argv: []string{"sh", "-c", "sleep 3600"}, Env: os.Environ(), KillAfter: left}, &journal{}, Prepare())
	if err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for hang := time.After(time.Minute); c.family.groupAlive(); {
		select {
		case <-look.C:
		case <-hang:
			t.Fatal("the command is alive long after its deadline")
		}
	}
	if now := time.Now(); now.Before(began.Add(2 * left)) {
		t.Errorf("the command was killed after %v, want %v", now.Sub(began), 2*left)
	}
	if code := c.Wait(make(chan os.Signal)); code != 128+int(syscall.SIGKILL) {
		t.Errorf("the exit code is %d, want that of SIGKILL", code)
	}
}

// when calls do as soon as the command has created a file. The returned channel is closed when do
// has returned, or was given up.
func (g *guarded) when(t *testing.T, file string, do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(time.Minute); ; {
			if _, err := os.Stat(filepath.Join(g.dir, file)); err == nil {
				do()
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				t.Errorf("the command has not made %s", file)
				g.lose(errors.New("the test is over"))
				return
			}
		}
	}()
	return done
}

// kill kills what is left of the command.
func (g *guarded) kill() {
	for pid := range g.child.family.members() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
}

func (g *guarded) wantStatus(t *testing.T, want int) {
	t.Helper()
	rescue := time.AfterFunc(limit, func() {
		t.Error("the command does not end")
		g.kill()
	})
	defer rescue.Stop()
	if got := g.child.Wait(g.signals); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}

// The exit code is the command's own, or 128+n if signal n has ended it.
func TestStatus(t *testing.T) {
	for line, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		g := start(t, line, Plan{})
		g.wantStatus(t, want)
		if g.child.Lost() != nil || g.child.Left() != 0 || len(g.journal.losses)+len(g.journal.others) > 0 {
			t.Errorf("%s: lost %v, %d left, told %v; want nothing of that", line, g.child.Lost(), g.child.Left(), g.journal.others)
		}
	}
}

func TestStartOfWhatIsNoProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("no program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), lease{}, Plan{Path: path, Argv: []string{"text"}}, &journal{}, Prepare())
	if !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("error: %v, want ENOEXEC", err)
	}
}

// Signals from the channel go to the whole group.
func TestSignalsGoToTheGroup(t *testing.T) {
	g := start(t, `trap 'wait $child; exit 3' USR1
sh -c 'trap "touch $DIR/heard; exit" USR1; touch $DIR/ready; while :; do sleep 0.02; done' & child=$!
while :; do sleep 0.02; done`, Plan{})
	done := g.when(t, "ready", func() { g.signals <- syscall.SIGUSR1 })
	g.wantStatus(t, 3)
	<-done
	if _, err := os.Stat(filepath.Join(g.dir, "heard")); err != nil {
		t.Errorf("the child has not heard the signal: %v", err)
	}
}

var errFreed = errors.New("freed by force")

// When the hold is lost the command is asked to end, and may end in order.
func TestLostThenAsked(t *testing.T) {
	g := start(t, "trap 'touch $DIR/asked; exit 4' USR1; touch $DIR/ready; while :; do sleep 0.02; done",
		Plan{Signal: syscall.SIGUSR1, KillAfter: limit})
	done := g.when(t, "ready", func() { g.lose(errFreed) })
	g.wantStatus(t, 4)
	<-done
	if !errors.Is(g.child.Lost(), errFreed) || !slices.Equal(g.journal.losses, []error{errFreed}) {
		t.Errorf("lost %v, told %v; want %v once", g.child.Lost(), g.journal.losses, errFreed)
	}
}

// A command that does not end when asked is killed, with everything it has started.
func TestLostThenKilled(t *testing.T) {
	g := start(t, `trap '' TERM
sh -c 'while :; do sleep 0.02; done' &
(setsid sh -c 'touch $DIR/ready; while :; do sleep 0.02; done' &)
while :; do sleep 0.02; done`, Plan{KillAfter: 100 * time.Millisecond})
	done := g.when(t, "ready", func() { g.lose(errFreed) })
	g.wantStatus(t, 137)
	<-done
	if n := g.child.family.count(); n != 0 {
		t.Errorf("%d processes are alive, want none", n)
	}
}

// A command that does not end after a signal is killed when its grace is over, with everything it has started. A second
// signal does not prolong it.
func TestGraceThenKilled(t *testing.T) {
	g := start(t, `trap '' TERM HUP PIPE
(setsid sh -c 'while :; do sleep 0.02; done' &)
touch $DIR/ready; while :; do sleep 0.02; done`, Plan{Grace: 200 * time.Millisecond})
	done := g.when(t, "ready", func() {
		g.signals <- syscall.SIGWINCH // does not ask it to end, nor does the next one
		g.signals <- syscall.SIGPIPE
		g.signals <- syscall.SIGTERM
		g.signals <- syscall.SIGHUP
	})
	g.wantStatus(t, 137)
	<-done
	if n := g.child.family.count(); n != 0 {
		t.Errorf("%d processes are alive, want none", n)
	}
	if g.child.Lost() != nil || !g.child.Terminated() {
		t.Errorf("lost %v, terminated %v; want neither lost nor unasked", g.child.Lost(), g.child.Terminated())
	}
}

// What a command has started, and what ignores the signal that ends it, has the same grace.
func TestGraceOfWhatIsLeft(t *testing.T) {
	g := start(t, `sh -c 'trap "" TERM; touch $DIR/ready; while :; do sleep 0.02; done' &
wait`, Plan{Grace: 200 * time.Millisecond})
	done := g.when(t, "ready", func() { g.signals <- syscall.SIGTERM })
	g.wantStatus(t, 143)
	<-done
	if n := g.child.family.count(); n != 0 {
		t.Errorf("%d processes are alive, want none", n)
	}
}

// A command that ends within its grace has its own exit code.
func TestGraceIsNotNeeded(t *testing.T) {
	g := start(t, "trap 'sleep 0.2; exit 4' TERM; touch $DIR/ready; while :; do sleep 0.02; done", Plan{Grace: limit})
	done := g.when(t, "ready", func() { g.signals <- syscall.SIGTERM })
	g.wantStatus(t, 4)
	<-done
}

// If the loss comes too late for a signal, the command is killed at once.
func TestLostTooLateForASignal(t *testing.T) {
	g := start(t, "trap 'exit 4' TERM; touch $DIR/ready; while :; do sleep 0.02; done", Plan{KillAfter: limit})
	// This process stood still for long after the hold was over.
	g.child.hold = lease(time.Now().Add(-2*limit - time.Minute))
	done := g.when(t, "ready", func() { g.lose(errFreed) })
	g.wantStatus(t, 137)
	<-done
	if len(g.journal.others) > 0 {
		t.Errorf("told %q, want nothing but the loss: all processes ended at once", g.journal.others)
	}
}

// A command that outlives its hold goes on, and its exit code counts.
func TestOutlives(t *testing.T) {
	g := start(t, "trap 'exit 5' USR1; touch $DIR/ready; while :; do sleep 0.02; done", Plan{Outlives: true})
	done := g.when(t, "ready", func() {
		g.lose(errFreed)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			g.journal.mu.Lock()
			told := len(g.journal.losses)
			g.journal.mu.Unlock()
			if told > 0 {
				break
			}
		}
		g.signals <- syscall.SIGUSR1
	})
	g.wantStatus(t, 5)
	<-done
	if !errors.Is(g.child.Lost(), errFreed) {
		t.Errorf("lost: %v, want %v", g.child.Lost(), errFreed)
	}
}

func TestLeft(t *testing.T) {
	g := start(t, "sleep 1000 >/dev/null 2>&1 &", Plan{})
	g.wantStatus(t, 0)
	if n := g.child.Left(); n != 1 {
		t.Errorf("%d processes are left, want 1", n)
	}
	if err := g.child.family.kill(); err != nil {
		t.Error(err)
	}
	if n := g.child.Left(); n != 0 {
		t.Errorf("%d processes are left after all were killed, want none", n)
	}
}
