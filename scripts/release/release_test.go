package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTree returns a tree with these files.
func newTree(t *testing.T, files map[string]string) tree {
	t.Helper()
	work := tree(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(work.file(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(work.file(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return work
}

var (
	rootModule    = module{path: root}
	commandModule = module{path: root + "/cmd/mortise", dir: "cmd/mortise"}
)

func TestTagsAreThoseThatGoLooksFor(t *testing.T) {
	for m, want := range map[module]string{rootModule: "v0.1.0", commandModule: "cmd/mortise/v0.1.0"} {
		if got := m.tag("v0.1.0"); got != want {
			t.Errorf("the tag of %s is %s, want %s", m.path, got, want)
		}
	}
}

func TestModulesRequireTheReleasedRoot(t *testing.T) {
	for _, test := range []struct{ mod, want, refused string }{
		{"require (\n\texample.com/x v1.0.0\n\t" + root + " v0.0.0\n)\n", root + " v0.1.0", ""},
		{"require " + root + " v0.0.0\n", root + " v0.1.0", ""},
		{"require example.com/x v1.0.0\n", "example.com/x v1.0.0", ""},
		{"require " + root + " v0.0.0\n\nreplace " + root + " => ../..\n", "", "go install would refuse it"},
		{"exclude example.com/x v1.0.0\n", "", "go install would refuse it"},
		{"require " + root + "/cmd/mortise v0.0.0\n", "", "may require the root only"},
	} {
		work := newTree(t, map[string]string{"other/go.mod": "module " + root + "/other\n\ngo 1.26.0\n\n" + test.mod})
		other := module{path: root + "/other", dir: "other"}
		err := work.requireRoot(other, []module{rootModule, commandModule, other}, "v0.1.0")
		text, readErr := os.ReadFile(work.file("other", "go.mod"))
		switch {
		case readErr != nil:
			t.Error(readErr)
		case test.refused != "":
			if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%q: %v, want an error with %q", test.mod, err, test.refused)
			}
		case err != nil || !strings.Contains(string(text), test.want):
			t.Errorf("%q became, with error %v:\n%s\nwant %s", test.mod, err, text, test.want)
		}
	}
}

func TestSumsOfEarlierReleasesAreReplaced(t *testing.T) {
	old := "example.com/x v1.0.0 h1:x\n" + root + " v0.1.0 h1:old\n" + root + " v0.1.0/go.mod h1:old\nzzz.example/y v1.0.0 h1:y\n"
	want := "example.com/x v1.0.0 h1:x\n" + root + " v0.2.0 h1:new\n" + root + " v0.2.0/go.mod h1:mod\nzzz.example/y v1.0.0 h1:y\n"
	p := proxy{published: []published{{Path: root, Version: "v0.2.0", Sum: "h1:new", GoModSum: "h1:mod"}}}
	if got := withSums(old, p.sums()); got != want {
		t.Errorf("go.sum is\n%s\nwant\n%s", got, want)
	}
}

func TestAReleaseNamesItsChanges(t *testing.T) {
	for text, want := range map[string]bool{
		"# Changelog\n\n## [Unreleased]\n\n### Added\n\n- x\n":                 true,
		"# Changelog\n\n## [Unreleased]\n\n- x\n\n## [0.1.0] - 2026-11-01\n":   true,
		"# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-01\n\n- x\n":   false,
		"# Changelog\n\n## [Unreleased]\n":                                     false,
		"# Changelog\n\n## [0.1.0] - 2026-11-01\n\n### Added\n\n- long ago.\n": false,
	} {
		got, err := newTree(t, map[string]string{"CHANGELOG.md": text}).unreleased()
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
