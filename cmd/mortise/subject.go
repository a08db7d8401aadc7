package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

// subject is what run acquires before it runs a command: a lock of some kind, or something else
// that can be held.
type subject struct {
	lock, try func(ctx context.Context) (grip, context.Context, error)
	look      func(ctx context.Context) known // returns what is known of its holders
}

// grip is a held subject.
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
func subjectOf(k taker) subject {
	return subject{lock: gripping(k.Lock), try: gripping(k.TryLock)}
}

func gripping(take func(context.Context) (*mortise.Hold, context.Context, error)) func(context.Context) (grip, context.Context, error) {
	return func(ctx context.Context) (grip, context.Context, error) { return take(ctx) }
}

// kind is a flag of run that chooses the subject.
type kind struct {
	flag, usage string
	claim       claimKind
	open        func(c *mortise.Client, p *plan) subject
}

// kinds are the flags of run that exclude each other.
var kinds = []kind{
	{"fair", "acquire the fair lock NAME: first come, first served", claimLock, func(c *mortise.Client, p *plan) subject {
		return subjectOf(c.FairLock(p.name).With(p.lock))
	}},
	{"read", "acquire the read side of the read/write lock NAME", claimRead, func(c *mortise.Client, p *plan) subject {
		return subjectOf(c.RWLock(p.name).Read().With(p.lock))
	}},
	{"write", "acquire the write side of the read/write lock NAME", claimWrite, func(c *mortise.Client, p *plan) subject {
		return subjectOf(c.RWLock(p.name).Write().With(p.lock))
	}},
	{"fence", "acquire the fenced lock NAME; the command gets its fencing token as MORTISE_TOKEN", claimFence, func(c *mortise.Client, p *plan) subject {
		return subjectOf(c.FencedLock(p.name).With(p.lock))
	}},
}

// choose sets the claims and the subject that the flags choose.
func (p *plan) choose(cmd *cobra.Command, f *runFlags) error {
	use := kind{claim: claimLock, open: locks}
	for _, k := range append(slices.Clip(kinds), kind{flag: "multi", claim: claimLock, open: locks}, kind{flag: "sem", claim: claimPermit, open: f.permitsOf}) {
		if !cmd.Flags().Changed(k.flag) {
			continue
		}
		if use.flag != "" {
			return usageError("", "--%s and --%s exclude each other", use.flag, k.flag)
		}
		use = k
	}
	if cmd.Flags().Changed("multi") && (len(f.multi) == 0 || slices.Contains(f.multi, "")) {
		return usageError("", "a NAME of --multi is empty")
	}
	p.open = use.open
	for i, name := range append([]string{p.name}, f.multi...) {
		if i > 0 && strings.TrimSpace(name) != name {
			return usageError("Write the names without spaces between them: --multi a,b", "the name %q begins or ends with a space", name)
		}
		c := claim{kind: use.claim, name: name}
		if c.kind == claimPermit {
			c.permits = f.permits
		}
		p.claims = append(p.claims, c)
	}
	return nil
}

// locks returns the claimed locks as one subject.
func locks(c *mortise.Client, p *plan) subject {
	var all []mortise.Locker
	for _, claim := range p.claims {
		all = append(all, c.Lock(claim.name))
	}
	if len(all) == 1 {
		return subjectOf(c.Lock(p.claims[0].name).With(p.lock))
	}
	return subjectOf(mortise.NewMultiLock(all...).With(p.lock))
}
