package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/doctor"
)

const aclLong = `acl prints the rule of Redis' ACL that gives a user the rights that locks need, and
no others, for names that begin with --prefix TEXT. Paste it into redis-cli, with a
password in place of SECRET; with --shell it is a line for a shell. acl does not connect to
Redis.

A rule is of one server: set it on all of them, replicas included. With --shell and
--cluster, one line does that; behind sentinels, run the line for each server, with its
address in place of HOST and PORT. A rule lasts until Redis restarts:
ACL SAVE keeps it if Redis has an aclfile, CONFIG REWRITE if it has none.

The kinds of lock are:
  lock       Lock, SpinLock, MultiLock, Redlock
  fair, fenced, rw, group, election
  barrier    Barrier, DoubleBarrier
  semaphore  Semaphore, CountDownLatch
  permits    PermitSemaphore, and so mortise run --sem
On top of them come:
  records    what clients tell: who, processes in show and in errors, ask, history
  inspect    to read the state of names
  list       mortise ls; it needs inspect as well: inspect,list
  tokens     mortise tokens; it needs fenced as well: fenced,tokens
  doctor     mortise doctor, with the kinds in use, records and inspect: all,doctor
look is all that show, ls, who, history, watch and a dashboard need, and changes nothing.
all, the default, is every kind of lock, with records and inspect.

A rule with a kind of lock, or look, takes all other rights from the user, unless --add is
set. A rule that has only kinds of those that come on top leaves the other rights as they
are.

The rule is for Redis 7.0 and Valkey. What older servers do not know, and what each right
is for, is at ` + docsURL + `protocol.md#rights-acl

Exit codes:
   0  done
  64  wrong usage`

func aclCommand(a *app) *cobra.Command {
	rule := doctor.Rule{}
	var kinds []string
	var shell bool
	cmd := &cobra.Command{
		Use:               "acl [--kind KINDS] [--user NAME]",
		SuggestFor:        []string{"rights", "user", "permissions"},
		Short:             "Print the rule of Redis' ACL that locks need",
		Long:              aclLong,
		Example:           "  mortise acl --kind fair,records --prefix app: --user worker\n  mortise acl --kind look --prefix app: --user viewer",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			var err error
			if rule.Kinds, err = lockKinds(kinds, true); err != nil {
				return err
			}
			rule.Prefix = a.keyPrefix()
			rule.Cluster = rule.Cluster || strings.Contains(parsedURL(a.url()).Scheme, "cluster")
			words, err := rule.Words()
			switch {
			case errors.Is(err, mortise.ErrInvalid):
				return &exitError{code: exitUsage, err: errors.New(strings.TrimPrefix(err.Error(), "doctor: "))}
			case err != nil:
				return err
			case a.json:
				return writeJSON(a.stdout, aclForm{rule.User, rule.Prefix, rule.Kinds, words[3:], strings.Join(words, " ")})
			case shell:
				fmt.Fprintln(a.stdout, shellRule(a.url(), &rule)+" "+shellQuoteAll(words))
			default:
				fmt.Fprintln(a.stdout, strings.Join(words, " "))
			}
			return nil
		},
	}
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().StringSliceVar(&kinds, "kind", []string{"all"}, "the `KINDS` of lock, as fair,rw (default all)")
	cmd.Flags().StringVar(&rule.User, "user", "locks", "the `NAME` of the user")
	cmd.Flags().BoolVar(&rule.Add, "add", false, "only add to the rights that the user has")
	cmd.Flags().BoolVar(&rule.Cluster, "cluster", false, "with what a cluster needs; a URL of a cluster, redis+cluster://, implies it")
	cmd.Flags().BoolVar(&shell, "shell", false, "print a line for a shell, quoted, that runs redis-cli")
	a.jsonFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(append(kindNames(), "all"), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// shellRule returns how a command line begins that runs a rule on each server of that URL, by a user who may.
func shellRule(rawURL string, rule *doctor.Rule) string {
	u, user := parsedURL(rawURL), ""
	if u.User.Username() == rule.User {
		user = "ADMIN"
	}
	cli := redisCLI(rawURL, user)
	switch {
	case strings.Contains(u.Scheme, "sentinel"):
		return cli("HOST:PORT")
	case rule.Cluster:
		return cli("") + " --cluster call " + shellQuote(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")))
	}
	return cli("")
}

// aclLine returns the command that prints what adds the rights that kinds need, all if there are none, to the user of the URL.
func (a *app) aclLine(kinds string) string {
	line := "mortise acl --add"
	if kinds != "" {
		line += " --kind " + kinds
	}
	_, user, _ := userPart(a.target().url)
	name, _, _ := strings.Cut(user, ":")
	if text, err := url.PathUnescape(name); err == nil {
		name = text
	}
	line += " --user " + shellQuote(cmp.Or(name, "default"))
	if prefix := a.keyPrefix(); prefix != "" {
		line += " --prefix " + shellQuote(prefix)
	}
	return line
}

// aclForm is what acl prints in JSON.
type aclForm struct {
	User    string        `json:"user"`
	Prefix  string        `json:"prefix"`
	Kinds   []doctor.Kind `json:"kinds"`
	Rules   []string      `json:"rules"`
	Command string        `json:"command"`
}

// kindsOf returns the kinds of rights, for mortise acl, that a command needs; nothing if that depends on what it finds.
func kindsOf(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch cmd.Name() {
	case "show", "ls", "who", "history", "watch", "top":
		return string(doctor.KindLook)
	case "tokens":
		return string(doctor.KindFenced + "," + doctor.KindTokens)
	case "elect":
		return string(doctor.KindElection)
	case "sem":
		return string(doctor.KindPermits)
	case "latch":
		return string(doctor.KindSemaphore)
	case "run":
		for flag, kind := range map[string]doctor.Kind{"fair": doctor.KindFair, "fence": doctor.KindFenced, "read": doctor.KindRW, "write": doctor.KindRW, "sem": doctor.KindPermits} {
			if cmd.Flags().Changed(flag) {
				return string(kind)
			}
		}
		return string(doctor.KindLock)
	}
	return ""
}
