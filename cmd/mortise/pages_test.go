package main

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var pages = flag.String("pages", "", "write the manual pages and the completions to this directory, for packages")

// Every command has a manual page that shows its flags, and every shell its completions. They are
// made here because the command itself needs none of this. To keep them: make pages.
func TestPages(t *testing.T) {
	dir := cmp.Or(*pages, t.TempDir())
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := rootCommand(newApp())
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Source: "mortise", Manual: "mortise"}, man); err != nil {
		t.Fatal(err)
	}
	checkPages(t, root, man)
	for name, write := range map[string]func(file string) error{
		"mortise.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"_mortise":     root.GenZshCompletionFile,
		"mortise.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
	} {
		file := filepath.Join(completions, name)
		if err := write(file); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte("mortise")) {
			t.Errorf("%s: %v, %d bytes", name, err, len(text))
		}
	}
}

// checkPages fails the test if a command has no page, or the page lacks a flag.
func checkPages(t *testing.T, cmd *cobra.Command, dir string) {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	page, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Errorf("%s: %v", cmd.CommandPath(), err)
	}
	if strings.Contains(string(page), "`") {
		t.Errorf("%s shows a back-tick", name)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "--"+f.Name) {
			t.Errorf("%s does not show --%s", name, f.Name)
		}
	})
	for _, sub := range cmd.Commands() {
		checkPages(t, sub, dir)
	}
}
