package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// again returns the command that runs a test, or all of a package, alone.
func (r *report) again(t test) string {
	words := []string{"go test -count=1"}
	dir := "."
	if os.Getenv("GOWORK") == "off" { // a module outside the workspace
		words[0] = "cd " + strings.TrimPrefix(t.pkg, module+"/") + " && GOWORK=off " + words[0]
	} else if pkg, ours := strings.CutPrefix(t.pkg, module); ours {
		dir += pkg
	} else {
		dir = t.pkg // as it was asked for: there is none
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
	if t.name != "" {
		words = append(words, "-run", pattern(t.name))
	}
	words = append(words, dir)
	if i := slices.Index(r.args, "-args"); i >= 0 {
		words = append(words, r.args[i:]...)
	}
	return strings.Join(words, " ")
}

// pattern returns the pattern of one test, quoted for a shell.
func pattern(test string) string {
	var names []string
	for name := range strings.SplitSeq(lastTry.ReplaceAllString(test, ""), "/") {
		if pattern := "^" + regexp.QuoteMeta(name) + "$"; !strings.HasPrefix(name, "try_") {
			names = append(names, pattern)
		} else {
			names = append(names, "^try_")
		}
	}
	return "'" + strings.ReplaceAll(strings.Join(names, "/"), "'", `'\''`) + "'"
}

// lastTry is a trial of a test that canary judges. It runs again with the test, which begins with the first one.
var lastTry = regexp.MustCompile(`/try_\d+$`)

// listed returns what did not pass of a package, without the tests of which a part is listed.
func (r *report) listed(pkg string) []test {
	return slices.DeleteFunc(slices.Clone(r.bad[pkg]), func(t test) bool { return r.above[t] })
}

// counts returns how many tests have passed, and how many failures there are.
func (r *report) counts() (passed, failed int) {
	for _, n := range r.passed {
		passed += n
	}
	for pkg := range r.bad {
		failed += len(r.listed(pkg))
	}
	if r.still != "" {
		failed++
	}
	return passed, failed
}

// failure is what is said of one that did not pass.
type failure struct {
	name string
	more []string // what the compiler or vet printed first, and the command that runs it alone
}

// failures returns what did not pass. Those that only need a package that was not built come last.
func (r *report) failures() (all []failure) {
	var last []failure
	for _, pkg := range slices.Sorted(maps.Keys(r.bad)) {
		for _, t := range r.listed(pkg) {
			f := failure{t.String(), []string{r.again(t)}}
			if r.skipped[t] {
				f.name += ", skipped: it has tested nothing"
			}
			of := r.unbuilt[pkg]
			if of == "" {
				all = append(all, f)
				continue
			}
			f.name += ", not built"
			if of == pkg || len(r.bad[of]) == 0 { // else it is said of the other one
				f.more = slices.Concat(r.builds[of], f.more)
			}
			if of == pkg {
				all = append(all, f)
			} else {
				f.name += ": it needs " + test{of, ""}.String()
				last = append(last, f)
			}
		}
	}
	if r.still != "" {
		all = append(all, failure{name: test{r.still, ""}.String() + ", which stood still"})
	}
	return append(all, last...)
}

// summary is what a run leaves behind.
type summary struct {
	Passed, Failed int
	NotPassed      []string
	Margins        []string // of bounds on real time, kept or broken
}

// write leaves a summary in a folder.
func (r *report) write(dir string) error {
	s := summary{Margins: r.margins}
	s.Passed, s.Failed = r.counts()
	for _, f := range r.failures() {
		s.NotPassed = append(s.NotPassed, f.name)
	}
	text, err := json.Marshal(s)
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
