package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEachMutantCanBeMade keeps the list from rotting: what a mutant changes is there, once, and
// so is its test.
func TestEachMutantCanBeMade(t *testing.T) {
	t.Chdir("../..")
	all, err := load(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkAll(".", all); err != nil {
		t.Error(err)
	}
	if len(all) < 150 {
		t.Errorf("there are %d mutants, want 150 at least", len(all))
	}
}

const good = `# a comment
== one
What it means,
on two lines.
test: ./pkg TestThis/of_that
ends: panics
file: a.go
 stays
-	goes
+	comes
file: b.go
-goes, too

== two
It means this.
test: . TestThat
needs: redis
file: a.go
-x
`

func TestParse(t *testing.T) {
	all, err := parse(good)
	if err != nil {
		t.Fatal(err)
	}
	want := []mutant{
		{name: "one", why: "What it means, on two lines.", pkg: "./pkg", test: "TestThis/of_that", ends: "panics", hunks: []hunk{
			{"a.go", "stays\n\tgoes\n", "stays\n\tcomes\n"}, {"b.go", "goes, too\n", ""},
		}},
		{name: "two", why: "It means this.", pkg: ".", test: "TestThat", needs: "redis", hunks: []hunk{{"a.go", "x\n", ""}}},
	}
	if len(all) != len(want) {
		t.Fatalf("got %d mutants, want %d", len(all), len(want))
	}
	for i, m := range all {
		if w := want[i]; !slices.Equal(m.hunks, w.hunks) || m.name != w.name || m.why != w.why || m.pkg != w.pkg || m.test != w.test || m.ends != w.ends || m.needs != w.needs {
			t.Errorf("got %+v, want %+v", m, w)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"what belongs to no mutant":   {"== one\n", ""},
		"a name that is none":         {"== one", "== One thing"},
		"a mutant without a meaning":  {"It means this.\n", ""},
		"a mutant without a test":     {"test: . TestThat\n", ""},
		"a test that is none":         {"test: . TestThat", "test: . BenchmarkThat"},
		"an end that is none":         {"ends: panics", "ends: well"},
		"a mutant without a file":     {"file: a.go\n-x\n", ""},
		"a part that adds only":       {"-x\n", "+x\n"},
		"a part that changes nothing": {"-x\n", " x\n"},
		"a line that is of no diff":   {"-goes, too", "goes, too"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if all, err := parse(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, all)
		}
	}
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one\n\ttwo\nthree\nxthree\ntwice\ntwice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		hunks []hunk
		want  string // empty for an error
	}{
		"one place":                  {[]hunk{{"a.go", "\ttwo\n", "\t2\n"}}, "one\n\t2\nthree\nxthree\ntwice\ntwice\n"},
		"the first line":             {[]hunk{{"a.go", "one\n", ""}}, "\ttwo\nthree\nxthree\ntwice\ntwice\n"},
		"a line that is also an end": {[]hunk{{"a.go", "three\n", ""}}, "one\n\ttwo\nxthree\ntwice\ntwice\n"},
		"two places of a file":       {[]hunk{{"a.go", "one\n", "1\n"}, {"a.go", "xthree\n", "3\n"}}, "1\n\ttwo\nthree\n3\ntwice\ntwice\n"},
		"what is there twice":        {[]hunk{{"a.go", "twice\n", ""}}, ""},
		"what is not there":          {[]hunk{{"a.go", "four\n", ""}}, ""},
		"half a line":                {[]hunk{{"a.go", "hree\n", ""}}, ""},
		"a file that is not there":   {[]hunk{{"b.go", "one\n", ""}}, ""},
	} {
		files, err := (&mutant{name: "m", hunks: c.hunks}).apply(dir)
		if (err == nil) != (c.want != "") || files["a.go"] != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, files["a.go"], err, c.want)
		}
	}
}

func TestCheckAllNamesWhatIsStale(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "a_test.go": "package a\n\nfunc TestThis(t *testing.T) {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := []hunk{{"a.go", "package a\n", "package b\n"}}
	if err := checkAll(dir, []mutant{{name: "m", hunks: there, pkg: ".", test: "TestThis/sub"}}); err != nil {
		t.Error(err)
	}
	for name, m := range map[string]mutant{
		"its text":    {name: "m", hunks: []hunk{{"a.go", "package c\n", ""}}, pkg: ".", test: "TestThis"},
		"its test":    {name: "m", hunks: there, pkg: ".", test: "TestTh"},
		"its package": {name: "m", hunks: there, pkg: "./b", test: "TestThis"},
	} {
		if err := checkAll(dir, []mutant{m}); err == nil {
			t.Errorf("%s is not there any more: no error", name)
		}
	}
}

