package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one deliberate mistake.
type mutant struct {
	name  string
	why   string // what it would mean for users
	hunks []hunk
	pkg   string // of the test that has to notice it
	test  string // its name, with slashes before those of subtests
	ends  string // panics or hangs, if the test does not just fail; else empty
	needs string // a program that the test needs; empty in the fast layer
}

// hunk is a change of one place of a file.
type hunk struct {
	file          string
	before, after string // whole lines
}

// load reads all mutants in the files of a folder.
func load(dir string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no lists in %s: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, some...)
	}
	seen := make(map[string]bool)
	for _, m := range all {
		if seen[m.name] {
			return nil, fmt.Errorf("two mutants are called %s", m.name)
		}
		seen[m.name] = true
	}
	return all, nil
}

// parse reads a list of mutants. Each looks like this:
//
//	== unlock-by-anyone
//	A release frees the lock of another owner.
//	test: ./internal/script TestLockRelease/of_another
//	file: internal/script/lua/lock_release.lua
//	-if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
//	+if redis.call('del', KEYS[1]) == 0 then
//
// The lines after file are those of a unified diff: a minus for what goes, a plus for what
// comes, a space for what stays. What goes and stays must be found in the file exactly once.
// There may be several of these parts. Lines that begin with # are comments. Two more lines are
// possible, before file:
//
//	ends: panics (or hangs)  the test binary does so, instead of reporting a failed test
//	needs: redis             the test is not of the fast layer: it starts a real server
func parse(text string) (all []mutant, err error) {
	for i, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, mutant{name: name})
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d belongs to no mutant", i+1)
		}
		if err := all[len(all)-1].read(line); err != nil {
			return nil, fmt.Errorf("line %d, of %s: %w", i+1, all[len(all)-1].name, err)
		}
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].name, err)
		}
	}
	return all, nil
}

// read reads one line.
func (m *mutant) read(line string) error {
	key, value, _ := strings.Cut(line, ": ")
	if len(m.hunks) > 0 && key != "file" {
		h, rest := &m.hunks[len(m.hunks)-1], line[1:]+"\n"
		switch line[0] {
		case '-':
			h.before += rest
		case '+':
			h.after += rest
		case ' ':
			h.before += rest
			h.after += rest
		default:
			return fmt.Errorf("%q is neither a line of a diff nor the next part", line)
		}
		return nil
	}
	switch key {
	case "test":
		m.pkg, m.test, _ = strings.Cut(value, " ")
	case "ends":
		m.ends = value
	case "needs":
		m.needs = value
	case "file":
		m.hunks = append(m.hunks, hunk{file: value})
	default:
		m.why = strings.TrimSpace(m.why + " " + line)
	}
	return nil
}

var goodName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// check returns what is wrong with the form of m, or nil.
func (m *mutant) check() error {
	switch {
	case !goodName.MatchString(m.name):
		return errors.New("its name is not of words and hyphens")
	case m.why == "":
		return errors.New("nothing says what it means")
	case m.pkg == "" || !strings.HasPrefix(m.test, "Test"):
		return errors.New("it names no package and test")
	case m.ends != "" && m.ends != "panics" && m.ends != "hangs":
		return fmt.Errorf("a test cannot end with %q", m.ends)
	case len(m.hunks) == 0:
		return errors.New("it changes no file")
	}
	for _, h := range m.hunks {
		if h.before == "" || h.before == h.after {
			return fmt.Errorf("it changes nothing in %s", h.file)
		}
	}
	return nil
}

// apply returns the texts of the files that m changes, as they are afterwards.
func (m *mutant) apply(root string) (files map[string]string, err error) {
	files = make(map[string]string)
	for _, h := range m.hunks {
		text, ok := files[h.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, h.file))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			text = string(b)
		}
		places := places(text, h.before)
		if len(places) != 1 {
			return nil, fmt.Errorf("%s: %s contains the text %d times, not once:\n%s", m.name, h.file, len(places), h.before)
		}
		files[h.file] = text[:places[0]] + h.after + text[places[0]+len(h.before):]
	}
	return files, nil
}

// places returns where in text some whole lines are.
func places(text, lines string) (places []int) {
	for i := 0; ; i++ {
		n := strings.Index(text[i:], lines)
		if n < 0 {
			return places
		}
		if i += n; i == 0 || text[i-1] == '\n' {
			places = append(places, i)
		}
	}
}

// checkAll returns why some mutants cannot be made any more, or have no test any more.
func checkAll(root string, all []mutant) error {
	var errs []error
	tests := make(map[string]string) // the text of all tests of a package
	for _, m := range all {
		if _, err := m.apply(root); err != nil {
			errs = append(errs, err)
		}
		text, ok := tests[m.pkg]
		if !ok {
			text = testsOf(filepath.Join(root, m.pkg))
			tests[m.pkg] = text
		}
		if top, _, _ := strings.Cut(m.test, "/"); !strings.Contains(text, "\nfunc "+top+"(") {
			errs = append(errs, fmt.Errorf("%s: there is no %s in %s", m.name, top, m.pkg))
		}
	}
	return errors.Join(errs...)
}

// testsOf returns the text of all tests in a folder.
func testsOf(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is good
	slices.Sort(files)
	var b strings.Builder
	for _, file := range files {
		text, _ := os.ReadFile(file) // without it no test is found
		b.Write(text)
	}
	return b.String()
}
