package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// tally is the evaluation of the events of a demonstration.
type tally struct {
	entered   int             // times that a worker entered
	written   []int           // every value that was written, in the order of the reports
	handOvers []time.Duration // see hand
	lost      []string        // leases that were lost, as reported by the workers
	crowd     int             // the most workers that were inside at the same time
	killed    int             // the worker that was killed; 0 if none was
	takeover  time.Duration   // from the kill to the next entry; -1 if there was none
}

// tallyOf evaluates events. Their order is that in which they happened; their times are used only
// for durations.
func tallyOf(events []event) tally {
	t := tally{takeover: -1}
	inside := make(map[int]bool)
	asked := make(map[int]time.Time) // the waiting workers, and since when
	var left, kill event             // the last of their kind
	for _, e := range events {
		switch e.What {
		case workerAsks:
			asked[e.Worker] = e.At
		case workerEnters:
			t.entered++
			inside[e.Worker] = true
			t.hand(left, e, asked[e.Worker])
			delete(asked, e.Worker)
			if t.killed != 0 && t.takeover < 0 {
				t.takeover = max(e.At.Sub(kill.At), 0)
			}
			t.crowd = max(t.crowd, len(inside))
		case workerWrites:
			t.written = append(t.written, e.Value)
		case workerLeaves:
			left = e
			delete(inside, e.Worker)
		case workerLost:
			t.lost = append(t.lost, fmt.Sprintf("worker-%d: %s", e.Worker, e.Text))
		case workerKilled:
			t.killed, kill, left = e.Worker, e, event{}
			delete(inside, e.Worker)
		}
	}
	return t
}

// hand records a hand-over: the time from the call of Unlock in one process to the return of Lock in
// another that was waiting for it.
func (t *tally) hand(left, entered event, asked time.Time) {
	if left.Worker != 0 && left.Worker != entered.Worker && asked.Before(left.At) {
		t.handOvers = append(t.handOvers, entered.At.Sub(left.At))
	}
}

// lostUpdates returns how many of the completed updates are missing in the file. It is negative if
// the file contains more.
func (t *tally) lostUpdates(final int) int { return len(t.written) - final }

// verdict returns nil if the file is exact, and a [VerdictError] otherwise. The file is exact if it
// says final, contains every update that a worker completed and nothing else; if each worker wrote
// a number that no other did; and if no two workers were inside together.
//
// The update of the killed worker is not complete: it was killed before it wrote.
func (t *tally) verdict(final int) error {
	var wrong []string
	lost := t.lostUpdates(final)
	switch {
	case len(t.written) == 0:
		wrong = append(wrong, "no worker completed an update")
	case lost > 0:
		wrong = append(wrong, fmt.Sprintf("%d of %d updates were lost", lost, len(t.written)))
	case lost < 0:
		wrong = append(wrong, fmt.Sprintf("the file says %d, but only %d updates were completed", final, len(t.written)))
	default:
		sorted := slices.Sorted(slices.Values(t.written))
		for i, v := range sorted {
			if v != i+1 {
				wrong = append(wrong, fmt.Sprintf("the workers should have written each number from 1 to %d once, but have not written %d", len(sorted), i+1))
				break
			}
		}
	}
	if t.crowd > 1 {
		wrong = append(wrong, fmt.Sprintf("%d workers were in the middle of an update at the same time", t.crowd))
	}
	if len(wrong) == 0 {
		return nil
	}
	return &VerdictError{strings.Join(wrong, "; ")}
}

// summarize writes the results, as a table. The lease is 0 if the workers had no lock.
func (t *tally) summarize(out io.Writer, p palette, final int, lease time.Duration) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-18s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	if lease > 0 {
		row("acquisitions", "%d", t.entered)
		if n := len(t.handOvers); n > 0 {
			slices.Sort(t.handOvers)
			row("hand-over", "p50 %s, max %s, from Unlock to Lock in a process that waited (%d times)",
				short(t.handOvers[n/2]), short(t.handOvers[n-1]), n)
		}
		if t.takeover >= 0 {
			row("take-over", "%s after the kill; the lease was %v", short(t.takeover), lease)
		}
		for _, text := range t.lost {
			row("lease lost", "%s", text)
		}
	}
	row("at the same time", "at most %d in the middle of an update", t.crowd)
	cut := ""
	if t.killed != 0 {
		cut = "; the killed one's last was not written"
	}
	row("file", "says %d; the workers completed %d updates%s", final, len(t.written), cut)
	switch lost := t.lostUpdates(final); {
	case lost > 0:
		row("lost updates", "%s", p.bad(fmt.Sprintf("%d of %d", lost, len(t.written))))
	case lost < 0:
		row("unknown updates", "%s", p.bad(fmt.Sprint(-lost)))
	default:
		row("lost updates", "%s", p.good("0"))
	}
}

// short formats d for readers.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}
