package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// git runs git in the folder of a test.
func git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git: %v\n%s", err, out)
	}
}

// wantPage checks the title of a page, that it has some texts, and that its links are right where it lies.
func wantPage(t *testing.T, dir, title string, texts ...string) {
	t.Helper()
	text, err := os.ReadFile(dir + "/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)]+)#how`).FindSubmatch(text)
	if !strings.HasPrefix(string(text), "# "+title+"\n") || link == nil || filepath.Join(dir, string(link[1])) != "CONTRIBUTING.md" {
		t.Errorf("%s/proof.md says\n%s", dir, text)
	}
	for _, part := range texts {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s/proof.md does not say %q:\n%s", dir, part, text)
		}
	}
}

// The page says what ran at this commit, and for how long, also if it ran at several times.
func TestPage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"docs", "bin/proof"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	git(t, "init", "-q")
	if err := os.WriteFile(".gitignore", []byte("bin/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, "add", ".gitignore")
	git(t, "commit", "-q", "-m", "first")
	two := []stage{{name: "cost"}, {name: "goals"}}
	r := &runner{what: "proof"}
	ran := func(one result) {
		t.Helper()
		one.commit = commit()
		if err := errors.Join(r.keep(one), page(two)); err != nil {
			t.Fatal(err)
		}
	}
	const last, part = "The last proof", "A part of the proof"
	day := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	ran(result{name: "goals", begun: day.Add(2 * time.Hour), took: 40 * time.Second, err: errors.New("it is red"), Failed: 1})
	wantPage(t, "bin/proof", part, "in 40s.", "| goals |  | **red** | 0 | 1 | 40s |")
	if _, err := os.Stat("docs/proof.md"); err == nil {
		t.Error("a part of the proof is in docs")
	}
	ran(result{name: "cost", begun: day, took: 20 * time.Second, Passed: 7})
	wantPage(t, "docs", last, "Begun on 2 January 2026", "in 1m0s.", "| cost |  | green | 7 | 0 | 20s |", "| goals |  | **red** |")
	ran(result{name: "goals", begun: day, took: 50 * time.Second, Passed: 3})
	wantPage(t, "docs", last, "| goals |  | green, **red before**: 1 | 3 | 0 | 50s |")

	git(t, "add", "docs/proof.md")
	git(t, "commit", "-q", "-m", "second")
	ran(result{name: "goals", begun: day, took: 30 * time.Second, Passed: 2})
	wantPage(t, "bin/proof", part, "| goals |  | green | 2 | 0 | 30s |")
	wantPage(t, "docs", last, "| 3 | 0 | 50s |")
	ran(result{name: "cost", begun: day, took: 10 * time.Second, Passed: 9})
	wantPage(t, "docs", last, "| cost |  | green | 9 | 0 | 10s |", "| 2 | 0 | 30s |") // it has changed, and is not the code
	ran(result{name: "cost", begun: day, took: 10 * time.Second, Passed: 5})
	wantPage(t, "docs", last, "| cost |  | green | 5 | 0 | 10s |")

	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := commit()
	if !strings.Contains(before, "-dirty") {
		t.Errorf("with a new file the code is %s, want that it is dirty", before)
	}
	git(t, "add", "file")
	ran(result{name: "goals", begun: day, took: 10 * time.Second, Passed: 1})
	wantPage(t, "bin/proof", part, "-dirty", "| goals |  | green | 1 | 0 | 10s |")

	git(t, "commit", "-q", "-m", "third") // while a stage runs
	if err := r.keep(result{name: "cost", commit: before, begun: day}); err != nil {
		t.Fatal(err)
	}
	if results, missing, err := recall(two); err != nil || len(results) != 0 || len(missing) != 2 {
		t.Errorf("at a commit at which nothing began: %v, %v, %v", results, missing, err)
	}
}
