// Package newkind tests the example of CONTRIBUTING. It compiles the core anew, so it is not
// among the tests that are run after each change.
package newkind

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The kind of lock that CONTRIBUTING shows works in the places that it names.
func TestNewKindOfLock(t *testing.T) {
	const from = "tests/newkind/testdata/"
	t.Chdir("../..")
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for source, place := range map[string]string{
		"textlock.go": "textlock.go", "textlock_test.go": "textlock_test.go", "script/textlock.go": "internal/script/textlock.go",
	} {
		file, err := os.ReadFile(from + source)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(file)
		overlay.Replace[filepath.Join(here, place)] = filepath.Join(here, from+source)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 3 {
		t.Errorf("CONTRIBUTING has %d blocks of Go, want three at least: is it read right?", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), block[1]) {
			t.Errorf("this block of CONTRIBUTING is not in the example:\n%s", block[1])
		}
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-run", "^TestTextLock$", "-v", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTextLock") {
		t.Errorf("%v\n%s", err, out)
	}
}
