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
	// troubled is how long Redis fails before a wait that is not shown says so.
	troubled = 5 * time.Second
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

// showWaiting shows what the command waits for, until stop is called: on a terminal in one line that is refreshed and finally erased;
// elsewhere in lines, if the wait is verbose or Redis does not serve the command.
func (a *app) showWaiting(ctx context.Context, w waiting) (stop func()) {
	show := a.showLine
	switch {
	case a.line.erasable:
	case w.verbose, a.line.terminal != nil:
		show = a.showLines
	default:
		show = a.showTrouble
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
			go func() { results <- a.known(ctx, w) }()
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
		text := w.sentence(time.Since(start), a.known(ctx, w).at(0))
		if a.line.terminal != nil {
			text += giveUp
		}
		if ctx.Err() != nil {
			return
		}
		a.say("%s", text)
	}
}

// showTrouble writes a line when Redis has not served the command for a while, and again once in a while, until ctx ends.
func (a *app) showTrouble(ctx context.Context, w waiting) {
	start := time.Now()
	since, next := start, troubled
	for sleep(ctx, time.Second) {
		switch err := a.trouble(); {
		case err == nil:
			since, next = time.Now(), troubled
		case time.Since(since) >= next:
			a.say("%s", w.sentence(time.Since(start), err.Error()))
			next += linePeriod
		}
	}
}

// trouble returns why Redis does not serve the command at present; nil if it does, as far as is known.
func (a *app) trouble() error {
	if a.failing == nil {
		return nil
	}
	return a.failing()
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
