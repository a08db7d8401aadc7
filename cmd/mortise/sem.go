package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

const semLong = `sem works with the semaphore NAME, whose permits mortise run --sem acquires. It is
Redisson's RPermitExpirableSemaphore.

A semaphore that was never set has no permits: a run waits until it is set, and
so does one that needs more permits than the semaphore has. set sets the number of
permits to N, including those that are held. add adds N to it; to remove some, but
not more than there are, write: mortise sem NAME add -- -N. No holder loses its
permit. show shows the number of available permits, and the held permits.

set and add also work on a plain semaphore (RSemaphore). Its holders are not
recorded, so held permits are not counted.`

var semVerbs = []cobra.Completion{"set\tset the number of permits", "add\tadd permits, or remove some", "show\tshow the permits"}

func semCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "sem NAME (set N | add N | show)",
		SuggestFor:        []string{"semaphore", "permits"},
		Short:             "Set how many permits a semaphore has, or show them",
		Long:              semLong + asks("done"),
		Example:           "  mortise sem builds set 4\n  mortise run --sem builds -- make\n  mortise sem builds show",
		ValidArgsFunction: a.completeVerb(semVerbs, mortise.KindPermits, mortise.KindNumber),
	}
	a.jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, verb, n, err := a.verbArgs(cmd, args, map[string]bool{"set": true, "add": true, "show": false})
		if err != nil {
			return err
		}
		if verb == "set" && n < 0 {
			return usageError("", "the number after set is %d; it must not be negative", n)
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
			return a.addPermits(cmd.Context(), s, n)
		}
		return a.showPermits(cmd.Context(), client, s)
	}
	return cmd
}

// addPermits adds permits, or removes as many as there are at most.
func (a *app) addPermits(ctx context.Context, s *mortise.PermitSemaphore, n int) error {
	if n < 0 {
		has, err := s.Permits(ctx)
		if err != nil {
			return err
		}
		if has+n < 0 {
			return a.lineError("To leave none: ", "sem "+nameArgs(s.Name(), "set", "0"),
				"%s has %s, held ones included; %d cannot be removed", shown(s.Name()), counted(has, "permit"), -n)
		}
	}
	return s.AddPermits(ctx, n)
}

func (a *app) showPermits(ctx context.Context, c *mortise.Client, s *mortise.PermitSemaphore) error {
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
		if state.TTL = max(state.TTL, p.TTL); p.TTL < 0 {
			state.TTL = -1
			break
		}
	}
	set := available != 0 || len(out) > 0
	if !set {
		known, err := c.Inspect(ctx, s.Name())
		if err != nil {
			return err
		}
		set = known.Kind != mortise.KindNone
	}
	v, err := a.view(ctx, c, state)
	if err != nil {
		return err
	}
	if a.json {
		v.more = append(v.more, field{"set", set})
		return writeJSON(a.stdout, v)
	}
	if err := a.showState(v); err != nil || set {
		return err
	}
	a.say("%s", unset(s.Name()))
	return nil
}

// permitsOf returns permits of a semaphore as a subject.
func (f *runFlags) permitsOf(c *mortise.Client, p *plan) subject {
	options := mortise.PermitOptions{Permits: f.permits, MaxHold: p.lock.MaxHold, Margin: p.lock.Margin, Wait: p.lock.Wait}
	s := c.PermitSemaphore(p.name).With(options)
	taking := func(take func(context.Context) (*mortise.Hold, context.Context, error)) func(context.Context) (grip, context.Context, error) {
		return func(ctx context.Context) (grip, context.Context, error) {
			if err := f.setLimit(ctx, s, p.lock.Wait); err != nil {
				return nil, ctx, err
			}
			return take(ctx)
		}
	}
	waiting := func(ctx context.Context) (*mortise.Hold, context.Context, error) {
		defer f.tellTooFew(ctx, c, s)()
		return s.Acquire(ctx)
	}
	return subject{lock: taking(waiting), try: taking(s.TryAcquire)}
}

// tellTooFew tells the user, unless stop is called soon, if a wait for permits cannot end before
// somebody changes the semaphore.
func (f *runFlags) tellTooFew(ctx context.Context, c *mortise.Client, s *mortise.PermitSemaphore) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		if sleep(ctx, 50*time.Millisecond) {
			f.lookForTooFew(ctx, c, s)
		}
	})
	return func() { cancel(); looking.Wait() }
}

func (f *runFlags) lookForTooFew(ctx context.Context, c *mortise.Client, s *mortise.PermitSemaphore) {
	if state, err := c.Inspect(ctx, s.Name()); err == nil && state.Kind == mortise.KindNone {
		f.app.say("%s; this waits until someone sets it: %s", unset(s.Name()), setHint(f.app.self(), s.Name()))
		return
	}
	if has, err := s.Permits(ctx); err == nil && has < f.permits {
		f.app.say("%s has only %s, and %d are needed; this waits until it has more: %s", shown(s.Name()), counted(has, "permit"), f.permits, setHint(f.app.self(), s.Name()))
	}
}

// setLimit sets the number of permits to that of --limit, if it was never set. Another number
// stays, which the user is shown. It waits for Redis as long as --wait says, if it says so.
func (f *runFlags) setLimit(ctx context.Context, s *mortise.PermitSemaphore, wait time.Duration) error {
	if f.limit == 0 {
		return nil
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	set, err := s.TrySetPermits(ctx, f.limit)
	if err != nil || set {
		return err
	}
	n, err := s.Permits(ctx)
	if err == nil && n != f.limit {
		f.app.say("%s has %s, not the %d of --limit; to change that: %s sem %s",
			shown(s.Name()), counted(n, "permit"), f.limit, f.app.self(), nameArgs(s.Name(), "set", strconv.Itoa(f.limit)))
	}
	return err
}

// unset describes a semaphore that does not exist.
func unset(name string) string {
	return shown(name) + " has no permits: it was never set, or was deleted"
}

// setHint is the command that sets a semaphore; it begins with self.
func setHint(self, name string) string { return self + " sem " + nameArgs(name, "set", "N") }

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
	if err.Unset {
		return unset(p.name)
	}
	if waited {
		return fmt.Sprintf("%s had too few permits for all of %v: %v", shown(p.name), p.wait, err)
	}
	return fmt.Sprintf("%s has too few permits: %v", shown(p.name), err)
}
