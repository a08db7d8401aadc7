package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/watch"
)

// watchOutput writes what a watch sees. Each event is one write, so that the reader of a pipe has it
// at once.
type watchOutput interface {
	event(e *watch.Event)
	note(at time.Time, text string)
	end(r *watchResult)
}

func newWatchOutput(a *app, form string) watchOutput {
	switch form {
	case "json":
		return watchJSON{a}
	case "trace":
		return &watchTrace{app: a, trace: watch.NewTrace(a.stdout)}
	}
	return &watchLines{app: a, widths: []int{8, 16, 24}}
}

// watchResult is what a watch tells at its end.
type watchResult struct {
	began   time.Time
	took    time.Duration
	last    *watch.Snapshot // nil if there was no look
	summary watch.Summary
	load    watch.Load
}

// watchLines writes text.
type watchLines struct {
	app    *app
	widths []int // of the columns after the time
}

func (l *watchLines) event(e *watch.Event) {
	cells := []string{strings.ReplaceAll(string(e.Type), "_", " "), shown(e.Lock), e.Party.LongText(briefly), eventText(e)}
	var b strings.Builder
	b.WriteString(e.Time.Local().Format("15:04:05.000"))
	for i, cell := range cells {
		b.WriteString("  " + cell)
		if i < len(l.widths) {
			width := utf8.RuneCountInString(cell)
			l.widths[i] = max(l.widths[i], min(width, 60))
			b.WriteString(strings.Repeat(" ", max(0, l.widths[i]-width)))
		}
	}
	fmt.Fprintln(l.app.stdout, strings.TrimRight(b.String(), " "))
}

// briefly is shown for texts that a process publishes about itself.
func briefly(text string) string { return shown(brief(text)) }

// eventText returns what is to be said of an event besides its name, the lock and the party.
func eventText(e *watch.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.From != nil && e.Type == watch.Granted {
		add("from %s", e.From.LongText(briefly))
	}
	if e.For != nil {
		add("for %s", e.For.LongText(briefly))
	}
	if e.Waited >= 0 && e.Type != watch.GaveUp {
		add("waited %v", duration.Round(e.Waited))
	}
	if e.Held >= 0 && e.Type != watch.Held {
		add("held %v", duration.Round(e.Held))
	}
	if special := specialText(e); special != "" {
		add("%s", special)
	}
	if e.Why != "" {
		add("%s", harmless(e.Why))
	}
	return strings.Join(parts, ", ")
}

// specialText returns what is only said of an event of its type.
func specialText(e *watch.Event) string {
	switch {
	case e.Type == watch.GaveUp:
		return fmt.Sprintf("after %v, or held it too briefly to be seen", duration.Round(e.Waited))
	case e.Type == watch.Held && e.Held >= 0:
		return fmt.Sprintf("for %v", duration.Round(e.Held))
	case e.Type == watch.Asked && e.Reason != "":
		return "by " + shown(e.By) + ", because: " + shown(e.Reason)
	case e.Type == watch.Asked:
		return "by " + shown(e.By)
	case e.Type == watch.Released && e.Unsure:
		return "or lost"
	case e.Token != 0 && (e.Type == watch.Acquired || e.Type == watch.Granted):
		return fmt.Sprintf("token %d", e.Token)
	}
	return ""
}

func (l *watchLines) note(_ time.Time, text string) { l.app.say("%s", text) }

// mostRows is how many locks the summary of a watch shows in text, and show how many holders.
const mostRows = 20

func (l *watchLines) end(r *watchResult) {
	out := l.app.stdout
	fmt.Fprintf(out, "\nwatched for %v: %s\n", duration.Round(r.took), counted(r.summary.Events, "event"))
	locks := r.summary.Locks(r.last)
	if len(locks) > 0 {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "LOCK\tACQUIRED\tLOST\tGAVE UP\tLONGEST WAIT\tLONGEST HOLD\tNOW")
		for _, s := range locks[:min(mostRows, len(locks))] {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", shown(s.Lock), s.Acquisitions, s.Lost, s.GaveUp, longestText(s.LongestWait), longestText(s.LongestHold), nowText(s))
		}
		_ = w.Flush() // a failure is noted by stdout
	}
	if more := len(locks) - mostRows; more > 0 {
		fmt.Fprintf(out, "and %s\n", counted(more, "more lock"))
	}
	for _, line := range loadLines(r) {
		fmt.Fprintln(out, line)
	}
}

func longestText(r watch.Record) string {
	if r.For <= 0 {
		return "-"
	}
	return duration.Round(r.For).String() + " " + r.Party.Text(shown)
}

func nowText(s watch.LockSummary) string {
	text := "free"
	if s.HoldersAtTheEnd > 0 {
		text = "held"
	}
	if s.WaitersAtEnd > 0 {
		text += fmt.Sprintf(", %d waiting", s.WaitersAtEnd)
	}
	return text
}

