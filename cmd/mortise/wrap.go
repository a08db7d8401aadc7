package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width of the help.
const helpColumns = 100

// wrapHelp makes the help break the texts about flags into lines. It is done when the help is written:
// completions and manual pages show the texts as they are.
func wrapHelp(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			wrapFlags(flags)
		}
		return usage(cmd)
	})
}

// wrapFlags breaks the texts about flags into lines that fit beside the names.
func wrapFlags(flags *pflag.FlagSet) {
	beside := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); !f.Hidden {
			beside = max(beside, len("  -x, -- ")+len(f.Name)+len(name)+len("   "))
		}
	})
	flags.VisitAll(func(f *pflag.Flag) {
		after := len(" (default )") + len(f.DefValue)
		if slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			after = 0 // the help does not show it
		}
		f.Usage = wrapped(f.Usage, helpColumns-beside, after)
	})
}

// wrapped breaks a text into lines of at most width columns. After the last word, something follows in
// the same line.
func wrapped(text string, width, after int) string {
	var b strings.Builder
	column := 0
	words := strings.Fields(text)
	for i, word := range words {
		need := columns(word)
		if i == len(words)-1 {
			need += after
		}
		switch {
		case column == 0:
		case column+1+need > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += columns(word)
	}
	return b.String()
}