// TestJudge has what go test prints in each case.
func TestJudge(t *testing.T) {
	const failed = `{"Action":"output","Test":"TestA/x","Output":"    a_test.go:7: got 1, want 2\n"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"pass","Test":"TestA/y"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`
	for name, c := range map[string]struct {
		out  string
		want outcome
		says string
	}{
		"a failed test":       {failed, caught, "a_test.go:7: got 1, want 2"},
		"passed":              {`{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"pass"}`, survived, ""},
		"no such test":        {`{"Action":"output","Output":"testing: warning: no tests to run\n"}` + "\n" + `{"Action":"pass"}`, noTest, ""},
		"nothing at all":      {"", noTest, ""},
		"does not compile":    {`{"Action":"build-output","Output":"a.go:1: undefined: x\n"}` + "\n" + `{"Action":"build-fail"}` + "\n" + failed, unusable, "it does not compile"},
		"no Lua":              {`{"Action":"output","Test":"TestA","Output":"    a_test.go:7: ERR Error compiling script (new function): <string> line:1\n"}` + "\n" + failed, unusable, "it is no Lua: a_test.go:7: ERR Error compiling script (new function): <string> line:1"},
		"panics":              {`{"Action":"output","Test":"TestA","Output":"panic: index out of range\n"}` + "\n" + failed, panicked, "index out of range"},
		"hangs":               {`{"Action":"output","Test":"TestA","Output":"panic: test timed out after 30s\n"}` + "\n" + failed, hung, "test timed out after 30s"},
		"ends with the bench": {`{"Action":"output","Test":"TestA","Output":"fatal error: all goroutines are asleep\n"}`, panicked, "all goroutines are asleep"},
	} {
		v := judge(strings.NewReader(c.out))
		if v.outcome != c.want || v.says != c.says {
			t.Errorf("%s: got %q: %q, want %q: %q", name, v.outcome, v.says, c.want, c.says)
		}
	}
	if v := judge(strings.NewReader(failed)); !slices.Equal(v.by, []string{"TestA/x"}) {
		t.Errorf("caught by %q, want only the subtest", v.by)
	}
}

// A session of the command begins with its surroundings; only its FAIL says what is wrong.
func TestJudgeOfASession(t *testing.T) {
	v := judge(strings.NewReader(`{"Action":"output","Test":"TestS/run","Output":"    testscript.go:609: WORK=$WORK\n"}
{"Action":"output","Test":"TestS/run","Output":"        FAIL: testdata/run.txt:7: exit status 1, want 0\n"}
{"Action":"fail","Test":"TestS/run"}`))
	if want := "FAIL: testdata/run.txt:7: exit status 1, want 0"; v.outcome != caught || v.says != want {
		t.Errorf("got %s, want it caught, and %s", v, want)
	}
}

// TestResults shows which outcomes are good.
func TestResults(t *testing.T) {
	for _, c := range []struct {
		ends    string
		outcome outcome
		ok      bool
	}{
		{"", caught, true}, {"", survived, false}, {"", panicked, false}, {"", hung, false}, {"", unusable, false}, {"", noTest, false},
		{"panics", panicked, true}, {"panics", caught, false}, {"panics", hung, false}, {"hangs", hung, true}, {"hangs", survived, false},
	} {
		if r := (result{mutant: &mutant{ends: c.ends}, verdict: verdict{outcome: c.outcome}}); r.ok() != c.ok {
			t.Errorf("ends: %q, %s: got %v, want %v", c.ends, c.outcome, r.ok(), c.ok)
		}
	}
}

func TestAnchored(t *testing.T) {
	if got, want := anchored("TestA/x.y/z"), `^TestA$/^x\.y$/^z$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What is bounded in time begins nothing after its end, however many mutants there are.
func TestNoMutantIsBegunAfterTheEnd(t *testing.T) {
	results := runAll(t.Context(), bench{root: t.TempDir(), dir: t.TempDir()}, make([]mutant, 3), 1, time.Now())
	if len(results) != 0 {
		t.Errorf("%d mutants were run, want none", len(results))
	}
}
