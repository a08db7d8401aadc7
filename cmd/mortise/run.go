package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const runLong = `run waits for the lock NAME, runs a command while it holds the lock, and
releases it when the command has ended. It exits with the command's own code.

While the command runs, the lock is renewed. If this process is killed, the command
is killed at once, with everything it has started, and the lock becomes free after
--ttl. A guard process does that (lockguard, the command's parent); outside Linux
it knows only the command's process group. It also kills the command, before the
lock ends, if this process is stopped (SIGSTOP) and the command is not. If both
are killed at once, Linux kills the command, but not what it has started.

If Redis cannot be reached, so that the lock would be lost, the command is ended
first: it gets SIGTERM (--signal), and SIGKILL after --kill-after, together with
everything it has started. That happens early enough for all of these processes to
be dead before another client can acquire the lock. Of --ttl, a third may pass
between two renewals. Reserved for ending the command are --kill-after and a tenth
of --ttl, at most a second. A silence of Redis that is shorter than the rest does no
harm: by default that is 30s - 10s - 5s - 1s, or 14s; with --ttl 6s it is 2.4s. With
--max-hold the command has all of that time, and what is reserved for ending it
comes on top. If the lock was released by force, the command is ended as soon as
mortise notices, at most a third of --ttl later.

If somebody asks for the lock (mortise unlock NAME --ask), the command gets the same
signals. Meanwhile the lock is renewed, and it is released when the command has ended.
With --on-lost warn the request is only shown.

The command runs in a process group of its own. Signals that mortise gets go to
that group; a second SIGINT within ten seconds kills it. A command that ignores SIGTERM goes on,
under the lock, unless --grace says when it is killed. On a terminal it runs in
the foreground. Stopping it there (Ctrl-Z) also stops the renewals: if it is
continued in time, it goes on under the lock, otherwise it is ended. Processes
that it leaves in the background when it ends are not under the lock any more.

On a terminal a wait of more than a second is shown, with the holder of the lock: its
host, its process and for how long it has the lock, if that is known. Elsewhere, as in
cron, it is silent without --verbose, unless Redis is why it lasts. In the same way others
see this run: as the host, the process id, mortise and the name of the program, without
its arguments.

If a signal ends the command, or the wait for the lock, mortise ends by the same
signal, so that Ctrl-C also ends the script or loop around it.

A command whose work hangs keeps the lock for as long as it lives, unless --max-hold
limits that. --min-hold keeps the lock taken although the command has ended. With -n,
a second run started shortly after does nothing: that is for two machines that run
the same cron job, with clocks that differ a little. Without -n, the second run waits
until DUR is over and then runs. If this process is killed, --min-hold does not
apply: the lock becomes free after --ttl.

With --history N, the lock keeps its last N acquisitions in Redis for a week, those of
all clients that ask for it: mortise history NAME shows them.

If Redis cannot be reached at the start, run tries again for as long as -w says, or for
10s without -w, and then fails with 69. With -n it fails at once if the connection is
refused, after 3s to 5s if nothing answers, and after about 11s if Redis stops answering
while it is asked. A Redis that cannot be reached any more, or refuses to write, while run
waits for the lock is waited for, too: for as long as -w says, and without -w as long as
it takes. When calls have failed for 5s, run says so, and then twice a minute.

With --fair, --read, --write, --fence or --multi it acquires a lock of another
kind, or several locks. With --sem it acquires a permit of a semaphore, which
becomes available again after --ttl if this process dies; everything said here
about the lock applies to the permit.

The command's environment has MORTISE_NAME, MORTISE_OWNER and MORTISE_HELD=1. A
mortise run inside the command does not acquire again what this one holds: it runs
at once, or acquires the rest. It fails if it could never acquire the rest because
of what this one holds, as when this one reads and it asks to write. --prefix and
--redis are passed on to it.

`

const runExample = `  mortise run nightly-report -- ./report.sh --all
  mortise run -n backup -- restic backup /srv     # do nothing if it runs already
  mortise run -w 30 deploy -E 0 -c 'make && make deploy'`

// runFlags are the values of the flags.
type runFlags struct {
	nonblock  bool
	wait      duration.Flag
	conflict  int
	ttl       duration.Flag
	maxHold   duration.Flag
	minHold   duration.Flag
	command   string
	killAfter duration.Flag
	grace     duration.Flag
	onLost    string
	signal    string
	verbose   bool
	multi     []string
	sem       bool
	permits   int
	limit     int
	history   int

	app *app
}

func runCommand(a *app) *cobra.Command {
	f := runFlags{ttl: duration.Flag(defaultTTL), killAfter: duration.Flag(defaultKillAfter), app: a}
	cmd := &cobra.Command{
		Use:               "run NAME [flags] -- CMD [ARG…]",
		SuggestFor:        []string{"lock", "exec", "with", "hold", "acquire"},
		Short:             "Run a command while holding a lock",
		Long:              runLong + exitCodes("lock", "the lock is held (-n), or was held for the whole wait (-w)"),
		Example:           runExample,
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.permitFlags(cmd); err != nil {
				return err
			}
			p, err := newPlan(cmd, &f, args)
			if err != nil {
				return err
			}
			if f.sem {
				p.what = "permit"
			}
			return a.run(cmd.Context(), p)
		},
	}
	// The usage line already shows where the flags go.
	cmd.DisableFlagsInUseLine = true
	flags := cmd.Flags()
	flags.BoolVarP(&f.nonblock, "nonblock", "n", false, "fail if the lock is held, instead of waiting")
	flags.Var(&f.minHold, "min-hold", "keep the lock taken until `DUR` after it was acquired, even if the command ends earlier: with -n, a second run started shortly after does nothing; without it, it waits until DUR is over and then runs")
	for _, k := range kinds {
		flags.Bool(k.flag, false, k.usage)
	}
	flags.BoolVar(&f.sem, "sem", false, "acquire a permit of the semaphore NAME: as many commands may run at once as it has permits")
	flags.IntVar(&f.permits, "permits", 1, "with --sem, acquire `N` permits, all or none")
	flags.IntVar(&f.limit, "limit", 0, "with --sem, give the semaphore `N` permits if it was never set; to change a number that is set: mortise sem NAME set N")
	flags.StringSliceVar(&f.multi, "multi", nil, "acquire the locks `NAME,NAME…` together with the first one, all or none")
	a.guardFlags(cmd, &f, "lock")
	return cmd
}

