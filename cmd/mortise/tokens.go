package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const tokensLong = `tokens shows the counters of fencing tokens, and the fences, that were not used for
the time of --idle. They have no TTL: each name that was ever the name of a fenced
lock or an election leaves the key redisson_lock_token:{NAME} in Redis, and each
resource that a fencing guard has protected leaves mortise:fence:{NAME}.

With --expire and --yes, it makes those expire whose lock is neither held nor
waited for, after DUR. What is used before that stays: a mortise client that draws
a token, or a guard that checks one, removes the TTL. Without --yes it shows what
would expire, and changes nothing.

The danger: the tokens of a name whose counter is gone begin at 1 again. A resource
that remembers a higher one, such as a database, refuses all new holders. One
that has forgotten the higher ones admits an earlier holder, such as one that was
frozen all that time. So --idle and --expire together must be longer than any process that
used the lock can live. Where Redisson's threads use the name, do not expire it:
they do not remove the TTL when they draw a token.

Redis knows how long a key was not used, unless its maxmemory-policy is an LFU one:
then tokens fails. A restart of Redis resets this time. mortise show NAME is a
use, ls and tokens are not. Many versions of Redis store a number below 10000 once
for all keys, unless maxmemory is set with an LRU policy. The time is then that
since any key with this number was used: it may be too short, never too long. If it
is too short for all of them, --idle 0 with a long --expire finds out the same.

It goes through all keys with SCAN, and needs the right to run OBJECT IDLETIME.

Exit codes:
   0  done, also if there are none
  64  wrong usage, or Redis does not know how long keys were not used
  69  Redis cannot be reached
  77  Redis refused the user, the password or a right`

func tokensCommand(a *app) *cobra.Command {
	var t tokens
	cmd := &cobra.Command{
		Use:               "tokens --idle DUR [--expire DUR [--yes]]",
		Short:             "Find fencing tokens that nobody uses any more, and let them expire",
		Long:              tokensLong,
		Example:           "  mortise tokens --idle 720h\n  mortise --prefix order: tokens --idle 720h --expire 24h --yes",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(cmd); err != nil {
				return err
			}
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			t.app, t.client = a, client
			return t.run(cmd.Context())
		},
	}
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().Var(&t.idle, "idle", "show those that were not used for `DUR`, as 720h; 0 shows all")
	cmd.Flags().Var(&t.expire, "expire", "make them expire after `DUR`, as 24h; needs --yes")
	cmd.Flags().BoolVar(&t.yes, "yes", false, "with --expire, really do it")
	a.jsonFlag(cmd)
	return cmd
}

// tokens is one run of tokens.
type tokens struct {
	idle, expire duration.Flag
	yes          bool

	app    *app
	client *mortise.Client
	shown  int
	set    int // how many expire now
	kept   int // how many are in use
}

func (t *tokens) check(cmd *cobra.Command) error {
	switch {
	case !cmd.Flags().Changed("idle"):
		return usageError("As in: mortise tokens --idle 720h", "--idle is missing")
	case cmd.Flags().Changed("expire") && time.Duration(t.expire) < time.Second:
		return usageError("", "--expire is %v; it must be at least 1s", time.Duration(t.expire))
	case t.yes && !cmd.Flags().Changed("expire"):
		return usageError("", "--yes goes with --expire")
	}
	return nil
}

// tokenForm is what tokens tells about a name in JSON.
type tokenForm struct {
	Name    string `json:"name"`
	Idle    int64  `json:"idle_ms"`
	Counter bool   `json:"counter"`
	Fence   bool   `json:"fence"`
	InUse   bool   `json:"in_use"`
	TTL     int64  `json:"ttl_ms"`
	Expires bool   `json:"expires"` // now, or with --yes
}

func (t *tokens) run(ctx context.Context) error {
	forms := []tokenForm{}
	err := t.each(ctx, func(form tokenForm) {
		if t.app.json {
			forms = append(forms, form)
		} else {
			t.write(form)
		}
	})
	switch {
	case t.app.json: // also what was done before an error
		return cmp.Or(writeJSON(t.app.stdout, forms), err)
	case err == nil:
		t.summary()
	}
	return err
}

// each handles the counters, and reports on each one.
func (t *tokens) each(ctx context.Context, tell func(tokenForm)) error {
	for use, err := range t.client.TokenUses(ctx) {
		if err != nil {
			return err
		}
		if use.Idle < time.Duration(t.idle) {
			continue
		}
		form, err := t.handle(ctx, use)
		if err != nil {
			return err
		}
		tell(form)
	}
	return nil
}

// handle makes a counter expire if that was asked for and it is possible.
func (t *tokens) handle(ctx context.Context, use mortise.TokenUse) (tokenForm, error) {
	form := tokenForm{
		Name: use.Name, Idle: use.Idle.Milliseconds(), Counter: use.Counter, Fence: use.Fence, InUse: use.InUse, TTL: use.TTL.Milliseconds(),
		Expires: t.expire > 0 && !use.InUse && use.TTL < 0,
	}
	if use.TTL < 0 {
		form.TTL = -1
	}
	t.shown++
	if use.InUse {
		t.kept++
	}
	if form.Expires && t.yes {
		var err error
		if form.Expires, err = t.client.ExpireTokens(ctx, use.Name, time.Duration(t.idle), time.Duration(t.expire)); err != nil {
			return form, err
		}
		if form.Expires {
			form.TTL = time.Duration(t.expire).Milliseconds()
		}
	}
	if form.Expires {
		t.set++
	}
	return form, nil
}

func (t *tokens) write(form tokenForm) {
	what := map[[2]bool]string{{true, false}: "counter", {false, true}: "fence", {true, true}: "counter, fence"}[[2]bool{form.Counter, form.Fence}]
	then := ""
	switch {
	case form.InUse:
		then = "  in use"
	case form.Expires && !t.yes:
		then = "  would expire in " + duration.Round(time.Duration(t.expire)).String()
	case form.TTL >= 0:
		then = "  expires in " + duration.Round(time.Duration(form.TTL)*time.Millisecond).String()
	}
	fmt.Fprintf(t.app.stdout, "%s  %s  unused for %v%s\n", shown(form.Name), what, time.Duration(form.Idle)*time.Millisecond, then)
}

func (t *tokens) summary() {
	switch {
	case t.shown == 0:
		t.app.say("all fencing tokens were used in the last %v, or there are none", time.Duration(t.idle))
	case t.expire == 0:
		t.app.say("names whose tokens were not used for %v: %d", time.Duration(t.idle), t.shown)
	case t.yes:
		t.app.say("names whose tokens expire in %v: %d; in use: %d", time.Duration(t.expire), t.set, t.kept)
	default:
		t.app.say("names whose tokens would expire in %v with --yes: %d; in use: %d", time.Duration(t.expire), t.set, t.kept)
	}
}
