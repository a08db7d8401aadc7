// Package documents tests that the documents show code that runs, and name what exists.
package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// atRoot runs a test in the root of the repository, to which paths are relative, as in the documents. A change of the folder before the tests begin
// would not be known to the cache of go test, which then takes no notice of changed documents.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

// Every block of code of a document is, line by line, part of a file that is compiled and run, or a
// program that the rehearsal of a release builds and runs. The Java is compiled by make interop.
func TestDocumentsShowCodeThatRuns(t *testing.T) {
	atRoot(t)
	for _, shown := range []struct {
		document, language string
		files              []string
		least              int
	}{
		{"README.md", "go", []string{"example_test.go"}, 1},
		{"docs/guide.md", "go", []string{"example_test.go", "mortisetest/guide_test.go"}, 4},
		{"docs/dashboard.md", "go", []string{"dashboard/example_test.go"}, 1},
		{"docs/migration.md", "go", []string{"examples/migration/*.go"}, 9},
		{"docs/migration.md", "java", []string{"interop/redisson/src/main/java/mortise/agent/Migration.java"}, 1},
	} {
		text, err := os.ReadFile(shown.document)
		if err != nil {
			t.Fatal(err)
		}
		code := unindent(read(t, shown.files...))
		blocks := regexp.MustCompile("(?s)```"+shown.language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < shown.least {
			t.Errorf("%s has %d blocks of %s, want %d at least: is it read right?", shown.document, len(blocks), shown.language, shown.least)
		}
		for _, block := range blocks {
			if !strings.HasPrefix(block[1], "package main\n") && !strings.Contains(code, unindent(block[1])) {
				t.Errorf("this block of %s is in none of the files that are compiled (%s):\n%s", shown.document, strings.Join(shown.files, ", "), block[1])
			}
		}
	}
}

// What the tables of docs/migration.md give as mortise's names is the name of something.
func TestMigrationLeadsToWhatExists(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	exist := make(map[string]bool)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(read(t, "*.go", "driver/*/*.go", "fencing/*.go"), -1) {
		exist[word] = true
	}
	checked := 0
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]+\|([^|]+)\|[^|]*\|$`).FindAllStringSubmatch(string(text), -1) {
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(row[1], -1) {
			for _, name := range regexp.MustCompile(`\b[A-Z]\w*[a-z]\w*`).FindAllString(quoted, -1) {
				checked++
				if !exist[name] {
					t.Errorf("docs/migration.md leads to %s in %s, and mortise has none", name, quoted)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("the tables have %d names, want a hundred at least: are they read right?", checked)
	}
}

// read returns the text of all files that match, without tests.
func read(t *testing.T, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || files == nil {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") && strings.Contains(pattern, "*") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

// unindent removes the indentation of each line.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

// Links between the documents, and to the code, have existing targets, and their anchors are headings there.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	atRoot(t)
	var documents []string
	for _, pattern := range []string{"*.md", "*/*.md", ".github/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	links, anchored := 0, 0
	for _, document := range documents {
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(read(t, document), -1) {
			to, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			links++
			target := document
			if to != "" {
				target = filepath.Join(filepath.Dir(document), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, link[1])
			} else if anchor != "" {
				if anchored++; !anchors(read(t, target))[anchor] {
					t.Errorf("%s links to %s, and %s has no such heading", document, link[1], target)
				}
			}
		}
	}
	if links < 200 || anchored < 80 {
		t.Errorf("the documents have %d links, %d of them with an anchor: are they read right?", links, anchored)
	}
}

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	all := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		title = regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(title), "")
		slug := strings.ReplaceAll(strings.TrimSpace(title), " ", "-")
		anchor := slug
		for n := 1; all[anchor]; n++ {
			anchor = slug + "-" + strconv.Itoa(n)
		}
		all[anchor] = true
	}
	return all
}

// The documents, and the page of the core, name files that exist.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	atRoot(t)
	exist := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		for rest := path; err == nil; {
			exist[rest] = true
			_, after, more := strings.Cut(rest, string(filepath.Separator))
			if rest = after; !more {
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for document, form := range map[string]string{
		"docs/design.md": "`([\\w/]+\\.(?:go|lua))`", "CONTRIBUTING.md": "`([\\w/]+\\.(?:go|lua))`", "internal/lease/doc.go": `([\w]+\.go)\b`, "internal/waiting/doc.go": `([\w]+\.go)\b`,
	} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1) {
			named++
			if !exist[name[1]] {
				t.Errorf("%s names %s, which does not exist", document, name[1])
			}
		}
	}
	if named < 40 {
		t.Errorf("the documents name %d files, want forty at least: are they read right?", named)
	}
}

// The documents name tests, and the tests exist.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	atRoot(t)
	var code strings.Builder
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{"docs/guarantees.md", "docs/security.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
		if len(names) < 15 {
			t.Fatalf("%s names %d tests, want a test for each claim", document, len(names))
		}
		for _, name := range names {
			if !strings.Contains(code.String(), "func "+name[1]+"(") {
				t.Errorf("%s names %s, which does not exist", document, name[1])
			}
		}
	}
}

// The page about security names every module that one of this repository requires directly.
func TestSecurityNamesEveryDependency(t *testing.T) {
	atRoot(t)
	page := read(t, "docs/security.md")
	required := regexp.MustCompile(`(?m)^(?:require)?\s+([a-z][\w./-]+) v\S+$`) // the others are marked as indirect
	found := 0
	for _, file := range []string{"go.mod", "cmd/mortise/go.mod", "analyzer/go.mod", "fencing/sqlexample/go.mod", "examples/go.mod", "bench/go.mod", "mortiseotel/go.mod", "mortiseprom/go.mod", "mortiseprom/alertstest/go.mod", "tests/browser/go.mod"} {
		for _, module := range required.FindAllStringSubmatch(read(t, file), -1) {
			if found++; !strings.HasPrefix(module[1]+"/", "github.com/mortise-go/mortise/") && !strings.Contains(page, "`"+module[1]+"`") {
				t.Errorf("docs/security.md does not name %s of %s", module[1], file)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d requirements, want more: are the files read right?", found)
	}
}

// The goals give the number of mistakes in the list as one that it has outgrown: the exact one would be
// stale with the next.
func TestGoalsCountWhatThereIs(t *testing.T) {
	atRoot(t)
	page := read(t, "docs/guarantees.md")
	told := regexp.MustCompile(`more than (\d+) in the list`).FindStringSubmatch(page)
	if told == nil {
		t.Fatal("docs/guarantees.md does not say how many mistakes are in the list")
	}
	least, err := strconv.Atoi(told[1])
	if err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^== `).FindAllString(read(t, "scripts/mutants/list/*.txt"), -1)); n <= least || n > 2*least {
		t.Errorf("docs/guarantees.md says %q, and there are %d", told[0], n)
	}
}
