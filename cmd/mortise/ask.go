package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/doctor"
)

// askPlan is what unlock --ask does.
type askPlan struct {
	reason string
	wait   time.Duration // for the release; 0: it does not wait
	force  bool          // after the wait
}

// lookAgain is how often unlock --ask --wait looks whether the holders have released.
const lookAgain = 100 * time.Millisecond

// petition asks the holders to release the lock, waits for them as long as p says, and frees it then if p
// says so. It frees nothing of a holder that was not asked about.
func (u unlocking) petition(ctx context.Context, p askPlan) error {
	if !u.state.Locked {
		fmt.Fprintf(u.app.stdout, "%s is not locked\n", shown(u.name))
		return nil
	}
	if u.state.Kind == mortise.KindPermits {
		return u.app.lineError("To see who has permits: ", "who", "the holders of permits cannot be asked")
	}
	if err := u.unlisted(); err != nil {
		return err
	}
	rights := u.app.kinds
	u.app.kinds = string(doctor.KindRecords)
	asked, err := u.client.Ask(ctx, u.name, p.reason)
	u.state.Holders = nil
	deaf, all := 0, len(asked)+u.state.Unlisted
	for _, h := range asked { // also beside an error
		u.state.Holders = append(u.state.Holders, h.Holder)
		if !u.tellAsked(h) {
			deaf++
		}
	}
	if n := u.state.Unlisted; n > 0 {
		u.state.Unlisted = 0
		deaf += n
		fmt.Fprintf(u.app.stdout, "not asked to release %s, because only a thousand holders are asked at once: %s\n", shown(u.name), counted(n, "more holder"))
	}
	switch {
	case err != nil:
		return err
	case len(asked) == 0:
		fmt.Fprintf(u.app.stdout, "%s is not locked\n", shown(u.name))
		return nil
	case deaf > 0 && (p.wait == 0 || all > len(asked)): // of those that are not listed nobody knows when they release
		return &exitError{code: exitOther, err: errors.New(askedText(all, deaf)), hint: strings.Join(u.app.unlockLines(u.state), "\n")}
	case p.wait == 0:
		return nil
	}
	u.app.kinds = rights
	return u.await(ctx, p)
}

// tellAsked says whether a holder was asked, and reports it.
func (u unlocking) tellAsked(h mortise.AskedHolder) bool {
	name := ownerText(h.Holder, u.state.Now)
	switch {
	case h.Kept():
		fmt.Fprintf(u.app.stdout, "nobody to ask: %s is %s\n", shown(u.name), keptText(u.state.TTL))
	case h.Asked:
		fmt.Fprintf(u.app.stdout, "asked to release %s: %s\n", shown(u.name), name)
		return true
	default:
		fmt.Fprintf(u.app.stdout, "cannot ask %s: it is Redisson's, hides its identity, or has held %s for less than a quarter of a second; then ask again\n", name, shown(u.name))
	}
	return false
}

// askedText says how many of the holders could not be asked.
func askedText(all, deaf int) string {
	if all == 1 {
		return "its holder could not be asked"
	}
	return fmt.Sprintf("%d of the %d holders could not be asked", deaf, all)
}

// await waits until those who were asked have released the lock.
func (u unlocking) await(ctx context.Context, p askPlan) error {
	stop := u.app.showWaiting(ctx, waiting{what: shown(u.name) + " to be released", limit: p.wait})
	defer stop()
	last := time.Now().Add(p.wait)
	for {
		state, err := u.client.Inspect(ctx, u.name)
		left := still(u.state.Holders, state)
		switch {
		case errors.Is(err, mortise.ErrUnreachable) && time.Now().Before(last): // an interruption may be over before the wait is
		case err != nil:
			return err
		case len(left) == 0:
			stop()
			fmt.Fprintf(u.app.stdout, "%s was released\n", shown(u.name))
			return nil
		case time.Now().After(last) && p.force:
			stop()
			u.state = state
			u.state.Holders, u.state.Unlisted = left, 0
			return u.enforce(ctx, p)
		case time.Now().After(last):
			state.Holders, state.Unlisted = left, 0
			return &exitError{code: exitBusy, hint: strings.Join(u.app.unlockLines(state), "\n"),
				err: fmt.Errorf("%s was not released within %v: it is %s", shown(u.name), p.wait, holding(state))}
		}
		if !sleep(ctx, min(lookAgain, max(time.Until(last), time.Millisecond))) {
			return context.Cause(ctx)
		}
	}
}

// still returns those of the holders that hold the lock in that state, or may: not all may be listed.
func still(holders []mortise.Holder, now mortise.State) (left []mortise.Holder) {
	held := make(map[string]bool)
	for _, h := range now.Holders {
		held[h.Owner] = true
	}
	for _, h := range holders {
		if held[h.Owner] || now.Unlisted > 0 {
			left = append(left, h)
		}
	}
	return left
}

// enforce frees the lock of those who were asked and have not released it.
func (u unlocking) enforce(ctx context.Context, p askPlan) error {
	u.app.say("%s was not released within %v; freeing it", shown(u.name), duration.Round(p.wait))
	freed, err := u.freeAll(ctx)
	if err == nil && !freed {
		fmt.Fprintf(u.app.stdout, "%s was released\n", shown(u.name)) // in the last moment
	}
	return err
}

// quoted returns a text that somebody else has written, for a message.
func quoted(text string) string {
	if text = brief(text); strconv.Quote(text) == `"`+text+`"` {
		return text
	}
	return strconv.Quote(text)
}

// revokedText says by whom a command was asked to release what it runs under, and why.
func (p *plan) revokedText(e *mortise.RevokedError) string {
	text := fmt.Sprintf("asked by %s to release the %s %q", quoted(e.By), p.what, p.name)
	if e.Reason == "" {
		return text
	}
	return text + ": " + strconv.Quote(e.Reason)
}
