package guard

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/cmd/mortise/internal/procfs"
)

// dieWithParent makes the kernel kill a child when this process is killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// rename sets the name of this process that ps and top show. It is that of the main thread.
func rename(name string) {
	if text, err := unix.BytePtrFromString(name); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(text)), 0, 0, 0) // the name is only shown
	}
}

// self returns a path of this program that is right even if its file was replaced or removed.
func self() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err != nil {
		return os.Executable()
	}
	return link, nil
}

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
