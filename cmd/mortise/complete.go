package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

// The limits of a completion, for which the user is waiting.
const (
	completionLimit = 300 * time.Millisecond
	completionNames = 200
)

// completeName offers the names of the locks that are held now. If anything goes wrong, it silently
// offers the names found so far.
func (a *app) completeName(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	found := make(chan cobra.Completion)
	go func() {
		defer close(found)
		a.findNames(ctx, prefix, found)
	}()
	var names []cobra.Completion
	for {
		select {
		case name, ok := <-found:
			if !ok {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			names = append(names, name)
		case <-ctx.Done(): // the rest ends with the process
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

func (a *app) findNames(ctx context.Context, prefix string, found chan<- cobra.Completion) {
	d, err := connect.Open(ctx, a.url())
	if err != nil {
		return
	}
	client := mortise.New(d, a.options(asking))
	defer leave(client)
	count := 0
	for s, err := range client.Locks(ctx, globQuote(prefix)+"*") {
		if err != nil || count == completionNames {
			return
		}
		if shown(s.Name) != s.Name {
			continue // it would need quotes in a shell
		}
		count++
		select {
		case found <- cobra.CompletionWithDesc(s.Name, fmt.Sprintf("%s, %s left", s.Kind, lasting(s.TTL))):
		case <-ctx.Done():
			return
		}
	}
}

// globQuote returns a glob that matches only text.
func globQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
