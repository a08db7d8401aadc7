package analyzer_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/mortise-go/mortise/analyzer"
)

func TestAnalyzer(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), analyzer.Analyzer, "a")
}

// The command works as go vet's tool, and knows the real package.
func TestVetTool(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "mortisevet")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "./cmd/mortisevet").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-vettool="+tool, "./testdata/misuse").CombinedOutput()
	if err == nil {
		t.Errorf("go vet has found nothing, want it to fail")
	}
	got := string(out)
	for _, want := range []string{
		":11:2: the hold is dropped", ":12:2: the hold is dropped", ":13:2: the hold is dropped", ":14:2: the hold is dropped",
		":15:2: the hold is dropped", ":16:2: the term is dropped", ":17:2: the member is dropped",
		":25:7: ctx does not end when the lock is lost; the context that does was dropped in line 21",
		":32:7: lctx has ended: its hold was released by Unlock in line 31",
		":34:8: ctx does not end when the lock is lost; the context that does is the parameter of the function in line 33",
		":42:8: ctx does not end when the lock is lost; the context that does is the parameter of the function in line 41",
		":46:10: ctx waits for the lock that is held here, unless it has an owner; the context that re-enters is lctx",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "misuse.go:"); n != 12 {
		t.Errorf("%d reports, want 12:\n%s", n, got)
	}
}
