package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// wants describes what p waits for.
func (p *plan) wants() string {
	name := andMore(shown(p.name), len(p.claims)-1)
	switch p.claims[0].kind {
	case claimLead:
		return "the lead of " + name
	case claimPermit:
		return counted(p.claims[0].permits, "permit") + " of " + name
	}
	return name
}

// look returns what Redis knows of those that p waits for, for the user who waits.
func (p *plan) look(client *mortise.Client) func(context.Context) known {
	return func(ctx context.Context) known {
		for _, c := range p.claims {
			s, err := client.Inspect(ctx, c.name)
			switch {
			case err != nil:
				return fixed(unknown(err))
			case c.kind == claimPermit:
				return fixed(permitsText(s))
			case s.Locked:
				return p.holderOf(c, s)
			}
		}
		return nil
	}
}

// holderOf returns what is known of the holder of a claim.
func (p *plan) holderOf(c claim, s mortise.State) known {
	before := ""
	if len(p.claims) > 1 {
		before = shown(c.name) + " is "
	}
	return func(past time.Duration) string {
		later := s
		if !s.Now.IsZero() {
			later.Now = s.Now.Add(past)
		}
		return before + holderText(later)
	}
}

// unknown says why nothing is known of a holder.
func unknown(err error) string {
	if errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		return "Redis does not answer"
	}
	return "" // it is only for the user's information
}

// holderText describes the holders of a lock, and the queue for it, in few words.
func holderText(s mortise.State) string {
	var parts []string
	switch {
	case allKept(s):
		parts = append(parts, keptText(s.TTL))
	case len(s.Holders) > 0:
		parts = append(parts, "held by "+andMore(ownerText(longest(s.Holders), s.Now), len(s.Holders)-1+s.Unlisted))
	}
	if s.Kind == mortise.KindElection && s.Value != "" {
		parts = append(parts, "value "+shown(s.Value))
	}
	if len(s.Queue) > 0 {
		parts = append(parts, fmt.Sprintf("%d in the queue", len(s.Queue)))
	}
	return strings.Join(parts, ", ")
}

// longest returns the holder that has a lock for the longest time, as far as is known.
func longest(holders []mortise.Holder) mortise.Holder {
	first := holders[0]
	for _, h := range holders[1:] {
		if !h.Since.IsZero() && (first.Since.IsZero() || h.Since.Before(first.Since)) {
			first = h
		}
	}
	return first
}

// permitsText describes a semaphore in few words.
func permitsText(s mortise.State) string {
	switch s.Kind {
	case mortise.KindNone:
		return "it was never set, or was deleted"
	case mortise.KindPermits:
		return fmt.Sprintf("%d available, %d held", s.Number, len(s.Permits)+s.Unlisted)
	case mortise.KindNumber:
		return fmt.Sprintf("%d available", s.Number)
	}
	return ""
}

// andMore returns the first of several, and how many more there are.
func andMore(first string, more int) string {
	if more > 0 {
		return fmt.Sprintf("%s and %d more", first, more)
	}
	return first
}
