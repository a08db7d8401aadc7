package procfs

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// begin starts a program under a name that looks like a part of its own line in /proc.
func begin(t *testing.T) *exec.Cmd {
	t.Helper()
	dir := t.TempDir() + "/a) Z 1 ("
	cat, err := exec.LookPath("cat")
	if err == nil {
		err = os.Symlink(cat, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "") // keeps the input open until here
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// await reads a process until its state is as wanted.
func await(t *testing.T, pid int, what string, ok func(p Process, found bool) bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		p, found := Read(pid)
		if ok(p, found) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%+v (%v), want %s", p, found, what)
		}
	}
}

func TestRead(t *testing.T) {
	cmd := begin(t)
	pid := cmd.Process.Pid
	await(t, pid, "a child that leads a group", func(p Process, found bool) bool {
		return found && p.PID == pid && p.Parent == os.Getpid() && p.Group == pid && !p.Forked
	})
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, pid, "one that is stopped", func(p Process, found bool) bool { return found && p.State == 'T' })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, pid, "none: a zombie is no process", func(_ Process, found bool) bool { return !found })
}

func TestAll(t *testing.T) {
	child := begin(t).Process.Pid
	found := map[int]int{}
	for p := range All() {
		found[p.PID] = p.Parent
	}
	if found[child] != os.Getpid() {
		t.Errorf("the parent of %d is %d, want %d", child, found[child], os.Getpid())
	}
	if _, ok := found[os.Getpid()]; !ok {
		t.Error("this process is not among them")
	}
	for range All() {
		break // the iteration ends there
	}
}
