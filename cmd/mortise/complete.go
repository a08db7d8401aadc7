package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
)

// The limits of a completion, for which the user is waiting. Tests that judge no time have a longer one.
var completionLimit = 300 * time.Millisecond

const completionNames = 200

// finder sends the completions of a prefix to offer, until that returns false.
type finder func(ctx context.Context, d driver.Driver, prefix string, offer func(cobra.Completion) bool)

// complete offers what find finds in Redis. If anything goes wrong, or takes too long, it silently
// offers what was found so far.
func (a *app) complete(cmd *cobra.Command, prefix string, find finder) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	found := make(chan cobra.Completion)
	go func() {
		defer close(found)
		d, err := connect.Open(ctx, a.url())
		if err != nil {
			return
		}
		defer func() { _ = d.Close() }() // it has been used
		find(ctx, d, prefix, func(c cobra.Completion) bool {
			select {
			case found <- c:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	var all []cobra.Completion
	for len(all) < completionNames {
		select {
		case c, ok := <-found:
			if !ok {
				return all, cobra.ShellCompDirectiveNoFileComp
			}
			all = append(all, c)
		case <-ctx.Done(): // the rest ends with the process
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeName offers the names of the locks that are held now.
func (a *app) completeName(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, prefix, a.findLocks)
}

func (a *app) findLocks(ctx context.Context, d driver.Driver, prefix string, offer func(cobra.Completion) bool) {
	client := mortise.New(d, a.options(asking))
	defer leave(client)
	for s, err := range client.Locks(ctx, globQuote(prefix)+"*") {
		if err != nil {
			return
		}
		if shown(s.Name) != s.Name {
			continue // it would need quotes in a shell
		}
		if !offer(cobra.CompletionWithDesc(s.Name, fmt.Sprintf("%s, %s left", s.Kind, lasting(s.TTL)))) {
			return
		}
	}
}

// completeOwner offers the owners of the lock in args, or the ids of its permits.
func (a *app) completeOwner(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, prefix, func(ctx context.Context, d driver.Driver, prefix string, offer func(cobra.Completion) bool) {
		client := mortise.New(d, a.options(asking))
		defer leave(client)
		s, err := client.Inspect(ctx, args[0])
		if err != nil {
			return
		}
		for _, owner := range owners(s) {
			if strings.HasPrefix(owner, prefix) && shown(owner) == owner && !offer(owner) {
				return
			}
		}
	})
}

// completeWho offers the hosts, the applications and the UUIDs of the clients that hold or wait for something.
func (a *app) completeWho(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, prefix, func(ctx context.Context, d driver.Driver, prefix string, offer func(cobra.Completion) bool) {
		client := mortise.New(d, a.options(asking))
		defer leave(client)
		c, err := takeCensus(ctx, client)
		if err != nil && !isPart(err) {
			return
		}
		offered := make(map[string]bool)
		for i := range c.clients {
			one := &c.clients[i].ClientInfo
			for text, what := range map[string]string{one.Host: "host", one.App: "application", one.ID: processText(one)} {
				if text == "" || offered[text] || !strings.HasPrefix(text, prefix) || shown(text) != text {
					continue
				}
				if offered[text] = true; !offer(cobra.CompletionWithDesc(text, what)) {
					return
				}
			}
		}
	})
}

// owners returns the owners of a lock, or the ids of its permits.
func owners(s mortise.State) (all []string) {
	for _, h := range s.Holders {
		all = append(all, h.Owner)
	}
	for _, p := range s.Permits {
		all = append(all, p.ID)
	}
	return all
}

// completeVerb completes NAME VERB, where NAME is that of an object of some kind.
func (a *app) completeVerb(verbs []cobra.Completion, kinds ...mortise.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return a.complete(cmd, prefix, a.findNumbers(kinds))
		case 1:
			return verbs, cobra.ShellCompDirectiveNoFileComp // cobra leaves out those with another prefix
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// findNumbers finds semaphores and latches. They are plain numbers, so other numbers are offered, too.
func (a *app) findNumbers(kinds []mortise.Kind) finder {
	return func(ctx context.Context, d driver.Driver, prefix string, offer func(cobra.Completion) bool) {
		scanner, ok := d.(driver.Scanner)
		if !ok {
			return
		}
		client := mortise.New(d, a.options(asking))
		defer leave(client)
		_ = scanner.Scan(ctx, globQuote(a.keyPrefix()+prefix)+"*", func(keys []string) error {
			for _, key := range keys {
				if strings.HasPrefix(key, "redisson_") || strings.HasPrefix(key, "mortise:") {
					continue // a key of a lock; to read a counter of tokens would be to use it
				}
				key = strings.TrimPrefix(key, a.keyPrefix())
				s, err := client.Inspect(ctx, key)
				if err != nil {
					return err
				}
				if slices.Contains(kinds, s.Kind) && shown(key) == key {
					if !offer(cobra.CompletionWithDesc(key, fmt.Sprintf("%s, at %d", s.Kind, s.Number))) {
						return context.Cause(ctx)
					}
				}
			}
			return nil
		})
	}
}

// globQuote returns a glob that matches only text.
func globQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
