package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/cmd/mortise/internal/procfs"
)

// dieWithMortise makes the kernel kill the command when this process is killed.
func dieWithMortise(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes this process the parent of all orphans among its descendants, so that none of them
// escapes.
func adopt() {
	// It fails only before Linux 3.4; orphans are then unknown.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// descendants returns the living descendants of this process, each with its process group, except
// those in except and their descendants. Without /proc it returns none.
func descendants(except map[int]bool) map[int]int {
	children := map[int][]procfs.Process{}
	for p := range procfs.All() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	found := map[int]int{}
	next := []int{os.Getpid()}
	for len(next) > 0 {
		pid := next[len(next)-1]
		next = next[:len(next)-1]
		for _, p := range children[pid] {
			if !except[p.PID] {
				found[p.PID] = p.Group
				next = append(next, p.PID)
			}
		}
	}
	return found
}

// stoppedInVfork returns the child that a process waits for in vfork(2), if that child was stopped
// before it started its program, and 0 otherwise. The parent then cannot stop, and no process is
// notified: the kernel makes it wait for the child, and holds back its own signal until then.
func stoppedInVfork(parent int) int {
	if p, ok := procfs.Read(parent); !ok || p.State != 'D' {
		return 0
	}
	for p := range procfs.All() {
		if p.Parent == parent && p.State == 'T' && p.Forked {
			return p.PID
		}
	}
	return 0
}
