package dashboard

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/doctor"
)

const (
	// examineEvery is how often Redis is examined at most, while somebody looks at the findings; examineLimit is how
	// long that may take, and mostKeys how many keys it looks at.
	examineEvery, examineLimit, mostKeys = time.Minute, 40 * time.Second, 10_000
	// oldAfter is how old findings may be before they are shown as what was, not as what is.
	oldAfter = examineEvery + 15*time.Second
)

// examiner examines Redis for all browsers.
type examiner struct {
	runs sync.WaitGroup // the examination under way

	mu      sync.Mutex // guards the fields below
	running bool
	closed  bool
	began   time.Time
	at      time.Time // of the report, by Redis' clock
	report  *doctor.Report
}

// findings are what an examination of Redis has found.
type findings struct {
	At    string // empty if there was none yet
	Age   template.HTML
	Old   bool // they may not be true any more
	Cut   bool // Redis cannot be read, so it is not examined
	Worst string
	Note  string       // what is to be added to commands
	Rows  []findingRow // what is not in order, the worst first
	Fine  []findingRow
}

// findingRow is a finding.
type findingRow struct {
	Severity string
	Bad      bool
	IDs      string // what was looked at
	Where    string
	Found    string
	Do       string
	Command  string
}

// sameAs reports whether two findings differ only in what was looked at.
func (r findingRow) sameAs(other findingRow) bool {
	other.IDs = r.IDs
	return r == other
}

// findings returns what the last examination has found, and begins another one if that is long ago.
func (b *Dashboard) findings(p *pen) *findings {
	e := &b.examiner
	e.mu.Lock()
	defer e.mu.Unlock()
	cut := b.poller.state().Err != nil
	if p.scene.look != nil && !cut && !e.running && !e.closed && time.Since(e.began) >= examineEvery {
		e.running, e.began = true, time.Now()
		e.runs.Go(b.examine)
	}
	if e.report == nil {
		return &findings{Cut: cut}
	}
	f := &findings{At: p.Clock(e.at), Age: p.Age(e.at), Old: cut || p.now.Sub(e.at) > oldAfter, Cut: cut}
	for i := range e.report.Findings {
		f.add(b, p, &e.report.Findings[i])
	}
	f.Worst = "ok"
	slices.SortStableFunc(f.Rows, func(a, b findingRow) int { return cmp.Compare(ranks[a.Severity], ranks[b.Severity]) })
	if len(f.Rows) > 0 {
		f.Worst = f.Rows[0].Severity
	}
	return f
}

// add adds a finding, together with one that differs only in what was looked at.
func (f *findings) add(b *Dashboard, p *pen, one *doctor.Finding) {
	row := findingRow{string(one.Severity), one.Severity == doctor.Critical || one.Severity == doctor.Warning, one.ID, one.Server, one.Found, one.Do, one.Command}
	if one.ID == "deadlock" && row.Bad && !p.scene.inDeadlock(one.Names) {
		row = findingRow{Severity: string(doctor.Info), IDs: one.ID, Where: one.Server, Found: "there was a deadlock, which is over: " + one.Found}
	}
	if f.Old {
		row.Command = "" // it may be for what is gone
	}
	if row.Command != "" {
		f.Note = b.addressNote()
	}
	to := &f.Rows
	if one.Severity == doctor.OK {
		to = &f.Fine
	}
	*to = append(*to, row)
	if i := slices.IndexFunc(*to, row.sameAs); i < len(*to)-1 {
		(*to)[i].IDs += ", " + row.IDs
		*to = (*to)[:len(*to)-1]
	}
}

// ranks are the places of severities on the page.
var ranks = map[string]int{string(doctor.Critical): 1, string(doctor.Warning): 2, string(doctor.Unknown): 3, string(doctor.Info): 4}

// examine examines Redis once.
func (b *Dashboard) examine() {
	ctx, cancel := context.WithTimeout(b.poller.ctx, examineLimit)
	defer cancel()
	report, err := doctor.Examine(ctx, b.driver, &doctor.Options{
		Prefix: b.options.Prefix, Keys: mostKeys, Passed: []string{"resolve", "connect", "auth"}, Mortise: b.options.Mortise, RedisCLI: b.options.RedisCLI,
	})
	if err != nil && b.poller.closed() {
		report = nil
	}
	e := &b.examiner
	e.mu.Lock()
	e.running = false
	if report != nil {
		e.report, e.at = report, b.poller.clock()
	}
	e.mu.Unlock()
	b.poller.touch()
}

// end waits for the examination under way; none begins later. The poller must have been closed, which ends it.
func (e *examiner) end() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.runs.Wait()
}
