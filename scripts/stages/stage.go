package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// stage is a part of the gate or the proof. It runs sh, and then tests.
type stage struct {
	name  string
	shows string   // what it shows, in a few words
	needs string   // the programs that scripts/need.sh installs
	sh    string   // what bash runs, in the root of the repository; bin/gotest is there
	runs  []goTest // the tests that sh runs, as go test would be called
	tests []goTest
	quote string // a pattern of the lines of its output that stand in the proof
}

// goTest is a run of go test.
type goTest struct {
	race     bool
	deep     bool     // with -args -deep
	tags     string   // separated by commas
	stall    string   // how long a package may stand still; three minutes if empty, so that tests that wait for a minute say for what
	env      []string // NAME=value
	flags    []string
	packages []string // patterns; none are all of the root module that make test runs
	files    []string // only the tests of these files, without _test.go, of the one package
	run      string   // only these tests; a pattern
	skip     string   // not these
}

// short names a stage and what it runs: packages, and the files or the pattern of tests if not all of them run.
func (s stage) short() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %s\n", s.name, s.shows)
	if s.sh != "" && !strings.Contains(s.sh, "\n") {
		fmt.Fprintf(&b, "    %s\n", s.sh)
	}
	for _, g := range slices.Concat(s.runs, s.tests) {
		what := strings.Join(g.packages, " ")
		if g.packages == nil {
			what = "./... but " + notAlone.String()
		}
		if g.files != nil {
			what += ": " + strings.Join(g.files, " ")
		}
		if g.run != "" {
			what += " -run " + g.run
		}
		fmt.Fprintf(&b, "    %s\n", what)
	}
	return b.String()
}

// notAlone are the packages of the root module that need more than Go, or more time than make test has.
var notAlone = regexp.MustCompile(`/tests/(server|simulation|cost|newkind|torture|goals)(/|$)`)

// alone returns the packages of the root module that make test runs, the longest first.
func alone() ([]string, error) {
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := []string{"./tests/behavior"}
	for pkg := range strings.FieldsSeq(string(out)) {
		if !notAlone.MatchString(pkg) {
			packages = append(packages, pkg)
		}
	}
	return packages, nil
}

// command returns the arguments of gotest.
func (g goTest) command() ([]string, error) {
	args := []string{"-stall", cmp.Or(g.stall, "3m"), "--", "-timeout=0"} // gotest ends what stands still
	if g.race {
		args = append(args, "-race")
	}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	run, err := g.pattern()
	if err != nil {
		return nil, err
	}
	if run != "" {
		args = append(args, "-run", run)
	}
	if g.skip != "" {
		args = append(args, "-skip", g.skip)
	}
	args = append(args, g.flags...)
	packages := g.packages
	if packages == nil {
		if packages, err = alone(); err != nil {
			return nil, err
		}
	}
	args = append(args, packages...)
	if g.deep {
		args = append(args, "-args", "-deep")
	}
	return args, nil
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// pattern returns the pattern for -run: that of run, or one of all tests in files.
func (g goTest) pattern() (string, error) {
	if g.files == nil {
		return g.run, nil
	}
	var names []string
	for _, file := range g.files {
		text, err := os.ReadFile(filepath.Join(g.packages[0], file+"_test.go"))
		if err != nil {
			return "", err
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if found[1] != "TestMain" {
				names = append(names, found[1])
			}
		}
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}
