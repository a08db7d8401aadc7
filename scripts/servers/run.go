package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

const module = "github.com/mortise-go/mortise"

// packages is those whose tests need a real server.
var packages = []string{
	"./tests/server/...", "./internal/script", "./driver/...", "./connect", "./doctor", "./fencing", "./internal/redistest", "./cmd/mortise/...",
}

// result is what a run on one server showed.
type result struct {
	Server  string // name and version
	From    string
	Passed  int            // tests without subtests
	Lacking map[string]int // tests that failed for what the server lacks, by that
	Took    time.Duration
}

// test runs the tests on the servers, one after another, and keeps the results.
func test(chosen []server) error {
	var errs []error
	for _, s := range chosen {
		r, err := s.test()
		if err != nil {
			fmt.Printf("%-14s failed: %v\n", s.name, err) // now: the other servers take long
			errs = append(errs, fmt.Errorf("%s failed, see above", s.name))
			continue
		}
		fmt.Printf("%-14s %s: %d tests passed in %v; %v for what it lacks\n",
			s.name, r.Server, r.Passed, r.Took.Round(time.Second), r.Lacking)
		errs = append(errs, s.keep(r))
	}
	return errors.Join(errs...)
}

func (s server) kept() string { return filepath.Join(cache, s.name, "result.json") }

func (s server) keep(r result) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.kept()), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.kept(), text, 0o644)
}

// test runs the tests on the server. An error is a test that failed though the server has what it
// needs, or passed though the server has not.
func (s server) test() (result, error) {
	path, err := s.fetch()
	if err != nil {
		return result{}, err
	}
	version, err := redistest.VersionOf(path)
	if err != nil {
		return result{}, err
	}
	fmt.Printf("%-14s %s: %s\n", s.name, version.Text, path)
	begin := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-json", "-tags", "server,proof", "-timeout", "20m"}, packages...)...)
	cmd.Env = append(os.Environ(), "REDIS_SERVER_BIN="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	t := newTally()
	err = t.read(out)
	if wait := cmd.Wait(); err == nil && wait != nil && len(t.failed()) == 0 {
		err = fmt.Errorf("go test: %w, though no test failed", wait)
	}
	if err != nil {
		return result{}, err
	}
	r := result{Server: version.Text, From: s.from(), Passed: t.passed(), Took: time.Since(begin)}
	r.Lacking, err = judge(t, s.lacks(version))
	return r, err
}

// tally is the outcome of each test.
type tally struct {
	outcome map[string]string
	parent  map[string]bool // tests with subtests
	printed map[string][]string
}

func newTally() *tally {
	return &tally{outcome: map[string]string{}, parent: map[string]bool{}, printed: map[string][]string{}}
}

// read reads what go test -json prints.
func (t *tally) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e struct{ Action, Package, Test, Output string }
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(os.Stderr, string(line))
			}
			t.note(e.Action, strings.TrimPrefix(e.Package, module+"/"), e.Test, e.Output)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// try is the part of a test's name that says which trial of package canary it is.
var try = regexp.MustCompile(`/try_\d+`)

func (t *tally) note(action, pkg, test, output string) {
	test = try.ReplaceAllString(test, "")
	if action == "fail" && test == "" && len(t.failedIn(pkg)) == 0 {
		test = "(package)" // it was not built, or it panicked
	}
	name := pkg + " " + test
	switch action {
	case "pass", "fail", "skip":
		if test != "" {
			t.outcome[name] = action
		}
	case "run":
		for up := test; strings.Contains(up, "/"); {
			up = up[:strings.LastIndex(up, "/")]
			t.parent[pkg+" "+up] = true
		}
	case "output", "build-output":
		t.printed[name] = append(t.printed[name], output)
	}
}

func (t *tally) failedIn(pkg string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(t.outcome)) {
		if strings.HasPrefix(name, pkg+" ") && t.outcome[name] != "pass" && !t.failedBelow(name) {
			names = append(names, name)
		}
	}
	return names
}

// failed returns the tests that failed or were skipped, without those of which only a subtest did.
func (t *tally) failed() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(t.outcome)) {
		if t.outcome[name] != "pass" && !t.failedBelow(name) {
			names = append(names, name)
		}
	}
	return names
}

func (t *tally) failedBelow(name string) bool {
	if !t.parent[name] {
		return false
	}
	for other, outcome := range t.outcome {
		if outcome != "pass" && strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

func (t *tally) passed() (n int) {
	for name, outcome := range t.outcome {
		if outcome == "pass" && !t.parent[name] {
			n++
		}
	}
	return n
}

// judge counts the failed tests by what the server lacks.
func judge(t *tally, lacks []lack) (map[string]int, error) {
	counts := map[string]int{}
	var errs []error
	for _, name := range t.failed() {
		i := slices.IndexFunc(lacks, func(l lack) bool { return l.tests.MatchString(name) })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s: %s\n%s", t.outcome[name], name, strings.Join(t.printed[name], "")))
			continue
		}
		counts[lacks[i].what]++
	}
	for _, l := range lacks {
		if counts[l.what] == 0 {
			errs = append(errs, fmt.Errorf("it lacks %s, but no test noticed", l.what))
		}
	}
	return counts, errors.Join(errs...)
}
