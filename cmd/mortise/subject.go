package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

// subject is what run takes before it runs a command: a lock of some kind, or
// something else that is held.
type subject struct {
	lock, try func(ctx context.Context) (grip, context.Context, error)
	// owners returns who holds it.
	owners func(ctx context.Context) ([]string, error)
}

// grip is what was taken.
type grip interface {
	Owner() string
	Token() int64 // 0 if there is none
	Until() time.Time
	Unlock() error
}

// taker is a lock of any kind.
type taker interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
	TryLock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// subjectOf returns a lock as a subject.
func subjectOf(client *mortise.Client, name string, k taker) subject {
	return subject{
		lock: gripping(k.Lock), try: gripping(k.TryLock),
		owners: func(ctx context.Context) (owners []string, err error) {
			state, err := client.Inspect(ctx, name)
			for _, h := range state.Holders {
				owners = append(owners, h.Owner)
			}
			return owners, err
		},
	}
}

func gripping(take func(context.Context) (*mortise.Hold, context.Context, error)) func(context.Context) (grip, context.Context, error) {
	return func(ctx context.Context) (grip, context.Context, error) { return take(ctx) }
}

// kind is a flag of run that chooses what is taken.
type kind struct {
	flag, usage string
	open        func(c *mortise.Client, p *plan) subject
}

// kinds are the flags of run of which one may be given.
var kinds = []kind{
	{"fair", "take the fair lock NAME: who asked first has it first", func(c *mortise.Client, p *plan) subject {
		return subjectOf(c, p.name, c.FairLock(p.name).With(p.lock))
	}},
	{"read", "take the read side of the read/write lock NAME", func(c *mortise.Client, p *plan) subject {
		return subjectOf(c, p.name, c.RWLock(p.name).Read().With(p.lock))
	}},
	{"write", "take the write side of the read/write lock NAME", func(c *mortise.Client, p *plan) subject {
		return subjectOf(c, p.name, c.RWLock(p.name).Write().With(p.lock))
	}},
	{"fence", "take the fenced lock NAME; the command sees its fencing token as MORTISE_TOKEN", func(c *mortise.Client, p *plan) subject {
		return subjectOf(c, p.name, c.FencedLock(p.name).With(p.lock))
	}},
}

// chosen returns what the flags say is to be taken.
func chosen(cmd *cobra.Command, f *runFlags) (func(c *mortise.Client, p *plan) subject, error) {
	open := func(c *mortise.Client, p *plan) subject {
		return subjectOf(c, p.name, c.Lock(p.name).With(p.lock))
	}
	first := ""
	for _, k := range append(slices.Clip(kinds), kind{flag: "multi", open: f.all}, kind{flag: "sem", open: f.permitsOf}) {
		if !cmd.Flags().Changed(k.flag) {
			continue
		}
		if first != "" {
			return nil, usageError("", "--%s and --%s exclude each other", first, k.flag)
		}
		first, open = k.flag, k.open
	}
	return open, nil
}

// all takes the lock NAME and those of --multi, together.
func (f *runFlags) all(c *mortise.Client, p *plan) subject {
	locks := []mortise.Locker{c.Lock(p.name)}
	for _, name := range f.multi {
		locks = append(locks, c.Lock(name))
	}
	return subjectOf(c, p.name, mortise.NewMultiLock(locks...).With(p.lock))
}
