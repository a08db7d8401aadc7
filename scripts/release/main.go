// Command release releases all modules of this repository together, under one version. It pushes
// nothing.
//
//	go run ./scripts/release rehearse [VERSION]  # all of it in a copy of the work tree, and installs from its tags
//	go run ./scripts/release prepare VERSION     # writes VERSION to go.mod, go.sum, go.work and CHANGELOG.md
//	go run ./scripts/release tag VERSION         # checks the commit, installs from it, and tags every module
//
// All modules are tagged at one commit, whose go.mod files require the root at that version. Between
// releases go.work says that this version of the root is the one in the work tree. A go.mod file has no
// replace directive: go install PACKAGE@VERSION would refuse it.
package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// The module that all others here require, and may require.
const root = "github.com/mortise-go/mortise"

var versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) == 1 && args[0] == "rehearse" {
		args = append(args, "v0.1.0")
	}
	if len(args) != 2 || !versions.MatchString(args[1]) {
		return errors.New("usage: release (rehearse [VERSION] | prepare VERSION | tag VERSION), with a version such as v0.1.0")
	}
	top, err := output(".", nil, "go", "list", "-m", "-f", "{{.Dir}}", root)
	if err != nil {
		return err
	}
	work := tree(strings.TrimSpace(top))
	temporary, err := os.MkdirTemp("", "mortise-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	switch args[0] {
	case "rehearse":
		return rehearse(work, args[1], temporary)
	case "prepare":
		return prepare(work, args[1], temporary)
	case "tag":
		return tag(work, args[1], temporary)
	}
	return fmt.Errorf("unknown step %q", args[0])
}

// rehearse does all steps in a copy of the work tree.
func rehearse(work tree, version, temporary string) error {
	copied := tree(temporary + "/work")
	if err := work.copyTo(copied); err != nil {
		return err
	}
	if err := copied.setVersion(version, temporary); err != nil {
		return err
	}
	return install(copied, version, temporary)
}

// prepare writes the version into the work tree.
func prepare(work tree, version, temporary string) error {
	changed, err := work.unreleased()
	if err != nil {
		return err
	}
	if !changed {
		return errors.New("CHANGELOG.md has nothing under Unreleased")
	}
	if err := work.setVersion(version, temporary); err != nil {
		return err
	}
	fmt.Printf("%s is written to go.mod, go.sum, go.work and CHANGELOG.md. The sums are those of the files as they are now:\n"+
		"after another change to the root module, undo this and prepare again. Next:\n\n"+
		"  git commit -am %q, through review and CI, then, at that commit of main:\n"+
		"  go run ./scripts/release tag %s\n", version, "release "+version, version)
	return nil
}

// tag tags every module at the current commit.
func tag(work tree, version, temporary string) error {
	status, err := output(string(work), nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if status != "" {
		return fmt.Errorf("the work tree has changes that are not committed:\n%s", status)
	}
	if has, err := work.version(); err != nil || has != version {
		return errors.Join(err, fmt.Errorf("go.work says that the root is %s; run first: go run ./scripts/release prepare %s", has, version))
	}
	if err := install(work, version, temporary); err != nil {
		return err
	}
	modules, err := work.modules()
	if err != nil {
		return err
	}
	push := "git push --atomic origin HEAD:main"
	for _, m := range modules {
		if _, err := output(string(work), nil, "git", "tag", "-a", "-m", m.path+" "+version, m.tag(version)); err != nil {
			return err
		}
		push += " " + m.tag(version)
	}
	fmt.Printf("\nAll modules are tagged. Publish them together:\n\n  %s\n", push)
	return nil
}
