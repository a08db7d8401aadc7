package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

func goList(t *testing.T, dir, tags string, patterns ...string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", "-tags", tags}, patterns...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var one listed
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// every returns all runs of go test of some stages.
func every(stages []stage) (all []goTest) {
	for _, s := range stages {
		all = append(all, slices.Concat(s.runs, s.tests)...)
	}
	return all
}

// judged is a package that the gate runs, or some tests of it.
type judged struct {
	dir  string
	tags []string
	runs func(test string) bool
	kit  bool // what tests of other packages call: the functions for which runs is true
}

func packagesOfTheGate(t *testing.T) (all []judged) {
	t.Helper()
	for _, g := range every(gate) {
		pattern, err := g.pattern()
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(pattern, "/")
		matches := regexp.MustCompile(first)
		packages := g.packages
		if packages == nil {
			if packages, err = alone(); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range goList(t, ".", g.tags, packages...) {
			if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
				all = append(all, judged{dir: p.Dir, tags: strings.Split(g.tags, ","), runs: matches.MatchString})
			}
		}
	}
	return append(all, judged{dir: "driver/drivertest", kit: true, runs: regexp.MustCompile("^(closing|single|faults|cluster)$").MatchString})
}

// Each package with tests is in the gate or in the proof, so that no test is ever forgotten.
func TestEachPackageIsRun(t *testing.T) {
	t.Chdir("../..")
	run := make(map[string]bool)
	for _, g := range every(slices.Concat(gate, proof)) {
		packages, err := g.packages, error(nil)
		if packages == nil {
			packages, err = alone()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range goList(t, ".", g.tags, packages...) {
			run[p.ImportPath] = true
		}
	}
	modules, err := filepath.Glob("*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{"./...", "./cmd/mortise/...", "./fencing/sqlexample/..."}
	for _, m := range modules {
		patterns = append(patterns, "./"+filepath.Dir(m)+"/...")
	}
	tested := 0
	for _, p := range goList(t, ".", "server,proof,interop", patterns...) {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			if tested++; !run[p.ImportPath] {
				t.Errorf("no stage runs the tests of %s: name it in gate.go or proof.go", p.ImportPath)
			}
		}
	}
	if tested < 60 {
		t.Errorf("%d packages have tests, want 60 at least: are they found?", tested)
	}
}

func TestStagesHaveNames(t *testing.T) {
	for name, stages := range map[string][]stage{"gate": gate, "proof": proof} {
		seen := make(map[string]bool)
		for _, s := range stages {
			if s.name == "" || s.shows == "" || seen[s.name] || s.sh == "" && s.tests == nil {
				t.Errorf("%s: %+v has no name of its own, or does nothing", name, s)
			}
			seen[s.name] = true
			if s.quote != "" {
				regexp.MustCompile(s.quote)
			}
		}
	}
}

// A stage that names no redis-server has none, so that no test needs one unseen.
func TestStageHasNoServerUnlessItNeedsOne(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("REDIS_SERVER_BIN", "sh")
	r := &runner{what: "test", env: os.Environ()}
	for needs, found := range map[string]string{"": "", "cc": "", "redis cc": "sh"} {
		one := r.stage(stage{name: "one", needs: needs, sh: `command -v "$REDIS_SERVER_BIN" > found || true`})
		text, err := os.ReadFile("found")
		if one.err != nil || err != nil || filepath.Base(strings.TrimSpace(string(text))) != cmp.Or(found, ".") {
			t.Errorf("a stage that needs %q finds %q, %v, %v; want %q", needs, text, one.err, err, found)
		}
	}
}

// The workflow that runs the proof in shards leaves out no stage, and runs none twice.
func TestWorkflowRunsEachStage(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/proof.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, shards, _ := strings.Cut(string(text), "only:")
	shards, _, _ = strings.Cut(shards, "runs-on:")
	var got, want []string
	for _, shard := range regexp.MustCompile(`(?m)^ +- (\S+)$`).FindAllStringSubmatch(shards, -1) {
		got = append(got, strings.Split(shard[1], ",")...)
	}
	for _, s := range proof {
		want = append(want, s.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the shards of proof.yml run\n%v, want\n%v", got, want)
	}
}

// The list says which stage runs a package, or a file of tests.
func TestList(t *testing.T) {
	for _, words := range []string{"race ./internal/hub", "race herd", "test ./... but", "drivers -run ^TestDriver$", "redisson ./interop"} {
		name, what, _ := strings.Cut(words, " ")
		i := slices.IndexFunc(gate, func(s stage) bool { return s.name == name })
		if shown := gate[i].short(); !strings.HasPrefix(shown, name) || !strings.Contains(shown, what) {
			t.Errorf("%s is shown without %s:\n%s", name, what, shown)
		}
	}
}

func TestChoose(t *testing.T) {
	three := []stage{{name: "a"}, {name: "b"}, {name: "c"}}
	for only, want := range map[string]string{"": "abc", "b": "b", "c,a": "ac", "b,b": "b", "d": "", "a,d": "", "a,": ""} {
		chosen, err := choose(three, only)
		got := ""
		for _, s := range chosen {
			got += s.name
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", only, got, err, want)
		}
	}
}

// Tests of some files are exactly those.
func TestPatternOfFiles(t *testing.T) {
	got, err := goTest{packages: []string{"."}, files: []string{"stages"}}.pattern()
	if err != nil || !regexp.MustCompile(got).MatchString("TestPatternOfFiles") || regexp.MustCompile(got).MatchString("TestGateJudgesNoRealTime") {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := (goTest{packages: []string{"."}, files: []string{"gone"}}).pattern(); err == nil {
		t.Error("a file that is not there: no error")
	}
}

// Of each promise the margin that was used up the most stands on the page, and of all those first.
func TestClosest(t *testing.T) {
	got := closest([]result{{Margins: []string{
		"tests/server TestA: the next holder: 1s of 4s, the machine late by 2ms",
		"tests/server TestA: the next holder: 3s of 4s, the machine late by 3ms",
		"tests/server TestA/of b: the next: one: 950ms of 1s, the machine late by 0s",
		"what is no margin",
	}}, {Margins: []string{"x TestB: it: 0s of 1s, the machine late by 1m0s"}}})
	want := []margin{
		{"tests/server TestA/of b", "the next: one", 950 * time.Millisecond, time.Second, 0},
		{"tests/server TestA", "the next holder", 3 * time.Second, 4 * time.Second, 3 * time.Millisecond},
		{"x TestB", "it", 0, time.Second, time.Minute},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAsk(t *testing.T) {
	for words, want := range map[string]string{
		"gate": "form", "proof": "library", "test -run X": "test", "": "", "gates": "", "gate race": "", "proof -list": "", "lint gate": "",
	} {
		stages, err := ask(false, "", strings.Fields(words))
		if (err != nil) != (want == "") || err == nil && stages[0].name != want {
			t.Errorf("%q: got %v, %v, want the stage %q first", words, stages, err, want)
		}
	}
	for _, list := range []bool{true, false} {
		if _, err := ask(list, "form", []string{"test"}); err == nil {
			t.Errorf("-only for make test, -list %t: no error", list)
		}
	}
}

// Packages that make test is given take the place of all; other arguments come before the packages.
func TestWith(t *testing.T) {
	for given, want := range map[string]string{
		"-run X":             "-stall 1m -- -run X -timeout=0 ./a ./b",
		"-run X ./tests/...": "-stall 1m -- -run X ./tests/...",
	} {
		got := (&runner{what: "test", args: strings.Fields(given)}).with(strings.Fields("-stall 1m -- -timeout=0 ./a ./b"), goTest{})
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", given, got, want)
		}
	}
}

// What the gate runs of the suite of drivers is there.
func TestPartsOfTheDrivers(t *testing.T) {
	text, err := os.ReadFile("../../driver/drivertest/drivertest.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`t.Run("close", s.closing)`, `t.Run(string(Single), func`, `t.Run("faults", func`, `t.Run(string(Cluster), func`, `Single   Mode = "single"`, `Cluster  Mode = "cluster"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("drivertest.go lacks %s: the stage drivers of the gate runs the parts close, single, faults and cluster", part)
		}
	}
}

// What a stage prints and counts is in its result; a stage that is red ends the gate, and not the proof.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	const counts = `echo '{"Passed":2,"Failed":1,"Margins":["m"]}' >$MORTISE_SUMMARIES/1.json; echo "in all: 7"; `
	one := (&runner{what: "gate"}).stage(stage{name: "s", sh: counts + "false", quote: "^in all"})
	if one.err == nil || one.Passed != 2 || one.Failed != 1 || !slices.Equal(one.Margins, []string{"m"}) || !slices.Equal(one.quoted, []string{"in all: 7"}) {
		t.Errorf("got %+v", one)
	}
	if one := (&runner{what: "gate"}).stage(stage{name: "s", sh: "true", runs: []goTest{{}}}); one.err == nil {
		t.Error("a stage that has tested nothing is not red")
	}
	const nothing = `echo '{}' >$MORTISE_SUMMARIES/2.json; `
	if one := (&runner{what: "gate"}).stage(stage{name: "s", sh: counts + nothing}); one.err == nil {
		t.Error("a stage of which one run has tested nothing is not red")
	}
	if one := (&runner{what: "gate"}).stage(stage{name: "s", sh: "true"}); one.err != nil || one.Passed != 0 {
		t.Errorf("again: got %+v, want nothing of the run before", one)
	}
	(&runner{what: "test"}).stage(stage{name: "s", sh: "true"})
	for file, want := range map[string]bool{"bin/gate/s.log": true, "bin/test/s.log": false} {
		if _, err := os.Stat(file); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", file, err, want)
		}
	}
	var b strings.Builder
	if red := (&runner{what: "gate"}).sum(&b, []result{
		{name: "one", err: errors.New("no"), Failed: 1, NotPassed: []string{"a TestA"}}, {name: "two", Passed: 3}, {name: "three"},
	}, 4, time.Minute); red != 1 {
		t.Errorf("%d are red, want 1", red)
	}
	for _, want := range []string{
		"RED  one", "not passed: a TestA\n", `bin/gate/one.log; again: make gate ARGS="-only one"`, "ok   two", "three            0.0s\n",
		"not run: 1 of 4 stages", "3 passed, 1 failed\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
