package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs stages.
type runner struct {
	what string   // gate, proof or test
	goOn bool     // after a stage that is red
	args []string // further arguments of go test
	env  []string

	linter chan error // has how the build of the linter has ended, if it must be built

	mu          sync.Mutex // guards the fields below
	child       *os.Process
	interrupted bool
}

// result is how a stage has ended.
type result struct {
	name, shows     string
	err             error
	begun           time.Time
	took            time.Duration
	redBefore       int // how often it was red at this commit before
	commit, machine string
	Passed, Failed  int
	NotPassed       []string
	Margins, quoted []string
}

// run runs the stages, and sums up. It writes the page of a proof.
func (r *runner) run(stages []stage) error {
	begin := time.Now()
	r.forward()
	if err := r.prepare(stages); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if i := slices.IndexFunc(stages, func(s stage) bool { return s.name == "lint" }); i >= 0 && r.build(ctx) {
		lint := stages[i] // it can come when the linter is there: after the tests
		stages = slices.Delete(slices.Clone(stages), i, i+1)
		after := slices.IndexFunc(stages, func(s stage) bool { return s.name == "test" })
		stages = slices.Insert(stages, after+1, lint)
	}
	var results []result
	for i, s := range stages {
		fmt.Printf("\n== %s, %d of %d: %s, %s\n", r.what, i+1, len(stages), s.name, s.shows)
		one := r.stage(s)
		results = append(results, one)
		if r.what == "proof" && !r.stopped() {
			if err := r.keep(one); err != nil {
				return err
			}
		}
		if r.stopped() || one.err != nil && !r.goOn {
			break
		}
	}
	red := r.sum(os.Stdout, results, len(stages), time.Since(begin))
	if r.stopped() {
		return errors.New("interrupted")
	}
	if r.what == "proof" {
		if err := page(proof); err != nil {
			return err
		}
	}
	if red > 0 {
		return fmt.Errorf("%d of %d stages red", red, len(stages))
	}
	return nil
}

// prepare installs what the stages need, and builds gotest.
func (r *runner) prepare(stages []stage) error {
	var needs []string
	for _, s := range stages {
		needs = append(needs, strings.Fields(s.needs)...)
	}
	slices.Sort(needs)
	if err := r.command(os.Stdout, r.env, "scripts/need.sh", slices.Compact(needs)...); err != nil {
		return err
	}
	return r.command(os.Stdout, r.env, "go", "build", "-o", "bin/gotest", "./scripts/gotest")
}

// forward passes the signals that end programs on to what runs, and ends the run after it.
func (r *runner) forward() {
	heard := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(heard, s)
		}
	}
	go func() {
		for s := range heard {
			r.mu.Lock()
			r.interrupted = true
			if r.child != nil {
				_ = syscall.Kill(-r.child.Pid, s.(syscall.Signal)) // it may have ended
			}
			r.mu.Unlock()
		}
	}()
}

func (r *runner) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interrupted
}

// build begins to build the linter if it is not there, and reports whether it does. That takes minutes where the
// cache of the compiler does not have it.
func (r *runner) build(ctx context.Context) bool {
	linter := os.Getenv("LINTER")
	if linter == "" {
		return false
	}
	if _, err := os.Stat(linter); err == nil {
		return false
	}
	r.linter = make(chan error, 1)
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", linter)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	go func() { r.linter <- cmd.Run() }()
	return true
}

// stage runs one stage. Its output is shown and, except for make test, left in bin/gate or bin/proof.
func (r *runner) stage(s stage) (one result) {
	begin := time.Now()
	one = result{name: s.name, shows: s.shows, begun: begin, commit: r.commit()}
	if s.name == "lint" && r.linter != nil {
		if err := <-r.linter; err != nil {
			one.err = fmt.Errorf("build the linter: %w", err)
			return one
		}
	}
	summaries, err := r.leave(s)
	if err != nil {
		one.err = err
		return one
	}
	var out io.Writer = os.Stdout // where it is a terminal, gotest shows the progress in place
	if r.what != "test" {
		log, err := os.Create(summaries + ".log")
		if err != nil {
			one.err = err
			return one
		}
		defer log.Close()
		out = io.MultiWriter(os.Stdout, log)
	}
	env := append(r.env, "MORTISE_SUMMARIES="+summaries, s.server())
	if s.sh != "" {
		one.err = r.command(out, env, "bash", "-euo", "pipefail", "-c", s.sh)
	}
	for _, g := range s.tests {
		if one.err == nil || r.goOn && !r.stopped() {
			one.err = errors.Join(one.err, r.goTest(out, env, g))
		}
	}
	one.took = time.Since(begin)
	one.err = errors.Join(one.err, one.read(summaries), one.quote(summaries+".log", s.quote))
	if one.err == nil && one.Passed == 0 && len(s.runs)+len(s.tests) > 0 {
		one.err = errNothing
	}
	return one
}

