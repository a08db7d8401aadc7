package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// withoutRedis hides the flags about the connection in the help of a command that does not connect.
func (a *app) withoutRedis(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&a.redis, "redis", "", "")
	flags.StringVar(&a.passwordFile, "password-file", "", "")
	flags.StringVar(&a.prefix.text, "prefix", "", "")
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
}

// tidied completes the tree of commands: mistakes in arguments are usage errors, and the names of
// values, which pflag marks in the usage of flags with back-ticks, are set apart: manual pages and
// completions would show the back-ticks.
func tidied(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if own := (*exitError)(nil); err == nil || errors.As(err, &own) {
				return err
			}
			return usageError("See "+cmd.CommandPath()+" --help.", "%s takes no argument, but got %q", cmd.CommandPath(), args[0])
		}
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			if usage == f.Usage {
				return // no back-ticks
			}
			f.Usage = usage
			value := named{f.Value, name}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				f.Value, f.DefValue = namedList{value, list}, ""
			} else {
				f.Value = value
			}
		})
	}
	for _, sub := range cmd.Commands() {
		tidied(sub)
	}
}

// filled is a text that is not empty: in a script, "$URL" of an unset variable must not choose another server.
type filled string

var errEmpty = errors.New("leave it out for what the environment says")

// Set implements pflag.Value.
func (f *filled) Set(s string) error {
	if s == "" {
		return errEmpty
	}
	*f = filled(s)
	return nil
}

// String implements pflag.Value.
func (f *filled) String() string { return string(*f) }

// Type implements pflag.Value.
func (*filled) Type() string { return "string" }

// named is a flag's value with the name that the help has for it.
type named struct {
	pflag.Value
	name string
}

// Type implements pflag.Value.
func (n named) Type() string { return n.name }

// namedList is the same for a flag that can be given several times.
type namedList struct {
	named
	pflag.SliceValue
}

// bare returns a flag's value without the name.
func bare(value pflag.Value) pflag.Value {
	switch v := value.(type) {
	case named:
		return v.Value
	case namedList:
		return v.Value
	}
	return value
}
