package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

// envPrefix is passed on, so that a nested mortise means the same names.
const envPrefix = "MORTISE_PREFIX"

// prefixFlag adds the flag to the root command.
func (a *app) prefixFlag(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.prefix.text, "prefix", "", "`TEXT` that is put before every name in Redis (default $"+envPrefix+")")
	a.prefix.given = func() bool { return root.PersistentFlags().Changed("prefix") }
}

// keyPrefix is what every name in Redis begins with. The flag goes before the environment even if
// it is empty.
func (a *app) keyPrefix() string {
	if a.prefix.given != nil && a.prefix.given() {
		return a.prefix.text
	}
	return a.getenv(envPrefix)
}

// options returns options of the library with the prefix, and the name of the application.
func (a *app) options(o mortise.Options) *mortise.Options {
	o.Prefix = a.keyPrefix()
	if o.Identity.App == "" {
		o.Identity.App = appName
	}
	return &o
}

// passOn adds to the environment of a command what a mortise inside it needs, to use the same Redis
// and the same names.
func (a *app) passOn(set map[string]string) map[string]string {
	a.passOnRedis(set)
	if a.prefix.given != nil && a.prefix.given() {
		set[envPrefix] = a.prefix.text
	}
	return set
}

// inOwnWords replaces what the library calls its options, and Go the end of a time limit, by what the command does.
var inOwnWords = strings.NewReplacer("Options.Prefix", "--prefix (or $"+envPrefix+")", "; Options.AllowAnyName admits it", "",
	"context deadline exceeded", "no answer in time")
