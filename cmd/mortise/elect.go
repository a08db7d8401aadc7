package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const electLong = `elect campaigns in the election NAME, runs a command while this process leads,
and resigns when the command has ended. It exits with the command's own code.

Everything that mortise run --help says about the lock applies to the lead: it is
renewed; when it is lost the command is ended, early enough for all its processes
to be dead before another candidate can be elected. A leader that is asked to resign
(mortise unlock NAME --ask) ends the command and then resigns. With --keep, elect then
campaigns again, and runs the command again when it is elected; it ends when the
command ends on its own, with whatever code, when mortise gets a signal that ends it,
as SIGTERM, or by an error that does not pass. After the first term it waits for a
Redis that cannot be reached for as long as it takes: -w then only limits the wait for
another candidate.

The command's environment has MORTISE_NAME, MORTISE_OWNER, MORTISE_HELD=1, and the
number of the term as MORTISE_TOKEN. The number rises with every term, so that
systems under the leader's control can refuse a deposed leader.

`

func electCommand(a *app) *cobra.Command {
	f := runFlags{ttl: duration.Flag(defaultTTL), killAfter: duration.Flag(defaultKillAfter), app: a}
	var value string
	var keep bool
	cmd := &cobra.Command{
		Use:        "elect NAME [flags] -- CMD [ARG…]",
		SuggestFor: []string{"lead", "leader", "campaign"},
		Short:      "Run a command while being the leader",
		Long:       electLong + exitCodes("lead", "another candidate led for the whole wait (-w)"),
		Example: `  mortise elect scheduler -- ./scheduler
  mortise elect scheduler --keep --value "$HOSTNAME:8080" -- ./scheduler`,
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := newPlan(cmd, &f, args)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("value") {
				value, _ = os.Hostname() // without a name the value is empty
			}
			if p.nonblock {
				return usageError("To give up soon: -w 1", "--wait is less than %v, but elect has to wait for the result", shortestWait)
			}
			p.what, p.keep = "lead", keep
			p.claims = []claim{{kind: claimLead, name: p.name}}
			p.open = func(c *mortise.Client, p *plan) subject { return termOf(c, p, value) }
			return a.run(cmd.Context(), p)
		},
	}
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().StringVar(&value, "value", "", "`TEXT` that mortise show and the library report about the leader (default the host's name)")
	cmd.Flags().BoolVar(&keep, "keep", false, "campaign again when the lead was lost, or asked for")
	a.guardFlags(cmd, &f, "lead")
	return cmd
}

// keepPause is how long elect --keep waits before it campaigns again after an error.
const keepPause = time.Second

// keep repeats once after each term that was lost, and after what passes that has kept it from the next one.
func (a *app) keep(ctx context.Context, signals <-chan os.Signal, once func() error) error {
	led, told := false, false
	for {
		err := once()
		if lost, ok := errors.AsType[*exitError](err); ok && lost.again {
			a.report(err)
			led, told = true, false
			continue
		}
		if !led || !errors.Is(err, mortise.ErrUnreachable) && !errors.Is(err, mortise.ErrNotDurable) {
			return err
		}
		if !told {
			a.say("%s; campaigning until that has passed", a.textOf(err))
			told = true
		}
		if err := rest(ctx, signals); err != nil {
			return err
		}
	}
}

// rest sleeps for keepPause. It returns the cause if a signal asks to end, or ctx ends.
func rest(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel, release := interruptible(ctx, signals, "lead")
	defer cancel(nil)
	sleep(ctx, keepPause)
	release() // a signal may have come at the end
	return context.Cause(ctx)
}

// termOf returns the lead of an election as a subject.
func termOf(c *mortise.Client, p *plan, value string) subject {
	campaign := func(ctx context.Context) (grip, context.Context, error) {
		t, held, err := c.Election(p.name).With(p.lock).Campaign(ctx, value)
		if err != nil {
			return nil, ctx, err
		}
		return lead{t}, held, nil
	}
	return subject{lock: campaign}
}

// lead is a term as a grip.
type lead struct{ *mortise.Term }

func (t lead) Unlock() error { return t.Resign() }
