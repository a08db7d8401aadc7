package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
)

const unlockLong = `unlock frees a lock from outside, for operators. Its holder is not asked: a
mortise holder learns of it at its next renewal, a third of its lease later at
most, a Redisson holder not before it releases. Until then two may believe that
they hold the lock. Make sure that the holder is dead.

Without a flag it frees nothing, and shows who holds the lock and the command
that would free it.`

func unlockCommand(a *app) *cobra.Command {
	var owner string
	var force bool
	cmd := &cobra.Command{
		Use:               "unlock NAME (--owner OWNER | --force)",
		Short:             "Free a lock whose holder is gone",
		Long:              unlockLong,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			byOwner := cmd.Flags().Changed("owner")
			switch {
			case byOwner && force:
				return usageError("", "--owner and --force exclude each other")
			case byOwner && owner == "":
				return usageError("mortise show NAME shows the owner.", "--owner is empty")
			}
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			lock := client.Lock(args[0])
			switch {
			case byOwner:
				return a.unlockOwner(cmd.Context(), lock, owner)
			case force:
				return a.unlockForce(cmd.Context(), lock)
			}
			return a.unlockNothing(cmd.Context(), lock)
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "free it only if `OWNER` still holds it")
	cmd.Flags().BoolVar(&force, "force", false, "free it whoever holds it")
	return cmd
}

func (a *app) unlockOwner(ctx context.Context, lock *mortise.Lock, owner string) error {
	freed, err := lock.UnlockOwner(ctx, owner)
	if err != nil {
		return err
	}
	if freed {
		fmt.Fprintf(a.stdout, "freed %s, which was held by %s\n", shown(lock.Name()), shown(owner))
		return nil
	}
	state, err := lock.Inspect(ctx)
	if err != nil {
		return err
	}
	now := "nobody holds it"
	if state.Locked {
		now = "it is " + holding(state)
	}
	return &exitError{code: exitOther, err: fmt.Errorf("%s was not freed: %s does not hold it; %s", shown(lock.Name()), shown(owner), now)}
}

func (a *app) unlockForce(ctx context.Context, lock *mortise.Lock) error {
	holder, err := lock.ForceUnlock(ctx)
	if holder != nil {
		fmt.Fprintf(a.stdout, "freed %s, which was held by %s (count %d)\n", shown(lock.Name()), shown(holder.Owner), holder.Count)
	} else if err == nil {
		fmt.Fprintf(a.stdout, "%s was not locked\n", shown(lock.Name()))
	}
	return err
}

// unlockNothing shows what there is to unlock, and how.
func (a *app) unlockNothing(ctx context.Context, lock *mortise.Lock) error {
	state, err := lock.Inspect(ctx)
	if err != nil {
		return err
	}
	if state.Kind == mortise.KindOther {
		return fmt.Errorf("%s is not a lock: %w", shown(lock.Name()), mortise.ErrWrongKind)
	}
	if !state.Locked {
		fmt.Fprintf(a.stdout, "%s is not locked\n", shown(lock.Name()))
		return nil
	}
	hint := strings.Join(a.unlockLines(state), "\n")
	return &exitError{code: exitOther, hint: hint, err: errors.New(shown(state.Name) + " was not freed: it is " + holding(state))}
}

// unlockLines are the command that frees a lock, and what is to know of it.
func (a *app) unlockLines(s mortise.State) []string {
	if s.Kind != mortise.KindLock {
		return []string{"A " + string(s.Kind) + " cannot be freed by this command."}
	}
	command := "mortise unlock " + shellQuote(s.Name) + " --owner " + shellQuote(s.Holders[0].Owner)
	if a.redis != "" && connect.Redact(a.redis) == a.redis {
		command += " --redis " + shellQuote(a.redis)
	}
	return []string{"If its holder is gone for good:", "  " + command}
}
