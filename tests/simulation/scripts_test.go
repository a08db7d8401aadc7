package simulation

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// unused are the scripts that no plan needs, each with the reason.
var unused = map[string]string{
	"look":   "no client asks for replicas",
	"tokens": "only an operator makes tokens expire that were not used for long",

	"client_ask": "what a holder does that is asked to release is its own decision, and not part of a history",
}

// checkScripts fails if a script was not run: then nothing is known about mistakes in it.
func checkScripts(t *testing.T, ran map[string]int) {
	t.Helper()
	for _, name := range scripts(t) {
		switch why, listed := unused[name]; {
		case ran[name] > 0 && listed:
			t.Errorf("the script %s was run, although %s", name, why)
		case ran[name] == 0 && !listed:
			t.Errorf("the script %s was never run", name)
		}
	}
}

// scripts returns the names of all scripts of mortise.
func scripts(t *testing.T) (names []string) {
	files, err := filepath.Glob("../../internal/script/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`= load\("(\w+)"`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	if len(names) < 40 {
		t.Fatalf("%d scripts are found, want all of them", len(names))
	}
	return names
}