// loadLines say what the watch has cost, and what it cannot have seen.
func loadLines(r *watchResult) []string {
	l := &r.load
	perSecond := float64(l.Commands) / max(r.took.Seconds(), 1)
	lines := []string{fmt.Sprintf("It looked %s, every %v, and every %v at the longest: %s, %.0f a second.",
		counted(l.Looks, "time"), duration.Round(l.Every), duration.Round(l.Longest), spaced(l.Commands)+" commands", perSecond)}
	missed := fmt.Sprintf("Not seen: holds and waits of less than about %v", duration.Round(l.Unseen()))
	switch {
	case l.Search == nil:
	case l.Search.Passes == 0:
		missed += fmt.Sprintf("; locks of Redisson, and of clients that hide: the search has not gone through all keys yet, only about %s", spaced(l.Search.Keys))
	default:
		missed += fmt.Sprintf("; locks of Redisson, and of clients that hide, for less than %v, the time of a search through the keys, of which there are no more than about %s",
			duration.Round(max(l.Search.Took, time.Second)), spaced(l.Search.Keys))
	}
	lines = append(lines, missed+".")
	if l.Failures > 0 {
		lines = append(lines, "Redis could not be read for a while; what happened then is seen only by its result.")
	}
	if others := r.summary.Others; others > 0 {
		lines = append(lines, spaced(int64(others))+" events were of more locks than a summary can have.")
	}
	return lines
}

// watchJSON writes an object a line.
type watchJSON struct{ app *app }

func (j watchJSON) write(v any) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // nothing in it can fail
	fmt.Fprint(j.app.stdout, b.String())
}

func (j watchJSON) event(e *watch.Event) { j.write(e) }

func (j watchJSON) note(at time.Time, text string) {
	j.write(struct {
		Type    string `json:"type"`
		Time    string `json:"time"`
		Message string `json:"message"`
	}{"note", watch.Instant(at), harmless(text)})
}

// longestForm is the JSON form of the longest hold or wait of a lock.
type longestForm struct {
	For   int64        `json:"ms"`
	Party *watch.Party `json:"party"`
}

func longestOf(r watch.Record) *longestForm {
	if r.For <= 0 {
		return nil
	}
	return &longestForm{r.For.Milliseconds(), &r.Party}
}

// lockSummaryForm is the JSON form of the summary of a lock.
type lockSummaryForm struct {
	Lock         string       `json:"lock"`
	Acquisitions int          `json:"acquisitions"`
	Lost         int          `json:"lost"`
	GaveUp       int          `json:"gave_up"`
	LongestWait  *longestForm `json:"longest_wait,omitempty"`
	LongestHold  *longestForm `json:"longest_hold,omitempty"`
	Holders      int          `json:"holders"`
	Waiters      int          `json:"waiters"`
}

// watchSummaryForm is the JSON form of the summary, which is stable.
type watchSummaryForm struct {
	Type     string            `json:"type"`
	Time     string            `json:"time,omitempty"`
	Took     int64             `json:"took_ms"`
	Events   int               `json:"events"`
	Locks    []lockSummaryForm `json:"locks"`
	Looks    int               `json:"looks"`
	Every    int64             `json:"look_every_ms"`
	Longest  int64             `json:"longest_pause_ms"`
	Unseen   int64             `json:"unseen_below_ms"`
	Commands int64             `json:"commands"`
	Search   *searchForm       `json:"search,omitempty"`
}

type searchForm struct {
	Passes int    `json:"passes"`
	Took   int64  `json:"took_ms"`
	Keys   int64  `json:"keys"`
	Failed string `json:"failed,omitempty"`
}

func (j watchJSON) end(r *watchResult) {
	f := watchSummaryForm{
		Type: "summary", Took: r.took.Milliseconds(), Events: r.summary.Events, Locks: []lockSummaryForm{}, Looks: r.load.Looks,
		Every: r.load.Every.Milliseconds(), Longest: r.load.Longest.Milliseconds(), Unseen: r.load.Unseen().Milliseconds(), Commands: r.load.Commands,
	}
	if r.last != nil {
		f.Time = watch.Instant(r.last.At)
	}
	for _, l := range r.summary.Locks(r.last) {
		f.Locks = append(f.Locks, lockSummaryForm{l.Lock, l.Acquisitions, l.Lost, l.GaveUp, longestOf(l.LongestWait), longestOf(l.LongestHold), l.HoldersAtTheEnd, l.WaitersAtEnd})
	}
	if s := r.load.Search; s != nil {
		f.Search = &searchForm{Passes: s.Passes, Took: s.Took.Milliseconds(), Keys: s.Keys}
		if s.Err != nil {
			f.Search.Failed = concealed(plain(s.Err).Error())
		}
	}
	j.write(f)
}

// watchTrace writes a trace. What the other forms say at the end goes to stderr.
type watchTrace struct {
	app   *app
	trace *watch.Trace
}

func (t *watchTrace) event(e *watch.Event) { t.trace.Note(e) }

func (t *watchTrace) note(_ time.Time, text string) { t.app.say("%s", text) }

func (t *watchTrace) end(r *watchResult) {
	_ = t.trace.End(r.last) // a failure is noted by stdout
	t.app.say("watched for %v: %s; the trace opens in https://ui.perfetto.dev", duration.Round(r.took), counted(r.summary.Events, "event"))
	for _, line := range loadLines(r) {
		t.app.say("%s", line)
	}
}
