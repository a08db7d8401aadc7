package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

const semLong = `sem works with the semaphore NAME, whose permits mortise run --sem acquires. It is
Redisson's RPermitExpirableSemaphore.

set sets the number of permits to N, including those that are held. add adds N
to it; to remove some, write: mortise sem NAME add -- -N. No holder loses its
permit. show shows the number of available permits, and the held permits.

set and add also work on a plain semaphore (RSemaphore). Its holders are not
recorded, so held permits are not counted.`

func semCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "sem NAME (set N | add N | show)",
		Short:             "Set how many permits a semaphore has, or show them",
		Long:              semLong,
		Example:           "  mortise sem builds set 4\n  mortise run --sem builds -- make\n  mortise sem builds show",
		ValidArgsFunction: a.completeName,
	}
	a.jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, verb, n, err := verbArgs(cmd, args, map[string]bool{"set": true, "add": true, "show": false})
		if err != nil {
			return err
		}
		if verb == "set" && n < 0 {
			return usageError("", "the number of permits is %d; it must not be negative", n)
		}
		client, err := a.client(cmd.Context(), asking)
		if err != nil {
			return err
		}
		defer leave(client)
		s := client.PermitSemaphore(name)
		switch verb {
		case "set":
			return s.SetPermits(cmd.Context(), n)
		case "add":
			return s.AddPermits(cmd.Context(), n)
		}
		return a.showPermits(cmd.Context(), s)
	}
	return cmd
}

func (a *app) showPermits(ctx context.Context, s *mortise.PermitSemaphore) error {
	available, err := s.Available(ctx) // takes back what has expired
	if err != nil {
		return err
	}
	out, err := s.List(ctx)
	if err != nil {
		return err
	}
	state := mortise.State{
		Name: s.Name(), Kind: mortise.KindPermits, Locked: len(out) > 0, Number: int64(available), Permits: out,
	}
	for _, p := range out {
		if state.TTL = max(state.TTL, p.Left); p.Left < 0 {
			state.TTL = -1
			break
		}
	}
	if a.json {
		return writeJSON(a.stdout, viewOf(state))
	}
	return a.showState(state)
}

// permitsOf returns permits of a semaphore as a subject.
func (f *runFlags) permitsOf(c *mortise.Client, p *plan) subject {
	s := c.PermitSemaphore(p.name).With(mortise.PermitOptions{Permits: f.permits, Lease: p.lock.Lease, Margin: p.lock.Margin})
	taking := func(take func(context.Context) (*mortise.Hold, context.Context, error)) func(context.Context) (grip, context.Context, error) {
		return func(ctx context.Context) (grip, context.Context, error) {
			if f.limit > 0 {
				if _, err := s.TrySetPermits(ctx, f.limit); err != nil {
					return nil, ctx, err
				}
			}
			return take(ctx)
		}
	}
	return subject{lock: taking(s.Acquire), try: taking(s.TryAcquire)}
}

// permitFlags checks the flags that go with --sem.
func (f *runFlags) permitFlags(cmd *cobra.Command) error {
	for _, flag := range []string{"permits", "limit"} {
		if cmd.Flags().Changed(flag) && !f.sem {
			return usageError("", "--%s goes with --sem", flag)
		}
	}
	switch {
	case f.permits < 1 || f.permits > 1000:
		return usageError("", "--permits is %d; it must be from 1 to 1000", f.permits)
	case cmd.Flags().Changed("limit") && f.limit < f.permits:
		return usageError("", "--limit is %d; it must not be less than the %d of --permits", f.limit, f.permits)
	}
	return nil
}

// scarce describes a lack of permits.
func scarce(p *plan, err *mortise.PermitsError, waited bool) string {
	if waited {
		return fmt.Sprintf("%s had too few permits for all of %v: %v", shown(p.name), p.wait, err)
	}
	return fmt.Sprintf("%s has too few permits: %v", shown(p.name), err)
}
