package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the name of the report in its directory.
const File = "report.md"

// Write writes the report of a run and its charts into a directory, which must exist. It needs only
// the record.
func Write(r *Record, dir string) error {
	charts, err := r.charts(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, File), []byte(r.Markdown(charts)), 0o644)
}

// page is a text under construction.
type page struct{ strings.Builder }

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table writes a table: the first column is text, the others are numbers.
func (p *page) table(head []string, rows [][]string) {
	p.say("| %s |", strings.Join(head, " | "))
	p.say("|---|%s", strings.Repeat("--:|", len(head)-1))
	for _, row := range rows {
		p.say("| %s |", strings.Join(row, " | "))
	}
	p.say("")
}

// Markdown returns the report of a run. It shows the given charts.
func (r *Record) Markdown(charts []Chart) string {
	p := &page{}
	p.say("# mortise compared with other locks\n")
	p.say("Measured on %s, in %s. The systems ran one after the other, each in fresh processes against a fresh server, in a different "+
		"order in every round. A figure is the median of the rounds, followed by the lowest and the highest (number of rounds: %s). "+
		"*× limit* is the ratio to the limit of the workload in the same round. **Only figures of one run can be compared**; those of another "+
		"machine differ.\n", r.Began.Format("2006-01-02"), length(r.Took), r.roundsText())
	p.goals(r)
	p.environment(r)
	explained := map[string]bool{}
	for _, c := range r.Cases {
		if c.Main {
			p.load(r, c, !explained[c.shape()])
			p.charts(charts, c.Name)
			explained[c.shape()] = true
		}
	}
	p.growth(r, charts)
	return p.String()
}

// length formats the duration of a run.
func length(seconds float64) string {
	if seconds < 100 {
		return fmt.Sprintf("%.0f seconds", seconds)
	}
	return fmt.Sprintf("%.0f minutes", seconds/60)
}

// roundsText describes the number of rounds.
func (r *Record) roundsText() string {
	var counts []int
	for _, c := range r.Cases {
		if n := r.rounds(c.Name); c.Main && !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(counts), " ", " or "), "[]")
}

func (p *page) goals(r *Record) {
	goals := r.Goals()
	if len(goals) == 0 {
		return
	}
	met := 0
	var rows [][]string
	for _, g := range goals {
		verdict := "**missed**"
		if g.Met {
			met++
			verdict = "met"
		}
		rows = append(rows, []string{g.Case + ": " + g.System, g.Text, g.Shown, verdict})
	}
	p.say("## The goals of mortise\n")
	p.say("%d of %d are met in this run.\n", met, len(goals))
	p.table([]string{"", "goal", "here", ""}, rows)
}

func (p *page) environment(r *Record) {
	e := r.Environment
	p.say("## Machine and systems\n")
	pinned := "processes of W1 share one CPU"
	if !e.Pinned {
		pinned = "processes cannot be pinned here, W1 ran on all CPUs"
	}
	p.say("%s, %d CPUs, %s of memory; %s; %s; %s. mortise %s. Load before the run: %s; %s.\n",
		orUnknown(e.CPU), e.Cores, orUnknown(e.Memory), orUnknown(e.Kernel), orUnknown(e.Redis), e.Go, orUnknown(e.Mortise), orUnknown(e.Load), pinned)
	p.say("| system | made of | settings |\n|---|---|---|")
	for _, s := range r.Systems {
		p.say("| %s | %s | %s |", s.Name, s.Version, s.Settings)
	}
	p.say("")
	for _, m := range r.Missing {
		p.say("Not run: %s.\n", m)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// load writes the table of one load, and explains its workload if nothing before has.
func (p *page) load(r *Record, c Case, explain bool) {
	p.say("## %s: %s\n", c.Name, c.Title)
	explanation := ""
	if explain {
		explanation = about[c.shape()] + " "
	}
	p.say("%sWindow: %s; rounds: %d.\n", explanation, c.Window, r.rounds(c.Name))
	p.figures(r, c)
}

func (p *page) figures(r *Record, c Case) {
	head := []string{""}
	for _, col := range columns[c.shape()] {
		head = append(head, col.title)
	}
	var rows [][]string
	for _, name := range r.measured(c.Name) {
		row := []string{label(name)}
		for _, col := range columns[c.shape()] {
			row = append(row, r.cell(c, name, col))
		}
		rows = append(rows, row)
	}
	p.table(head, rows)
	for _, remark := range r.remarks(c.Name) {
		p.say("- %s", remark)
	}
	if len(r.remarks(c.Name)) > 0 {
		p.say("")
	}
}

// label formats the name of a system: mortise's stand out.
func label(name string) string {
	if strings.HasPrefix(name, "mortise") {
		return "**" + name + "**"
	}
	if strings.HasPrefix(name, "raw") || strings.HasPrefix(name, "limit") {
		return "*" + name + "*"
	}
	return name
}

// cell formats one figure of one system.
func (r *Record) cell(c Case, system string, col column) string {
	s := r.Spread(c.Name, system, col.of)
	if col.ratio {
		s = r.Ratio(c.Name, system, c.Limit, col.of)
	}
	switch {
	case s.N == 0:
		return "–"
	case s.N == 1 || !col.spread || s.Min == s.Max:
		return col.show(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", col.show(s.Median), col.show(s.Min), col.show(s.Max))
}

// remarks reports the failures under a load.
func (r *Record) remarks(load string) (remarks []string) {
	for _, name := range r.measured(load) {
		failed, hung, broken, idle := int64(0), 0, 0, 0
		failure, breakage := "", ""
		for _, s := range r.samples(load, name) {
			if s.Figures == nil {
				broken++
				breakage = s.Error
				continue
			}
			if s.Goroutines > 0 && s.Acquisitions == 0 {
				idle++
			}
			failed += s.Failures
			hung += s.Hung
			if s.Failure != "" {
				failure = s.Failure
			}
		}
		if broken > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %d of %d rounds gave no figures: %s",
				name, broken, len(r.samples(load, name)), line(breakage)))
		}
		if idle > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: in %d of %d rounds nobody had a lock in the whole window",
				name, idle, len(r.samples(load, name))))
		}
		if failed > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %d attempts failed, and were repeated: %s", name, failed, line(failure)))
		}
		if hung > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %d goroutines did not end within 5 s of being told to", name, hung))
		}
	}
	return remarks
}

// line makes a text one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }

func (p *page) charts(charts []Chart, about string) {
	for _, c := range charts {
		if c.About == about {
			p.say("![%s](%s)\n", c.Title, c.File)
		}
	}
}
