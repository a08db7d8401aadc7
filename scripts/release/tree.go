package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tree is a directory with a copy of this repository.
type tree string

// module is one module of the repository.
type module struct {
	path string
	dir  string // below the tree; empty for the root
}

// tag returns the name of the tag that publishes a version of the module.
func (m module) tag(version string) string {
	return strings.TrimPrefix(m.dir+"/"+version, "/")
}

// output runs a command with additions to the environment, and returns what it prints.
func output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, out, failed.String())
	}
	return string(out), nil
}

// modules returns the modules that go.work lists, the root first.
func (t tree) modules() ([]module, error) {
	list, err := output(string(t), []string{"GOFLAGS=", "GOWORK="}, "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}")
	if err != nil {
		return nil, err
	}
	var modules []module
	for line := range strings.Lines(list) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		m := module{path: path, dir: strings.TrimPrefix(strings.TrimPrefix(path, root), "/")}
		if want := filepath.Join(string(t), m.dir); dir != want {
			return nil, fmt.Errorf("module %s is in %s; go install looks for it in %s", path, dir, want)
		}
		if path == root {
			modules = append([]module{m}, modules...)
		} else {
			modules = append(modules, m)
		}
	}
	if len(modules) == 0 || modules[0].path != root {
		return nil, fmt.Errorf("go.work does not list the root:\n%s", list)
	}
	return modules, nil
}

// rootInWork is the line of go.work that says which version of the root is that of the work tree.
var rootInWork = regexp.MustCompile(`(?m)^replace ` + regexp.QuoteMeta(root) + ` (v\S+) => ./$`)

// version returns the version that the modules require of the root.
func (t tree) version() (string, error) {
	work, err := os.ReadFile(t.file("go.work"))
	if err != nil {
		return "", err
	}
	found := rootInWork.FindSubmatch(work)
	if found == nil {
		return "", fmt.Errorf("go.work has no line: replace %s vX.Y.Z => ./", root)
	}
	return string(found[1]), nil
}

func (t tree) file(parts ...string) string {
	return filepath.Join(append([]string{string(t)}, parts...)...)
}

// rewrite replaces a file by what change makes of it.
func (t tree) rewrite(file string, change func(text string) string) error {
	text, err := os.ReadFile(t.file(file))
	if err != nil {
		return err
	}
	return os.WriteFile(t.file(file), []byte(change(string(text))), 0o644)
}

// copyTo copies all files that git does not ignore, tracked or not.
func (t tree) copyTo(to tree) error {
	index := string(to) + ".git"
	if err := os.MkdirAll(string(to), 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "--bare", index},
		{"--git-dir", index, "-c", "core.autocrlf=false", "--work-tree", string(t), "add", "-A"},
		{"--git-dir", index, "-c", "core.autocrlf=false", "--work-tree", string(to), "checkout-index", "-a"},
	} {
		if _, err := output(string(t), nil, "git", args...); err != nil {
			return err
		}
	}
	return os.RemoveAll(index)
}

var underUnreleased = regexp.MustCompile(`(?s)\n## \[Unreleased\]\n(.*?)(\n## |$)`)

// unreleased reports whether CHANGELOG.md names changes since the last release.
func (t tree) unreleased() (bool, error) {
	text, err := os.ReadFile(t.file("CHANGELOG.md"))
	if err != nil {
		return false, err
	}
	found := underUnreleased.FindSubmatch(text)
	return found != nil && strings.TrimSpace(string(found[1])) != "", nil
}

// setVersion writes the version to all files that name it. The sums in go.sum are those of the files as
// they are then.
func (t tree) setVersion(version, temporary string) error {
	modules, err := t.modules()
	if err != nil {
		return err
	}
	old, err := t.version()
	if err != nil {
		return err
	}
	head := "## [Unreleased]\n"
	err = t.rewrite("CHANGELOG.md", func(text string) string {
		return strings.Replace(text, head, head+"\n## ["+version[1:]+"] - "+time.Now().UTC().Format(time.DateOnly)+"\n", 1)
	})
	if err != nil {
		return err
	}
	_, err = output(string(t), nil, "go", "work", "edit", "-dropreplace", root+"@"+old, "-replace", root+"@"+version+"=./")
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := t.requireRoot(m, modules, version); err != nil {
			return err
		}
	}
	return t.writeSums(modules, version, temporary)
}

var unfit = regexp.MustCompile(`(?m)^(replace|exclude)\b`)

// requireRoot writes the version of the root into the go.mod file of a module.
func (t tree) requireRoot(m module, modules []module, version string) error {
	text, err := os.ReadFile(t.file(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	if line := unfit.Find(text); line != nil {
		return fmt.Errorf("the go.mod file of %s has a directive %s: go install would refuse it", m.path, line)
	}
	for _, other := range modules {
		requires := regexp.MustCompile(`(?m)^(require|\t)\s*` + regexp.QuoteMeta(other.path) + ` v`).Match(text)
		switch {
		case !requires:
		case other.path != root:
			return fmt.Errorf("%s requires %s: the modules here may require the root only", m.path, other.path)
		default:
			if _, err := output(t.file(m.dir), nil, "go", "mod", "edit", "-require", root+"@"+version); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSums writes the sums of the root to the go.sum files of the other modules. Without the
// workspace, as a distribution builds them, they need them.
func (t tree) writeSums(modules []module, version, temporary string) error {
	proxy, err := publish(t, version, filepath.Join(temporary, "sums"), modules[:1])
	if err != nil {
		return err
	}
	for _, m := range modules[1:] {
		requires, err := t.requires(m, version)
		if err != nil {
			return err
		}
		if !requires {
			continue
		}
		err = t.rewrite(filepath.Join(m.dir, "go.sum"), func(text string) string { return withSums(text, proxy.sums()) })
		if err != nil {
			return err
		}
	}
	return nil
}

// requires reports whether a module requires the root. It is an error if it requires another version.
func (t tree) requires(m module, version string) (bool, error) {
	mod, err := os.ReadFile(t.file(m.dir, "go.mod"))
	if err != nil || !strings.Contains(string(mod), root+" v") {
		return false, err
	}
	if !strings.Contains(string(mod), root+" "+version+"\n") {
		return true, fmt.Errorf("the go.mod file of %s requires another version of the root than %s", m.path, version)
	}
	return true, nil
}

// checkSums returns an error if the root has changed since its sums were written.
func (t tree) checkSums(modules []module, p *proxy, version string) error {
	for _, m := range modules[1:] {
		requires, err := t.requires(m, version)
		if err != nil {
			return err
		}
		if !requires {
			continue
		}
		sums, err := os.ReadFile(t.file(m.dir, "go.sum"))
		if err != nil {
			return err
		}
		for _, line := range p.sums() {
			if !strings.Contains(string(sums), line) {
				return fmt.Errorf("the go.sum file of %s has other sums of the root than its files: prepare the release again", m.path)
			}
		}
	}
	return nil
}
