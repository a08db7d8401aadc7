package main

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
)

// again returns the command that runs a test alone, if t is one whose parts have no commands of their own.
func (r *report) again(t test) string {
	if t.name == "" || slices.ContainsFunc(r.bad[t.pkg], func(other test) bool { return strings.HasPrefix(other.name, t.name+"/") }) {
		return ""
	}
	words := []string{"go test -count=1"}
	dir := "."
	if os.Getenv("GOWORK") == "off" { // a module outside the workspace
		words[0] = "cd " + strings.TrimPrefix(t.pkg, module+"/") + " && GOWORK=off " + words[0]
	} else {
		dir += strings.TrimPrefix(t.pkg, module)
	}
	if n := os.Getenv("GOMAXPROCS"); n != "" {
		words[0] = strings.Replace(words[0], "go test", "GOMAXPROCS="+n+" go test", 1)
	}
	if slices.Contains(r.args, "-race") {
		words = append(words, "-race")
	}
	if i := slices.Index(r.args, "-tags"); i >= 0 && i+1 < len(r.args) {
		words = append(words, r.args[i:i+2]...)
	}
	var names []string
	for name := range strings.SplitSeq(lastTry.ReplaceAllString(t.name, ""), "/") {
		if pattern := "^" + regexp.QuoteMeta(name) + "$"; !strings.HasPrefix(name, "try_") {
			names = append(names, pattern)
		} else {
			names = append(names, "^try_")
		}
	}
	words = append(words, "-run", "'"+strings.ReplaceAll(strings.Join(names, "/"), "'", `'\''`)+"'", dir)
	if i := slices.Index(r.args, "-args"); i >= 0 {
		words = append(words, r.args[i:]...)
	}
	return strings.Join(words, " ")
}

// lastTry is a trial of a test that canary judges. It runs again with the test, which begins with the first one.
var lastTry = regexp.MustCompile(`/try_\d+$`)

// summary is what a run leaves behind.
type summary struct {
	Passed, Failed, Skipped int
	NotPassed               []string
	Margins                 []string // of bounds on real time, kept or broken
}

// notPassed names the tests that did not pass, without those of which a part is named.
func (r *report) notPassed() (names []string) {
	for _, bad := range r.bad {
		for _, t := range bad {
			if r.again(t) != "" || len(bad) == 1 {
				names = append(names, t.String())
			}
		}
	}
	if r.still != "" {
		names = append(names, test{r.still, ""}.String()+", which stood still")
	}
	return names
}

// write leaves a summary in a folder.
func (r *report) write(dir string) error {
	text, err := json.Marshal(summary{r.count.passed, r.count.failed, r.count.skipped, r.notPassed(), r.margins})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "*.json")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
