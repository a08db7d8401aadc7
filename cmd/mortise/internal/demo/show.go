package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// narrator reports what happens, in a bounded number of lines: the first turns and those around the
// kill one by one, the others summed up.
type narrator struct {
	out     io.Writer
	palette palette
	start   time.Time
	lock    bool // whether there is a lock

	detail   int // turns that are still to be shown one by one
	asks     int // first requests that are still to be shown
	left     time.Time
	killed   time.Time
	waiting  map[int]bool
	detailed map[int]bool // turns in progress that are shown
	turns    map[int]int  // completed updates, by living worker
	total    int          // completed updates
	last     int          // the number that was written last
}

// How much is shown one by one.
const (
	detailAtStart = 3
	detailAtKill  = 2
	asksAtStart   = 4
)

func newNarrator(out io.Writer, p palette, workers int, lock bool) *narrator {
	s := &narrator{
		out: out, palette: p, lock: lock, detail: detailAtStart, asks: min(workers, asksAtStart),
		waiting: make(map[int]bool), detailed: make(map[int]bool), turns: make(map[int]int),
	}
	for n := range workers {
		s.turns[n+1] = 0
	}
	return s
}

// line writes what a participant did at a time.
func (s *narrator) line(at time.Time, who, format string, args ...any) {
	fmt.Fprintf(s.out, "%6.2fs  %s  %s\n", at.Sub(s.start).Seconds(), s.palette.name(who), fmt.Sprintf(format, args...))
}

// parent writes a line of the parent.
func (s *narrator) parent(format string, args ...any) { s.line(time.Now(), "demo", format, args...) }

// tell shows an event of a worker, if it is to be shown.
func (s *narrator) tell(e event) {
	who := fmt.Sprintf("worker-%d", e.Worker)
	switch e.What {
	case workerAsks:
		s.waiting[e.Worker] = true
		if s.asks > 0 && s.lock {
			s.asks--
			s.line(e.At, who, "asks for the lock")
		}
	case workerEnters:
		delete(s.waiting, e.Worker)
		s.enters(e, who)
	case workerStalls:
		s.line(e.At, who, "has the lock, has read %d, and stops right there, before it writes %d", e.Value, e.Value+1)
	case workerWrites:
		s.turns[e.Worker]++
		s.total++
		s.last = e.Value
		if s.detailed[e.Worker] {
			s.line(e.At, who, "has written %d%s", e.Value, s.then())
			delete(s.detailed, e.Worker)
		}
	case workerLeaves:
		s.left = e.At
	case workerLost:
		s.line(e.At, who, "%s: %s", s.palette.bad("lost its lease"), e.Text)
	case workerKilled:
		s.killed = e.At
		delete(s.turns, e.Worker)
		s.detail = detailAtKill
		s.line(e.At, who, "%s (SIGKILL): nobody is left to release the lock", s.palette.bad("is killed"))
	}
}

func (s *narrator) then() string {
	if s.lock {
		return ", releases"
	}
	return ""
}

func (s *narrator) enters(e event, who string) {
	if s.detail == 0 {
		return
	}
	s.detail--
	s.detailed[e.Worker] = true
	switch {
	case !s.lock:
		s.line(e.At, who, "begins an update, without asking")
	case !s.killed.IsZero():
		s.line(e.At, who, "%s, %s after the kill: the dead one's lease is over", s.palette.good("has the lock"), short(e.At.Sub(s.killed)))
		s.killed = time.Time{}
	case !s.left.IsZero():
		s.line(e.At, who, "has the lock, %s after the release", short(e.At.Sub(s.left)))
	default:
		s.line(e.At, who, "has the lock")
	}
}

// progress sums up the turns that were not shown.
func (s *narrator) progress() {
	turns := slices.Collect(maps.Values(s.turns))
	s.parent("%3d updates so far, %d to %d by each worker; the file says %d", s.total, slices.Min(turns), slices.Max(turns), s.last)
}

// palette colours words, or not.
type palette struct{ on bool }

func (p palette) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) good(text string) string { return p.paint("1;32", text) }

func (p palette) bad(text string) string { return p.paint("1;31", text) }

// name aligns and colours the name of a worker, the same way each time.
func (p palette) name(who string) string {
	text := fmt.Sprintf("%-9s", who)
	number := 0
	if _, err := fmt.Sscanf(who, "worker-%d", &number); err != nil {
		return p.paint("2", text)
	}
	return p.paint(fmt.Sprint(31+(number%6)), text)
}