// server keeps redis-server from a stage that does not need it, also where there is one: else nobody sees what a bare machine lacks.
func (s stage) server() string {
	const variable = "REDIS_SERVER_BIN"
	if slices.Contains(strings.Fields(s.needs), "redis") {
		return variable + "=" + os.Getenv(variable)
	}
	return variable + "=no-redis-server-in-a-stage-that-does-not-need-it"
}

var errNothing = errors.New("no test matches: nothing was tested, or not by each run")

// leave makes the folder for the summaries of a stage.
func (r *runner) leave(s stage) (summaries string, err error) {
	summaries, err = filepath.Abs(filepath.Join("bin", r.what, s.name))
	return summaries, errors.Join(err, os.RemoveAll(summaries), os.MkdirAll(summaries, 0o700))
}

// goTest runs a run of go test.
func (r *runner) goTest(out io.Writer, env []string, g goTest) error {
	args, err := g.command()
	if err != nil {
		return err
	}
	return r.command(out, append(env, g.env...), "bin/gotest", r.with(args, g)...)
}

// with adds the further arguments to those of go test, before the packages, or in place of them if they name
// packages. Only make test may know a result from before.
func (r *runner) with(args []string, g goTest) []string {
	more := slices.Clone(r.args)
	if r.what != "test" {
		more = append(more, "-count=1")
	}
	if g.packages == nil && slices.ContainsFunc(r.args, func(arg string) bool { return strings.HasPrefix(arg, ".") }) {
		return append(args[:slices.Index(args, "--")+1], more...)
	}
	return slices.Insert(args, slices.Index(args, "--")+1, more...)
}

// command runs a program in a process group of its own, which the signals are passed on to.
func (r *runner) command(out io.Writer, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.mu.Lock()
	err := errors.New("interrupted")
	if !r.interrupted {
		err = cmd.Start()
		r.child = cmd.Process
	}
	r.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	r.mu.Lock()
	r.child = nil
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read adds what gotest has counted.
func (one *result) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var s result
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		one.Passed += s.Passed
		one.Failed += s.Failed
		one.Margins = append(one.Margins, s.Margins...)
		one.NotPassed = append(one.NotPassed, s.NotPassed...)
		if s.Passed+s.Failed == 0 {
			return errNothing
		}
	}
	return nil
}

// quote keeps the lines of the output that match, if there is a pattern.
func (one *result) quote(log, pattern string) error {
	if pattern == "" {
		return nil
	}
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if matches.MatchString(lines.Text()) {
			one.quoted = append(one.quoted, strings.TrimSpace(lines.Text()))
		}
	}
	return lines.Err()
}

// sum shows how the stages have ended, and returns how many are red.
func (r *runner) sum(out io.Writer, results []result, stages int, took time.Duration) (red int) {
	passed, failed := 0, 0
	fmt.Fprintln(out)
	for _, one := range results {
		state, tests := "ok", ""
		if one.err != nil {
			state = "RED"
			red++
		}
		if one.Passed+one.Failed > 0 {
			tests = fmt.Sprintf("%6d passed", one.Passed)
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-4s %-12s %7.1fs %s", state, one.name, one.took.Seconds(), tests), " "))
		if one.err != nil {
			r.red(out, one)
		}
		passed += one.Passed
		failed += one.Failed
	}
	if left := stages - len(results); left > 0 {
		fmt.Fprintf(out, "not run: %d of %d stages\n", left, stages)
	}
	fmt.Fprintf(out, "in all %v\n%d passed, %d failed\n", took.Round(time.Second), passed, failed)
	return red
}

// red says what failed in a stage, where its output is, and how it runs alone.
func (r *runner) red(out io.Writer, one result) {
	for _, test := range one.NotPassed[:min(10, len(one.NotPassed))] {
		fmt.Fprintln(out, "     not passed:", test)
	}
	if more := len(one.NotPassed) - 10; more > 0 {
		fmt.Fprintf(out, "     and %d more\n", more)
	}
	fmt.Fprintln(out, "     "+strings.ReplaceAll(one.err.Error(), "\n", "\n     "))
	if r.what != "test" {
		fmt.Fprintf(out, "     its output: bin/%s/%s.log; again: make %s ARGS=\"-only %s\"\n", r.what, one.name, r.what, one.name)
	}
}