// guardFlags adds the flags of the commands that run another command while they hold something;
// what says whether that is a lock or something else.
func (a *app) guardFlags(cmd *cobra.Command, f *runFlags, what string) {
	flags := cmd.Flags()
	flags.VarP(&f.wait, "wait", "w", "wait at most `DUR` for the "+what+": 90s, 1m30s, or seconds; a Redis that is away is waited for for a second at least; "+
		map[bool]string{true: "at least 50ms", false: "below 50ms, as with 0, it tries once"}[what == "lead"])
	flags.IntVarP(&f.conflict, "conflict-exit-code", "E", exitBusy, "exit with code `N` if "+map[bool]string{true: "it was not elected", false: "the lock could not be acquired"}[what == "lead"]+"; with 0, also print nothing")
	flags.Var(&f.ttl, "ttl", "renew the "+what+" so that it ends at most `DUR` after this process dies")
	flags.Var(&f.maxHold, "max-hold", "end the command when it has held the "+what+" for `DUR`; the "+what+" itself may last up to --kill-after plus 1 s longer; default: no limit")
	flags.StringVarP(&f.command, "command", "c", "", "run `STRING` with sh; needs no --")
	flags.Var(&f.killAfter, "kill-after", "when the "+what+" is lost, kill the command `DUR` after the signal; at most half of --ttl, and by default at most a sixth of it; without --ttl, a shorter --max-hold counts in its place")
	flags.Var(&f.grace, "grace", "when mortise gets SIGTERM, SIGINT, SIGHUP or SIGQUIT, kill the command `DUR` later, with everything it has started; default: it may go on for as long as it likes")
	flags.StringVar(&f.onLost, "on-lost", "kill", "what to do when the "+what+" is lost, `ACTION`: kill ends the command; warn lets it go on, and exits with its code")
	flags.StringVar(&f.signal, "signal", "TERM", "ask the command to end with the signal `SIG` when the "+what+" is lost")
	flags.IntVar(&f.history, "history", 0, "keep the last `N` acquisitions of the "+what+" in Redis, for mortise history; at most 1000 (default $"+envHistory+", none)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "report progress; a wait also where there is no terminal")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		path := cmd.CommandPath()
		hint := "See " + path + " --help for the flags. A NAME that begins with - comes after --, as in: " + path + " -- -x -- CMD"
		if what == "lead" && isNonblock(err) {
			hint = "An election takes a moment. To give up soon: " + path + " -w 1"
		} else if !slices.Contains(a.args, "--") {
			hint = "Flags of the command come after --, as in: " + path + " NAME -- CMD -x"
		}
		return usageError(unknownFlag(cmd, err, hint), "%w", flagError(err))
	})
	for name, values := range map[string][]string{"on-lost": {"kill", "warn"}, "signal": {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2"}} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// isNonblock reports whether an error of parsing flags is about the --nonblock of run, which elect does not have.
func isNonblock(err error) bool {
	var unknown *pflag.NotExistError
	return errors.As(err, &unknown) && slices.Contains([]string{"n", "nonblock"}, unknown.GetSpecifiedName())
}

// completeRun completes the name; everything after it is a command.
func (a *app) completeRun(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeName(cmd, args, prefix)
}

// splitArgs returns the lock's name and the command.
func (f *runFlags) splitArgs(cmd *cobra.Command, args []string) (name string, command []string, err error) {
	path := cmd.CommandPath()
	example := "Write it as: " + path + " NAME -- CMD ARG…"
	dash := cmd.ArgsLenAtDash()
	shell := cmd.Flags().Changed("command")
	if dash == 0 {
		args, dash = afterDash(args, shell)
	}
	switch {
	case len(args) == 0 || dash == 0:
		return "", nil, usageError(example, "%s needs a NAME", path)
	case shell && (len(args) > 1 || dash >= 0):
		return "", nil, usageError("With -c, nothing follows the NAME.", "%s takes either -c STRING or -- CMD", path)
	case shell:
		return args[0], nil, nil
	case dash < 0 && len(args) == 1:
		return "", nil, usageError(example, "%s needs a command", path)
	case dash < 0:
		return "", nil, f.app.lineError("Write it as: ", cmd.Name()+" "+shellQuote(args[0])+" -- "+shellQuoteAll(args[1:]),
			"-- is missing before the command")
	case dash > 1:
		return "", nil, usageError("Quote a name with spaces.", "%s takes one NAME, not %d", path, dash)
	case len(args) == dash:
		return "", nil, usageError(example, "there is no command after --")
	}
	return args[0], args[1:], nil
}

// afterDash returns the arguments, and the place of the -- among them, if the first -- is not there
// for the command but for a NAME that begins like a flag.
func afterDash(args []string, shell bool) ([]string, int) {
	switch {
	case len(args) > 1 && args[1] == "--":
		return slices.Delete(args, 1, 2), 1
	case len(args) == 1 && shell:
		return args, -1
	}
	return args, 0
}
