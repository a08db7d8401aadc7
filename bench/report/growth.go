package report

import (
	"slices"
)

// series is a figure that may grow with another one.
type series struct {
	growth string
	title  string
	says   string // what a value means, in a sentence
	of     figure
	show   func(float64) string // in tables
	tell   func(float64) string // in charts
	axis   string               // of the figure, with its unit
	more   bool                 // more is better
	file   string
}

// What values mean.
const (
	saysHandOvers = "a lock is handed over %s times a second"
	saysCommands  = "an acquisition takes %s commands"
	saysWait      = "the longest wait is %s"
	saysRenewals  = "renewing them takes %s commands a second"
	saysBytes     = "each takes %s bytes"
	saysCores     = "the client needs %s cores"
	saysInner     = "an acquisition takes %s commands inside scripts"
	saysReads     = "a lock is acquired %s times a second for reading"
	saysWrites    = "a lock is acquired %s times a second for writing"
	saysWriteWait = "the longest wait of the writer is %s"
	saysAcquired  = "permits are acquired %s times a second"
	saysPair      = "a pair takes %s commands"
	saysPairCPU   = "a pair takes %s of the CPU of all shards"
	saysServer    = "an acquisition takes %s of the server's CPU"
)

// The axes of figures.
const (
	axisHandOvers = "hand-overs to other goroutines per second"
	axisCommands  = "commands per acquisition"
	axisWait      = "longest wait"
	axisAcquired  = "acquisitions per second"
	logarithmic   = ", logarithmic"
)

// allSeries are all series, in the order in which they are shown.
var allSeries = []series{
	{"waiters", "Hand-overs to others/s", saysHandOvers, handOvers, count, plain, axisHandOvers, true, "waiters-handovers"},
	{"waiters", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "waiters-commands"},
	{"waiters", "Worst wait", saysWait, waitMax, duration, duration, axisWait, false, "waiters-wait"},
	{"processes", "Hand-overs to others/s", saysHandOvers, handOvers, count, plain, axisHandOvers, true, "processes-handovers"},
	{"processes", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "processes-commands"},
	{"processes", "Worst wait", saysWait, waitMax, duration, duration, axisWait, false, "processes-wait"},
	{"readers", "Reads/s", saysReads, reads, count, plain, "acquisitions to read per second", true, "readers-reads"},
	{"readers", "Writes/s", saysWrites, writes, count, plain, "acquisitions to write per second", true, "readers-writes"},
	{"readers", "A writer's longest wait", saysWriteWait, writeMax, duration, duration, axisWait, false, "readers-write-wait"},
	{"readers", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "readers-commands"},
	{"permit processes", "Acquisitions/s", saysAcquired, perSecond, count, plain, axisAcquired, true, "permit-processes-acquisitions"},
	{"permit processes", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "permit-processes-commands"},
	{"permit processes", "Longest wait", saysWait, waitMax, duration, duration, axisWait, false, "permit-processes-wait"},
	{"permit waiters", "Acquisitions/s", saysAcquired, perSecond, count, plain, axisAcquired, true, "permit-waiters-acquisitions"},
	{"permit waiters", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "permit-waiters-commands"},
	{"permit waiters", "Longest wait", saysWait, waitMax, duration, duration, axisWait, false, "permit-waiters-wait"},
	{"held", "Commands/s", saysRenewals, sentRate, count, plain, "commands per second", false, "held-commands"},
	{"held", "Bytes per lock", saysBytes, bytesEach, count, plain, "bytes per lock", false, "held-bytes"},
	{"held", "Client CPU, cores", saysCores, clientCPU, trim, trim, "CPU of the client, in cores", false, "held-cpu"},
	{"shards", "Commands per pair", saysPair, sent, trim, plain, "commands per pair", false, "shards-commands"},
	{"shards", "Server CPU per pair", saysPairCPU, serverEach, micros, micros, "CPU of all shards per pair", false, "shards-cpu"},
	{"queue", "Hand-overs to others/s", saysHandOvers, handOvers, count, plain, axisHandOvers, true, "queue-handovers"},
	{"queue", "Commands per acquisition", saysCommands, sent, trim, plain, axisCommands, false, "queue-commands"},
	{"queue", "Inner calls per acquisition", saysInner, inner, trim, plain, "commands inside scripts, per acquisition", false, "queue-inner"},
	{"queue", "Server CPU per acquisition", saysServer, serverEach, micros, micros, "CPU of the server per acquisition", false, "queue-cpu"},
}

// grows names the growing quantity of a series.
var grows = map[string]string{
	"waiters":          "goroutines of one process that want one lock",
	"processes":        "processes, of 8 goroutines each, that want one lock",
	"readers":          "readers beside one writer, in several processes",
	"permit processes": "processes that want 8 permits, of 512 goroutines in all",
	"permit waiters":   "goroutines that want 8 permits, in 8 processes",
	"held":             "locks that one process holds and renews",
	"shards":           "shards",
	"queue":            "waiters in the queue of a fair lock, from two processes",
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
