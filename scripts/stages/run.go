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
}

// result is how a stage has ended.
type result struct {
	name, shows     string
	err             error
	took            time.Duration
	Passed, Failed  int
	Skipped         int
	Margins, quoted []string
}

// run runs the stages, and sums up. If they are all of the proof, it writes docs/proof.md.
func (r *runner) run(stages []stage, all bool) error {
	begin := time.Now()
	if err := command(os.Stdout, r.env, "go", "build", "-o", "bin/gotest", "./scripts/gotest"); err != nil {
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
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM) // the stage that runs ends by it, and then this does
	var results []result
	for i, s := range stages {
		fmt.Printf("\n== %s, %d of %d: %s, %s\n", r.what, i+1, len(stages), s.name, s.shows)
		one := r.stage(s)
		results = append(results, one)
		select {
		case <-interrupted:
			return errors.New("interrupted")
		default:
		}
		if one.err != nil && !r.goOn {
			break
		}
	}
	red := sum(os.Stdout, results, len(stages), time.Since(begin))
	if r.what == "proof" && all {
		if err := writePage(results, begin); err != nil {
			return err
		}
	}
	if red > 0 {
		return fmt.Errorf("%d of %d stages are red", red, len(stages))
	}
	return nil
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
	go func() { r.linter <- cmd.Run() }()
	return true
}

// stage runs one stage. Its output is shown, and left in bin/gate or bin/proof.
func (r *runner) stage(s stage) (one result) {
	begin := time.Now()
	one = result{name: s.name, shows: s.shows}
	dir := filepath.Join("bin", r.what)
	summaries := filepath.Join(dir, s.name)
	one.err = errors.Join(os.RemoveAll(summaries), os.MkdirAll(summaries, 0o700))
	log, err := os.Create(filepath.Join(dir, s.name+".log"))
	if err = errors.Join(one.err, err); err != nil {
		one.err = err
		return one
	}
	defer log.Close()
	out := io.MultiWriter(os.Stdout, log)
	here, err := os.Getwd()
	if err != nil {
		one.err = err
		return one
	}
	env := append(r.env, "MORTISE_SUMMARIES="+filepath.Join(here, summaries))
	if s.name == "lint" && r.linter != nil {
		if err := <-r.linter; err != nil {
			one.err = fmt.Errorf("build the linter: %w", err)
			return one
		}
	}
	if s.sh != "" {
		one.err = command(out, env, "bash", "-euo", "pipefail", "-c", s.sh)
	}
	for _, g := range s.tests {
		if one.err == nil || r.goOn {
			args, err := g.command()
			if err == nil {
				err = command(out, append(env, g.env...), "bin/gotest", r.with(args)...)
			}
			one.err = errors.Join(one.err, err)
		}
	}
	one.took = time.Since(begin)
	one.err = errors.Join(one.err, one.read(summaries), one.quote(log.Name(), s.quote))
	return one
}

// with adds the further arguments to those of go test, before the packages. Only make test may know a result from before.
func (r *runner) with(args []string) []string {
	more := r.args
	if r.what != "test" {
		more = append(more, "-count=1")
	}
	return slices.Insert(args, slices.Index(args, "--")+1, more...)
}

func command(out io.Writer, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, env
	if err := cmd.Run(); err != nil {
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
		one.Skipped += s.Skipped
		one.Margins = append(one.Margins, s.Margins...)
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
func sum(out io.Writer, results []result, stages int, took time.Duration) (red int) {
	passed, failed := 0, 0
	fmt.Fprintln(out)
	for _, one := range results {
		state := "ok"
		if one.err != nil {
			state = "RED"
			red++
		}
		fmt.Fprintf(out, "%-4s %-20s %7.1fs %6d passed\n", state, one.name, one.took.Seconds(), one.Passed)
		if one.err != nil {
			fmt.Fprintln(out, "     "+strings.ReplaceAll(one.err.Error(), "\n", "\n     "))
		}
		passed += one.Passed
		failed += one.Failed + one.Skipped
	}
	if left := stages - len(results); left > 0 {
		fmt.Fprintf(out, "%d stages were not run\n", left)
	}
	fmt.Fprintf(out, "%d stages in %v\n%d passed, %d failed\n", len(results), took.Round(time.Second), passed, failed)
	return red
}
