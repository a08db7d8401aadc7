package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/top"
	"github.com/mortise-go/mortise/connect"
)

const topLong = `top fills the terminal with the locks whose names match PATTERN (as in Redis: * ? [abc];
all if there is none), and keeps them up to date: who holds each one, for how long, what
is left of its lease, how many wait, and since when. Those that hurt most come first.

Enter shows one lock: its holders, its queue in order, its last acquisitions. c shows the
processes. A line names deadlocks. ? shows all keys.

u releases a lock, as mortise unlock --owner does. It names the holder and asks; it frees
nothing if that holder does not have the lock any more when the answer comes. Make sure
that the holder is dead: it cannot prevent it. a asks the holders to release it
themselves, as mortise unlock --ask. With --read-only there is neither.

top sees what mortise watch sees: holds and waits of less than about 1.5 s may be
missing; locks of Redisson, and of clients that hide, come when a slow search has found
them. It sends at most 100 commands a second, unless --load says otherwise, and shows
how many. While it is paused, it looks every ten seconds.

It needs a terminal of 80 columns and 24 lines. NO_COLOR=1 leaves out the colours. Without a
terminal, use mortise ls, mortise who or mortise watch.`

// topFlags are the flags of top.
type topFlags struct {
	load     int
	readOnly bool
}

func topCommand(a *app) *cobra.Command {
	f := topFlags{load: 100}
	cmd := &cobra.Command{
		Use:        "top [PATTERN]",
		SuggestFor: []string{"htop", "ui", "tui", "monitor", "screen"},
		Short:      "Show locks on a screen that stays up to date",
		Long:       topLong + asks("ended by q, Ctrl-C, SIGTERM or SIGHUP", "  74  the terminal is gone"),
		Example:    "  mortise top\n  mortise top 'order:*' --read-only",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError("Quote the pattern, or the shell replaces it by file names.", "mortise top takes one PATTERN, not %d", len(args))
			case len(args) == 1 && args[0] == "":
				return usageError("", "PATTERN is empty; that is the name of no lock")
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.load < leastLoad || f.load > mostLoad:
				return usageError("", "--load is %d; it must be from %d to %d", f.load, leastLoad, mostLoad)
			case !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())):
				return usageError("For a list: mortise ls, or mortise who. For what happens, a line for each event: mortise watch.",
					"mortise top needs a terminal for its input and its output")
			case a.getenv("TERM") == "" || a.getenv("TERM") == "dumb":
				return usageError("For a list: mortise ls, or mortise who. For what happens, a line for each event: mortise watch.",
					"mortise top needs a terminal that can move its cursor; TERM is %q", a.getenv("TERM"))
			}
			if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil && (width > top.MostColumns || height > top.MostLines) {
				return usageError(fmt.Sprintf("Make it smaller: stty cols 80 rows 24. At most %d columns and %d lines are shown.", top.MostColumns, top.MostLines),
					"the terminal says that it has %d columns and %d lines", width, height)
			}
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return a.top(cmd.Context(), pattern, &f)
		},
	}
	cmd.Flags().IntVar(&f.load, "load", f.load, "send Redis at most `N` commands a second, and search for at most N/100 % of a server's time")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "without the keys that release locks, or ask for it")
	return cmd
}

// top shows the locks that match pattern until the user has seen enough.
func (a *app) top(ctx context.Context, pattern string, f *topFlags) error {
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	cycles := lastingCycles{first: make(map[string]time.Time)}
	o := top.Options{
		Prefix: a.keyPrefix(), Pattern: pattern, Load: f.load, Redis: connect.Redact(a.url()), In: os.Stdin, Out: os.Stdout,
		Words:     func(err error) string { return said("%s", concealed(plain(err).Error())) },
		Deadlocks: cycles.see,
	}
	if !f.readOnly {
		act := &actor{app: a}
		defer act.close()
		o.Act = act
	}
	err = top.Run(ctx, d, o)
	var own *exitError
	switch {
	case errors.Is(err, top.ErrTerminal):
		return &exitError{code: exitOutput, err: err}
	case errors.As(err, &own) && own.signal != 0:
		return nil
	}
	return err
}

// actor does what the user of top asks for. Its client says who it is, so it is another one than that of the
// watcher, and is opened only when it is needed.
type actor struct {
	app    *app
	mu     sync.Mutex // guards client
	client *mortise.Client
}

// open returns the client.
func (c *actor) open(ctx context.Context) (*mortise.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	opening, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	d, err := connect.Open(opening, c.app.url())
	if err != nil {
		return nil, connectError(err)
	}
	c.client = mortise.New(d, c.app.options(asking))
	return c.client, nil
}

func (c *actor) close() {
	if c.client != nil {
		leave(c.client)
	}
}

// Release implements top.Actor.
func (c *actor) Release(ctx context.Context, s mortise.State, owner string) (bool, error) {
	client, err := c.open(ctx)
	if err != nil {
		return false, err
	}
	return unlocking{app: c.app, client: client, name: s.Name, state: s}.free(ctx, owner)
}

// Ask implements top.Actor.
func (c *actor) Ask(ctx context.Context, name, reason string) ([]mortise.AskedHolder, error) {
	client, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return client.Ask(ctx, name, reason)
}

// lastingCycles are the cycles of the looks so far.
type lastingCycles struct {
	first map[string]time.Time // when each cycle that is still there was seen first
}

// see returns those cycles of a look that are old enough to be certain.
func (l *lastingCycles) see(clients []mortise.ClientState) (list []*mortise.DeadlockError) {
	c := newCensus(clients)
	still := make(map[string]time.Time)
	for _, cycle := range cyclesOf(c) {
		key := cycleKey(cycle)
		began, known := l.first[key]
		if !known {
			began = c.now
		}
		if still[key] = began; c.now.Sub(began) < cyclePause {
			continue
		}
		list = append(list, deadlockOf(cycle))
	}
	l.first = still
	return list
}
