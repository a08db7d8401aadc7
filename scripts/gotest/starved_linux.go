package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuOf returns how long the processes of a package have run, and how long they could have run since and waited for a processor: those of
// the group of pid whose working directory is the package's, as go test starts them.
func cpuOf(pid int, pkg string) (got, waited time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	dir := strings.TrimPrefix(pkg, module)
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the state, the parent, the group
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(pid) {
			continue
		}
		proc := filepath.Dir(stat)
		cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
		if err != nil || !strings.HasSuffix(cwd, dir) {
			continue
		}
		tasks, _ := filepath.Glob(filepath.Join(proc, "task", "*", "schedstat"))
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				continue
			}
			if f := strings.Fields(string(text)); len(f) >= 2 {
				ran, _ := strconv.ParseInt(f[0], 10, 64)
				stood, _ := strconv.ParseInt(f[1], 10, 64)
				got, waited = got+time.Duration(ran), waited+time.Duration(stood)
			}
		}
	}
	return got, waited
}
