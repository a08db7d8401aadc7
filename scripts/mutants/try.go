package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/scripts/group"
)

// bench is where mutants are tried.
type bench struct {
	root string // of the work tree
	dir  string // for the changed files
}

// newBench returns a bench in the work tree, which is the working directory.
func newBench() (b bench, remove func(), err error) {
	if b.root, err = os.Getwd(); err != nil {
		return b, nil, err
	}
	if b.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return b, nil, err
	}
	return b, func() { _ = os.RemoveAll(b.dir) }, nil
}

// limit is how long a test of the fast layer may run, and serverLimit one that starts real servers.
// They take far less; one that a mutant makes wait in vain is ended. A test waits a minute for an
// event, and must then still be able to say which one did not come.
const (
	limit       = 90 * time.Second
	serverLimit = 5 * time.Minute // several waits of a minute
)

// limit returns how long the test of m may run.
func (m *mutant) limit() time.Duration {
	if m.needs != "" {
		return serverLimit
	}
	return limit
}

// tags returns the flags for the build of the test of m: one that starts real servers may stand behind tags.
func (m *mutant) tags() []string {
	if m.needs != "" {
		return []string{"-tags", "server,proof"}
	}
	return nil
}

// result is what came of a mutant.
type result struct {
	mutant  *mutant
	verdict verdict
	took    time.Duration
}

func (r result) ok() bool {
	return r.verdict.outcome == cmp.Or(map[string]outcome{"panics": panicked, "hangs": hung}[r.mutant.ends], caught)
}

func (r result) String() string {
	mark := "ok  "
	if !r.ok() {
		mark = "FAIL"
	}
	return fmt.Sprintf("%s %-34s %5.1fs  %s", mark, r.mutant.name, r.took.Seconds(), r.verdict)
}

// try makes m and runs its test.
func (b bench) try(ctx context.Context, m mutant) result {
	start := time.Now()
	overlay, err := b.overlaid(m)
	if err != nil {
		return result{&m, verdict{outcome: unusable, says: err.Error()}, time.Since(start)}
	}
	out := b.test(ctx, m.limit(), append(m.tags(), "-overlay", overlay, "-run", anchored(m.test), m.pkg)...)
	return result{&m, judge(bytes.NewReader(out)), time.Since(start)}
}

// find makes m, runs the tests that may notice it, and prints those that fail.
func (b bench) find(ctx context.Context, m mutant, w io.Writer) {
	overlay, err := b.overlaid(m)
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	for _, pkg := range []string{m.pkg, "./internal/script", "./internal/lease", "./internal/waiting", "./internal/watchdog", "./tests/behavior"} {
		v := judge(bytes.NewReader(b.test(ctx, serverLimit, "-overlay", overlay, pkg)))
		fmt.Fprintf(w, "  %s: %s\n", pkg, v)
		for _, test := range v.by {
			fmt.Fprintf(w, "    %s\n", test)
		}
	}
}

// healthy runs the tests of all mutants on the code as it is: a test that fails anyway would catch
// every mutant.
func (b bench) healthy(ctx context.Context, mutants []mutant) error {
	tests, tags := make(map[string][]string), make(map[string][]string)
	for _, m := range mutants {
		if pattern := anchored(m.test); !slices.Contains(tests[m.pkg], pattern) {
			tests[m.pkg] = append(tests[m.pkg], pattern)
		}
		tags[m.pkg] = append(tags[m.pkg], m.tags()...)
	}
	for pkg, patterns := range tests {
		if v := judge(bytes.NewReader(b.test(ctx, 5*serverLimit, append(tags[pkg], "-run", strings.Join(patterns, "|"), pkg)...))); v.outcome != survived {
			return fmt.Errorf("the tests in %s fail without any mutant: %s", pkg, v)
		}
	}
	return ctx.Err()
}

// test runs go test, within that time, and returns what that prints.
func (b bench) test(ctx context.Context, within time.Duration, args ...string) []byte {
	args = append([]string{"test", "-json", "-count=1", "-vet=off", "-timeout", within.String()}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "GOGC=1000")
	cmd.SysProcAttr = group.Own()
	cmd.Cancel = func() error { group.Signal(cmd.Process, syscall.SIGINT); return nil } // go ends its children, too
	cmd.WaitDelay = 5 * time.Second
	out, _ := cmd.CombinedOutput() // a failure is what is hoped for
	if cmd.Process != nil {
		group.Signal(cmd.Process, syscall.SIGKILL) // a test that was too slow leaves its programs behind
	}
	return out
}

// anchored returns the pattern that matches only the test of that name, and its subtests.
func anchored(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// writeOverlay writes files, which have paths from root, into dir, and returns the name of the
// file that tells go about them.
func writeOverlay(root, dir string, files map[string]string) (name string, err error) {
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for file, text := range files {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, file)] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o644)
}
