package watch

import (
	"strconv"
	"strings"
	"time"
)

// Load is what a [Watcher] has cost Redis, and what it cannot have seen.
type Load struct {
	Looks    int           // that have succeeded
	Failures int           // looks in which Redis could not be read
	Err      error         // why it cannot be read now; nil if it can
	Missing  []string      // the addresses of servers of a cluster that cannot be read now: what they have is as it was seen last
	At       time.Time     // of the last look, by Redis' clock; zero if there was none
	Looked   time.Time     // the same, by this machine's clock
	Every    time.Duration // between two looks, on average
	Longest  time.Duration // between two looks, at most

	Commands  int64   // sent in all
	PerSecond float64 // of these, over about the last ten seconds
	Bound     int     // how many may be sent in a second
	Search    *Search // nil if none is needed

	left   int        // as Search.Left
	recent []sentThen // when so many had been sent, of the last ten seconds, and one before that
}

// Search is what was seen of the searches for what no record lists.
type Search struct {
	Passes int           // that are complete
	Took   time.Duration // the last complete one
	Keys   int64         // of the last complete one, at most and about, or of the first one so far
	Left   int           // names that were found and are not shown yet: their keys are to be read once more
	Err    error         // of the last one; nil if it is complete
}

// sentThen is how many commands had been sent at a time.
type sentThen struct {
	at   time.Time
	sent int64
}

// sent notes that so many commands have been sent.
func (l *Load) sent(now time.Time, n int64) {
	const over = 10 * time.Second
	l.recent = append(l.recent, sentThen{now, n})
	for len(l.recent) > 2 && now.Sub(l.recent[1].at) > over {
		l.recent = l.recent[1:]
	}
}

// sent returns how many commands have been sent.
func (w *Watcher) sent() int64 {
	n := w.driver.Meter.Sent()
	if w.search != nil {
		n += w.search.searcher.Pages.Sent()
	}
	return n
}

// Load returns what the Watcher has cost so far. It does no I/O.
func (w *Watcher) Load() Load {
	w.mu.Lock()
	l := w.load
	w.mu.Unlock()
	l.Commands, l.Bound = w.sent(), w.options.Load
	if l.Looks > 1 {
		l.Every = l.Looked.Sub(w.began) / time.Duration(l.Looks-1)
	}
	if first := l.recent; len(first) > 0 {
		l.PerSecond = float64(l.Commands-first[0].sent) / max(1, time.Since(first[0].at).Seconds())
	}
	l.recent = nil
	if w.search != nil {
		l.Search = w.search.result()
		l.Search.Left += l.left
	}
	return l
}

// Unseen is how short a hold or a wait must be to be missed, as far as this run could tell.
func (l *Load) Unseen() time.Duration {
	const recorded = 1250 * time.Millisecond // a record leaves out 0.25 s, and is up to a second old
	return recorded + max(l.Longest, lookEvery)
}

// round rounds a duration for people.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// count returns a number with what is counted.
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped returns a number with commas between groups of three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
