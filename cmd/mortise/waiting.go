package main

import (
	"context"
	"regexp"
	"strings"
	"time"
)

// How often a user is told what a command waits for. A wait that is shorter than patience is not worth it.
const (
	patience    = time.Second
	linePeriod  = 30 * time.Second // of whole lines
	lookPeriod  = 5 * time.Second
	lookTimeout = 2 * time.Second
	// troubled is how long Redis fails before lines say so.
	troubled = 5 * time.Second
)

// waiting is something that a command waits for.
type waiting struct {
	what    string                          // such as the name of a lock
	limit   time.Duration                   // 0: none
	began   time.Time                       // zero: when it is first shown
	verbose bool                            // write lines where there is no terminal
	look    func(ctx context.Context) known // returns what is known of its holder; may be nil
}

// known is what is known of a holder, as a text for that long after the look; it may be nil.
type known func(past time.Duration) string

// fixed returns a text that does not change with the time.
func fixed(text string) known { return func(time.Duration) string { return text } }

// at returns the text for that long after the look.
func (k known) at(past time.Duration) string {
	if k == nil {
		return ""
	}
	return k(past)
}

// showWaiting shows what the command waits for, until stop is called: on a terminal in one line that is refreshed and finally erased;
// elsewhere in lines, if the wait is verbose or Redis does not serve the command.
func (a *app) showWaiting(ctx context.Context, w waiting) (stop func()) {
	if w.began.IsZero() {
		w.began = time.Now()
	}
	show := a.showLines
	if a.line.erasable {
		show = a.showLine
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		show(ctx, w)
	}()
	return func() {
		cancel()
		<-done
		a.line.clear()
	}
}

// showLine shows a wait in the status line until ctx ends.
func (a *app) showLine(ctx context.Context, w waiting) {
	if !sleep(ctx, patience) {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var holder known
	var looked time.Time
	results := make(chan known, 1)
	looking := false
	defer func() {
		if looking {
			<-results // ctx has ended, so it comes soon
		}
	}()
	for {
		if !looking && w.look != nil && time.Since(looked) >= lookPeriod {
			looking = true
			go func() { results <- a.known(ctx, w) }()
		}
		if err := a.trouble(); err != nil {
			a.line.set(w.texts(failureText(err))...)
		} else {
			text := holder.at(time.Since(looked))
			a.line.set(w.texts(text, program.ReplaceAllString(longID.ReplaceAllString(text, "$1…"), "$1"))...)
		}
		select {
		case <-ctx.Done():
			return
		case holder = <-results:
			looking, looked = false, time.Now()
		case <-tick.C:
		}
	}
}

// showLines shows a wait in lines until ctx ends: what is waited for, if the wait is verbose or there is a terminal; and in any case, when
// Redis has not served the command for a while, that.
func (a *app) showLines(ctx context.Context, w waiting) {
	served, away := time.Now(), troubled
	shows := w.verbose || a.line.terminal != nil
	for next := time.Now(); sleep(ctx, patience); {
		if a.line.terminal != nil && !w.verbose && !a.line.visible() {
			continue
		}
		trouble := a.trouble()
		if trouble == nil {
			served, away = time.Now(), troubled
		}
		lasts := trouble != nil && time.Since(served) >= away
		if !lasts && (!shows || time.Now().Before(next)) {
			continue
		}
		next = time.Now().Add(linePeriod)
		if trouble != nil {
			away = time.Since(served) + linePeriod
		}
		text := w.sentence(a.known(ctx, w).at(0))
		if a.line.terminal != nil {
			text += giveUp
		}
		if ctx.Err() != nil {
			return
		}
		a.say("%s", text)
	}
}

// trouble returns why Redis does not serve the command at present; nil if it does, as far as is known.
func (a *app) trouble() error {
	if a.failing == nil {
		return nil
	}
	return a.failing()
}

// failureText returns the text of an error, and the beginning of it that says what is wrong.
func failureText(err error) (why, what string) {
	what, _, _ = strings.Cut(err.Error(), ": ")
	return err.Error(), what
}

// known returns what is known of the holder, or why Redis does not say.
func (a *app) known(ctx context.Context, w waiting) known {
	if err := a.trouble(); err != nil {
		return fixed(err.Error())
	}
	if w.look == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return w.look(ctx)
}

// sentence says what is waited for, and why that lasts, if that is known.
func (w waiting) sentence(why string) string {
	text := "waiting " + time.Since(w.began).Truncate(time.Second).String()
	if w.limit > 0 {
		text += " of " + w.limit.String()
	}
	text += " for " + w.what
	if why != "" {
		text += ": " + why
	}
	return text
}

// giveUp says how to end a wait on a terminal.
const giveUp = "; Ctrl-C gives up"

// longID matches the end of a client's id that a terminal may have no room for, and program what a process
// runs.
var (
	longID  = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	program = regexp.MustCompile(` \([^()]+\)( for |, |$)`)
)

// texts returns the status line, and shorter forms of it for narrow terminals; cause is a shorter form of why.
func (w waiting) texts(why, cause string) []string {
	long, briefer, short := w.sentence(why), w.sentence(cause), w.sentence("")
	brief := longID.ReplaceAllString(long, "$1…")
	return []string{"mortise: " + long + giveUp, "mortise: " + brief + giveUp, brief + giveUp, briefer + giveUp, briefer, short + giveUp, short}
}

// sleep reports whether the time has passed before ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
