package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
)

// newRecord returns the record of a run that starts now.
func newRecord(loads []*load) *report.Record {
	r := &report.Record{Began: time.Now().UTC().Truncate(time.Second), Environment: environment()}
	for _, l := range loads {
		r.Cases = append(r.Cases, l.Case)
	}
	for _, s := range peer.Systems() {
		if !slices.ContainsFunc(loads, func(l *load) bool { return slices.Contains(l.systems, s.Name) }) {
			continue
		}
		if s.Available != nil {
			if err := s.Available(); err != nil {
				r.Missing = append(r.Missing, fmt.Sprintf("%s: %v", s.Name, err))
				continue
			}
		}
		r.Systems = append(r.Systems, report.System{Name: s.Name, Version: version(s), Settings: s.Settings, Limit: s.Limit})
	}
	return r
}

func environment() report.Environment {
	return report.Environment{
		CPU:     field("/proc/cpuinfo", "model name"),
		Cores:   runtime.NumCPU(),
		Memory:  memory(),
		Kernel:  kernel(),
		Go:      runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Redis:   redisVersion(),
		Mortise: output("git", "describe", "--always", "--dirty"),
		Load:    firstWord("/proc/loadavg"),
		Pinned:  rig.CanPin,
	}
}

// version returns the version of a system.
func version(s *peer.System) string {
	var parts []string
	if s.Module != "" {
		parts = append(parts, moduleVersion(s.Module))
	}
	if s.Version != nil {
		parts = append(parts, s.Version())
	}
	return strings.Join(parts, ", ")
}

// moduleVersion returns a module with its version, unless it is part of this revision.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path && m.Version != "(devel)" {
				return m.Path + " " + m.Version
			}
		}
	}
	return path
}

// memory returns the size of the machine's memory.
func memory() string {
	var kib int
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kib); err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
}

// redisVersion returns the version of the server, such as "Redis server 7.0.15".
func redisVersion() string {
	name, rest, _ := strings.Cut(output(rig.RedisProgram(), "--version"), " v=")
	number, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(name + " " + number)
}

// field returns the value of the first line "name: value" of a file, empty if
// there is none.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstWord(path string) string {
	text, _ := os.ReadFile(path) // an unknown value stays empty
	word, _, _ := strings.Cut(string(text), " ")
	return word
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// output returns the output of a program, empty if it cannot be run.
func output(program string, args ...string) string {
	text, err := exec.Command(program, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
