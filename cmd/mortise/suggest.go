package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearness is how many letters a word may differ in from one that is suggested in its place.
const nearness = 2

// didYouMean returns a hint that begins with the words that are like text, if there are any.
func didYouMean(like []string, hint string) string {
	if len(like) == 0 {
		return hint
	}
	return "Did you mean " + strings.Join(like, " or ") + "?\n" + hint
}

// alike returns the words that are like text.
func alike(text string, words []string) []string {
	if text == "" { // the beginning of all words
		return nil
	}
	known := cobra.Command{SuggestionsMinimumDistance: nearness} // cobra compares the names of commands
	for _, w := range words {
		known.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	return known.SuggestionsFor(text)
}

// unknownCommand returns the error for a word that is no command below parent.
func unknownCommand(parent *cobra.Command, word string) error {
	var like []string
	if word != "" { // the beginning of all commands
		parent.SuggestionsMinimumDistance = min(nearness, len(word)/2) // there are many short ones
		like = slices.Compact(slices.Sorted(slices.Values(parent.SuggestionsFor(word))))
	}
	hint := "See " + parent.CommandPath() + " --help for the commands."
	return usageError(didYouMean(like, hint), "unknown command %q", word)
}

// misplaced returns the error for a word that was not taken as a command below parent.
func misplaced(parent *cobra.Command, word string) error {
	for _, sub := range parent.Commands() {
		if sub.Name() == word {
			return usageError("Write it without --: "+parent.CommandPath()+" [flags] "+word, "%s must come before --", word)
		}
	}
	return unknownCommand(parent, word)
}

// negative returns the error for one of parsing flags that is about a number below zero; nil for others.
func negative(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return nil
	}
	number := unknown.GetSpecifiedShortnames()
	if _, err := strconv.ParseUint(number, 10, 64); err != nil {
		return nil
	}
	if args := cmd.Flags().Args(); len(args) > 0 && args[len(args)-1] == "set" {
		return usageError("See "+cmd.CommandPath()+" --help.", "the number after set is -%s; it must not be negative", number)
	}
	return usageError("Write -- before it, as in: "+cmd.CommandPath()+" NAME add -- -"+number, "a number below zero looks like a flag")
}

// unknownFlag returns a hint for an error of parsing flags.
func unknownFlag(cmd *cobra.Command, err error, hint string) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return hint
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	like := alike(unknown.GetSpecifiedName(), names)
	for i := range like {
		like[i] = "--" + like[i]
	}
	return didYouMean(like, hint)
}

// helpCommand is cobra's, except that it fails for a command that does not exist.
func helpCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), prefix) {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				word := args[0]
				if len(rest) > 0 {
					word = rest[0]
				}
				if of == nil {
					of = cmd.Root()
				}
				return unknownCommand(of, word)
			}
			of.InitDefaultHelpFlag() // shown in the help
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
	a.withoutRedis(cmd)
	return cmd
}

// completionCommand adds cobra's command, except that it fails for a shell that it does not know.
func (a *app) completionCommand(root *cobra.Command) {
	root.SetOut(a.stdout) // where cobra's command writes to from now on
	root.InitDefaultCompletionCmd("")
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // there is no such command
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	a.withoutRedis(cmd)
}
