package report

import (
	"slices"
)

// series is a figure that may grow with another one.
type series struct {
	growth string
	title  string
	of     figure
	show   func(float64) string
	axis   string // of the figure, with its unit
	scale  float64
	file   string
}

// allSeries are all series, in the order in which they are shown.
var allSeries = []series{
	{"waiters", "Hand-overs to others/s", handOvers, count, "hand-overs to others/s", 1, "waiters-handovers"},
	{"waiters", "Commands per acquisition", sent, trim, "commands per acquisition", 1, "waiters-commands"},
	{"waiters", "Worst wait", waitMax, duration, "worst wait, ms", 1e-6, "waiters-wait"},
	{"processes", "Hand-overs to others/s", handOvers, count, "hand-overs to others/s", 1, "processes-handovers"},
	{"processes", "Commands per acquisition", sent, trim, "commands per acquisition", 1, "processes-commands"},
	{"processes", "Worst wait", waitMax, duration, "worst wait, ms", 1e-6, "processes-wait"},
	{"held", "Commands/s", sentRate, count, "commands/s", 1, "held-commands"},
	{"held", "Bytes per lock", bytesEach, count, "bytes per lock", 1, "held-bytes"},
	{"held", "Client CPU, cores", clientCPU, trim, "client CPU, cores", 1, "held-cpu"},
	{"queue", "Hand-overs to others/s", handOvers, count, "hand-overs to others/s", 1, "queue-handovers"},
	{"queue", "Commands per acquisition", sent, trim, "commands per acquisition", 1, "queue-commands"},
	{"queue", "Inner calls per acquisition", inner, trim, "inner calls per acquisition", 1, "queue-inner"},
	{"queue", "Server CPU per acquisition", serverEach, micros, "server CPU per acquisition, µs", 1, "queue-cpu"},
}

// grows names the growing quantity of a series.
var grows = map[string]string{
	"waiters":   "goroutines of one process that want one lock",
	"processes": "processes, of 8 goroutines each, that want one lock",
	"held":      "locks that one process holds and renews",
	"queue":     "waiters in the queue of a fair lock, from two processes",
}

// cases returns the cases of a series, the smallest first.
func (r *Record) cases(growth string) (found []Case) {
	for _, c := range r.Cases {
		if c.Growth == growth && r.rounds(c.Name) > 0 {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Case) int { return a.Size - b.Size })
	return found
}

// growth writes how cost grows.
func (p *page) growth(r *Record, charts []Chart) {
	begun := ""
	for _, s := range allSeries {
		cases := r.cases(s.growth)
		if len(cases) < 2 {
			continue
		}
		if begun == "" {
			p.say("## How cost grows\n")
		}
		if begun != s.growth {
			begun = s.growth
			p.say("### With the number of %s\n", grows[s.growth])
		}
		p.say("%s:\n", s.title)
		head := []string{""}
		for _, c := range cases {
			head = append(head, count(float64(c.Size)))
		}
		var rows [][]string
		for _, system := range r.Systems {
			row := []string{label(system.Name)}
			some := false
			for _, c := range cases {
				cell := r.cell(c, system.Name, column{of: s.of, show: s.show})
				some = some || cell != "–"
				row = append(row, cell)
			}
			if some {
				rows = append(rows, row)
			}
		}
		p.table(head, rows)
		p.charts(charts, s.file)
	}
}
