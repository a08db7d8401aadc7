package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// A run on a server where one test fails for what it lacks, and what go test -json prints of it.
const printed = `{"Action":"run","Package":"github.com/mortise-go/mortise/a","Test":"TestX"}
{"Action":"run","Package":"github.com/mortise-go/mortise/a","Test":"TestX/one"}
{"Action":"output","Package":"github.com/mortise-go/mortise/a","Test":"TestX/one","Output":"no SPUBLISH\n"}
{"Action":"fail","Package":"github.com/mortise-go/mortise/a","Test":"TestX/one"}
{"Action":"run","Package":"github.com/mortise-go/mortise/a","Test":"TestX/two"}
{"Action":"pass","Package":"github.com/mortise-go/mortise/a","Test":"TestX/two"}
{"Action":"fail","Package":"github.com/mortise-go/mortise/a","Test":"TestX"}
{"Action":"fail","Package":"github.com/mortise-go/mortise/a"}
`

func told(t *testing.T, lines string) *tally {
	t.Helper()
	all := newTally()
	if err := all.read(strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestJudge(t *testing.T) {
	one := lack{what: "one", tests: regexp.MustCompile(`^a TestX/one$`)}
	counts, err := judge(told(t, printed), []lack{one})
	if err != nil || counts["one"] != 1 || len(counts) != 1 {
		t.Errorf("%v, %v, want one test that fails for it", counts, err)
	}
	if _, err := judge(told(t, printed), nil); err == nil || !strings.Contains(err.Error(), "no SPUBLISH") {
		t.Errorf("a test fails for no reason that is known: %v, want an error with its output", err)
	}
	stale := lack{what: "two", tests: regexp.MustCompile(`^a TestX/two$`)}
	if _, err := judge(told(t, printed), []lack{one, stale}); err == nil || !strings.Contains(err.Error(), "lacks two") {
		t.Errorf("a test passes without what the server lacks: %v, want an error that says so", err)
	}
	if n := told(t, printed).passed(); n != 1 {
		t.Errorf("%d tests passed, want 1: one with subtests does not count", n)
	}
}

// The trials of a test are one test.
func TestTrialsAreOneTest(t *testing.T) {
	all := told(t, strings.ReplaceAll(printed, "TestX/", "TestX/try_2/"))
	if got := all.failed(); !slices.Equal(got, []string{"a TestX/one"}) || all.passed() != 1 {
		t.Errorf("%v failed, and %d passed, want TestX/one, and one", got, all.passed())
	}
}

// A package that does not build, or ends without its tests, is a failure, and so is a skipped test.
func TestJudgeWhatDidNotRun(t *testing.T) {
	for name, lines := range map[string]string{
		"a (package)": `{"Action":"fail","Package":"github.com/mortise-go/mortise/a"}`,
		"a TestS":     `{"Action":"skip","Package":"github.com/mortise-go/mortise/a","Test":"TestS"}`,
	} {
		if got := told(t, lines).failed(); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: %v failed, want %s", lines, got, name)
		}
	}
}

// What is fetched must be what was tested.
func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mortise\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const sum = "0ce1bb2d35a2a05ab2e90ebc54e1fa1f0be0c1e3ca1ce2b2f8a2ac7ee1fd5a0f"
	if err := check(file, sum); err == nil || !strings.Contains(err.Error(), sum) {
		t.Errorf("%v, want an error that names the SHA-256", err)
	}
	if err := check(file, sumOf(t, file)); err != nil {
		t.Error(err)
	}
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	err := check(file, "")
	if err == nil {
		t.Fatal("no error")
	}
	return regexp.MustCompile(`[0-9a-f]{64}`).FindString(err.Error())
}

// Each server is named once, and each that is fetched has a SHA-256.
func TestServers(t *testing.T) {
	names := map[string]bool{}
	for _, s := range servers {
		if names[s.name] {
			t.Errorf("%s is there twice", s.name)
		}
		names[s.name] = true
		for _, sum := range append([]deb{s.pkg, {sum: s.sum}}, s.libraries...) {
			if sum.path != "" && len(sum.sum) != 64 || s.project != "" && len(s.sum) != 64 {
				t.Errorf("%s: %q has no SHA-256", s.name, sum.path)
			}
		}
		if _, err := choose([]string{s.name}); err != nil {
			t.Error(err)
		}
	}
	if _, err := choose([]string{"redis-0.1"}); err == nil {
		t.Error("a server that does not exist is chosen")
	}
	lacks := func(v redistest.Version) bool { return len(server{}.lacks(v)) > 0 }
	if lacks(redistest.Version{Major: 7}) || !lacks(redistest.Version{Major: 6, Minor: 2}) {
		t.Error("Redis 7.0 lacks nothing, 6.2 does")
	}
}

// A run on one server leaves what is known of the others.
func TestTableKeepsOtherRows(t *testing.T) {
	t.Chdir(t.TempDir())
	a, b, c := server{name: "a"}, server{name: "b"}, server{name: "c"}
	if err := b.keep(result{Server: "Redis 6.2.14", From: "PyPI", Passed: 4321, Lacking: map[string]int{lacking[0].what: 2}}); err != nil {
		t.Fatal(err)
	}
	old := "| a | kept |\n| b | replaced |\n| gone | x |\n"
	got, err := tableOf([]server{a, b, c}, old)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.SplitAfter(got, "\n")[2:]
	if len(rows) != 3 || rows[0] != "| a | kept |\n" || !strings.HasPrefix(rows[1], "| b | Redis 6.2.14 | PyPI | 4,321 | sharded messages (2) |") {
		t.Errorf("%q", rows)
	}
}

// The page has the place for the tables, with a row for each server, and what servers lack.
func TestPageHasTheTables(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), begin)
	table, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	for _, s := range servers {
		if rowOf(s.name, table) == "" {
			t.Errorf("%s has no row of %s", page, s.name)
		}
	}
	if !strings.HasSuffix(table, "|\n\n"+tableOfLacks()) {
		t.Errorf("%s does not end with what servers lack: go run ./scripts/servers table", page)
	}
}
