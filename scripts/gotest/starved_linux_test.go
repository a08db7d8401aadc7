package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/mortise-go/mortise/scripts/group"
)

// What a program of the group uses in the folder of a package counts, and nothing else.
func TestProcessorTimeOfAPackage(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	cmd.Dir = dir
	cmd.SysProcAttr = group.Own()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for got := time.Duration(0); got == 0; {
		got, _ = cpuOf(cmd.Process.Pid, module+dir)
	}
	for what, of := range map[string]struct {
		pid int
		pkg string
	}{"another package": {cmd.Process.Pid, module + dir + "/other"}, "another group": {cmd.Process.Pid + 1, module + dir}} {
		if got, waited := cpuOf(of.pid, of.pkg); got+waited != 0 {
			t.Errorf("of %s it knows %v and %v", what, got, waited)
		}
	}
}
