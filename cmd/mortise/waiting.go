package main

import (
	"context"
	"regexp"
	"time"
)

// How often a user is told what a command waits for. A wait that is shorter than patience is not worth it.
const (
	patience    = time.Second
	linePeriod  = 30 * time.Second // of whole lines
	lookPeriod  = 5 * time.Second
	lookTimeout = 2 * time.Second
)

// waiting is something that a command waits for.
type waiting struct {
	what    string                          // such as the name of a lock
	limit   time.Duration                   // 0: none
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

// showWaiting tells the user what the command waits for, until stop is called: on a terminal in one line that is
// refreshed and finally erased; elsewhere in lines, if the wait is verbose.
func (a *app) showWaiting(ctx context.Context, w waiting) (stop func()) {
	show := a.showLine
	switch {
	case a.line.erasable:
	case w.verbose, a.line.terminal != nil:
		show = a.showLines
	default:
		return func() {}
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
	start := time.Now()
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
			go func() { results <- w.known(ctx) }()
		}
		a.line.set(w.texts(time.Since(start), holder.at(time.Since(looked)))...)
		select {
		case <-ctx.Done():
			return
		case holder = <-results:
			looking, looked = false, time.Now()
		case <-tick.C:
		}
	}
}

// showLines shows a wait in lines until ctx ends.
func (a *app) showLines(ctx context.Context, w waiting) {
	start := time.Now()
	for pause := patience; sleep(ctx, pause); pause = linePeriod {
		if !w.verbose && !a.line.visible() {
			continue
		}
		text := w.sentence(time.Since(start), w.known(ctx).at(0))
		if a.line.terminal != nil {
			text += giveUp
		}
		if ctx.Err() != nil {
			return
		}
		a.say("%s", text)
	}
}

// known returns what is known of the holder.
func (w waiting) known(ctx context.Context) known {
	if w.look == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return w.look(ctx)
}

// sentence says what is waited for.
func (w waiting) sentence(past time.Duration, holder string) string {
	text := "waiting " + past.Truncate(time.Second).String()
	if w.limit > 0 {
		text += " of " + w.limit.String()
	}
	text += " for " + w.what
	if holder != "" {
		text += ": " + holder
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

// texts returns the status line, and shorter forms of it for narrow terminals.
func (w waiting) texts(past time.Duration, holder string) []string {
	long, short := w.sentence(past, holder), w.sentence(past, "")
	brief := longID.ReplaceAllString(long, "$1…")
	briefer := w.sentence(past, program.ReplaceAllString(longID.ReplaceAllString(holder, "$1…"), "$1"))
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
