package loadtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// Report is the result of a load test, as --json shows it. The names are part of the command's
// interface.
type Report struct {
	Server      string    `json:"server"`
	Prefix      string    `json:"prefix"`
	Concurrency int       `json:"concurrency"`
	RoundTrip   Spread    `json:"round_trip"`
	Alone       Cycle     `json:"alone"`    // one uncontended lock
	Own         Cycle     `json:"own_keys"` // as many uncontended locks as the concurrency, at a time
	One         Contended `json:"one_key"`  // contended by goroutines of one client
	Between     Contended `json:"clients"`  // contended by several clients
	Held        Held      `json:"held"`
	Waiting     Waiting   `json:"waiting"`
	Cost        *Cost     `json:"server_cost,omitempty"`
	NoCost      string    `json:"no_server_cost,omitempty"` // why there is none
	Meaning     []string  `json:"meaning"`
}

// Spread is a distribution of durations: the median, the 99th percentile, and the maximum.
type Spread struct {
	Half    float64 `json:"p50_ms"`
	Most    float64 `json:"p99_ms"`
	Longest float64 `json:"max_ms"`
}

// Cycle is the result of goroutines that acquire and release locks.
type Cycle struct {
	Goroutines int     `json:"goroutines"`
	Rate       float64 `json:"pairs_per_second"`
	Commands   float64 `json:"commands_per_pair"`
	Lock       Spread  `json:"lock"` // how long it takes to acquire
}

// Contended is the result of goroutines that contend for one lock.
type Contended struct {
	Cycle
	Clients   int     `json:"clients"`
	HandOvers float64 `json:"hand_overs_per_second"` // acquisitions after another goroutine's hold
	Across    float64 `json:"across_per_second"`     // hand-overs between clients
	Gap       Spread  `json:"hand_over"`             // from one client's unlock to another's lock; with one client, inside it
	Jain      float64 `json:"jain"`                  // over the goroutines
	Starved   int     `json:"starved"`               // goroutines that never acquired it
	Overlaps  int64   `json:"overlaps"`
}

// Held is the cost of keeping locks.
type Held struct {
	Locks   int     `json:"locks"`
	Lease   int64   `json:"lease_ms"`
	Rate    float64 `json:"commands_per_second"`
	Renewed float64 `json:"locks_per_command"`
}

// Waiting is the cost of waiting for a lock.
type Waiting struct {
	Waiters int     `json:"waiters"`
	Rate    float64 `json:"commands_per_second"`
}

// Cost is the cost of locks for the server, as it reports it.
type Cost struct {
	Version string  `json:"version"`
	Script  float64 `json:"cpu_us_per_script"`
	Busy    float64 `json:"cpu_busy"` // fraction of one processor, with as many locks as the concurrency
}

func spread(h *workload.Histogram) Spread {
	return Spread{Half: toMillis(h.Quantile(0.5)), Most: toMillis(h.Quantile(0.99)), Longest: toMillis(h.Max())}
}

func cycleOf(o outcome) Cycle {
	return Cycle{
		Goroutines: len(o.Counts), Rate: o.PerSecond(o.Acquisitions()), Commands: o.Per(float64(o.sent)), Lock: spread(&o.Waits),
	}
}

func contendedOf(o outcome, clients int) Contended {
	gaps := &o.Gaps
	if clients > 1 {
		gaps = &o.AcrossGap
	}
	return Contended{
		Cycle: cycleOf(o), Clients: clients,
		HandOvers: o.PerSecond(o.HandOvers), Across: o.PerSecond(o.Across), Gap: spread(gaps),
		Jain: o.Jain(), Starved: o.Starved(), Overlaps: o.Overlaps,
	}
}

// Overlaps returns how often two goroutines held one lock at the same time: any is a failure of
// mortise or of the server.
func (r *Report) Overlaps() int64 { return r.One.Overlaps + r.Between.Overlaps }

// conclude explains the figures.
func (t *loadTest) conclude() {
	t.seen.Meaning = t.seen.meaning()
	t.Print("\nWhat it means:")
	for _, line := range t.seen.Meaning {
		t.Print("- %s", wrapped(line, 100, "  "))
	}
}

// usualLease is the lease assumed in the explanations: the default.
const usualLease = 30 * time.Second

// meaning explains the figures to a user of locks.
func (r *Report) meaning() []string {
	lines := []string{
		fmt.Sprintf("An uncontended lock costs %s commands. Acquiring it takes %s (the median), and releasing it "+
			"about as long; a script that does nothing takes %s.",
			figure(r.Alone.Commands), ms(r.Alone.Lock.Half), ms(r.RoundTrip.Half)),
		fmt.Sprintf("%d goroutines that each use a lock of their own share one connection and acquire %s locks a second together, %s times as many as one.",
			r.Own.Goroutines, count(r.Own.Rate), figure(ratio(r.Own.Rate, r.Alone.Rate))),
	}
	if r.Cost != nil {
		lines = append(lines, fmt.Sprintf("The server (%s) spends %.0f µs of processor time on a command of mortise, including any other work meanwhile. "+
			"Redis runs scripts on one processor: at %s locks a second one server, or one shard of a cluster, is full.",
			r.Cost.Version, r.Cost.Script, count(ratio(1e6, r.Cost.Script*r.Own.Commands))))
	} else {
		lines = append(lines, "What a lock costs the server itself is not known: "+r.NoCost+".")
	}
	lines = append(lines,
		fmt.Sprintf("Goroutines of one process hand a lock off to each other, %s times a second with %s commands for each; with %d of them the longest wait was %s.",
			count(r.One.HandOvers), figure(r.One.Commands), r.One.Goroutines, ms(r.One.Lock.Longest)),
		fmt.Sprintf("Between %d clients a hand-over takes %s commands, and %s from one client's unlock to another's lock. "+
			"So 10 ms of work under one lock can be done %s times a second at most, whatever the number of processes.",
			r.Between.Clients, figure(r.Between.Commands), ms(r.Between.Gap.Half), count(1000/(10+r.Between.Gap.Half))),
	)
	if r.Held.Locks < MaxHeld/2 {
		lines = append(lines, fmt.Sprintf("In the given time, only %s could be held. To measure more, give it more time: mortise bench --time 2m", things(r.Held.Locks, "lock")))
	} else {
		lines = append(lines, fmt.Sprintf("One command renews %s locks. At leases of %v, 100,000 held locks would cost this server about %s commands a second.",
			count(r.Held.Renewed), usualLease, count(ratio(100_000/(usualLease.Seconds()/3), r.Held.Renewed))))
	}
	return append(lines, fmt.Sprintf("%d goroutines of one process that wait for a lock cost the server %s commands a second, all together; more of them cost it no more.",
		r.Waiting.Waiters, figure(r.Waiting.Rate)))
}

func toMillis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// ms formats a time in milliseconds for readers.
func ms(v float64) string { return figure(v) + " ms" }

// figure formats v with its significant digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return count(v)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v == 0:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// count formats a number in groups of three digits, rounded to two or three significant ones.
func count(v float64) string {
	if v < 10 {
		return figure(v)
	}
	unit := math.Pow(10, max(0, math.Floor(math.Log10(v))-2))
	digits := strconv.FormatFloat(math.Round(v/unit)*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// things returns a number of things, such as "1 lock" or "3 locks".
func things(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return strconv.Itoa(n) + " " + one
}

// asking says how many goroutines ask.
func asking(n int) string {
	if n == 1 {
		return "1 goroutine asks"
	}
	return things(n, "goroutine") + " ask"
}

// ratio is a/b, or 0 if that is not a number.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// wrapped breaks a text into lines of at most width bytes, all but the first indented.
func wrapped(text string, width int, indent string) string {
	var out strings.Builder
	length := 0
	for i, word := range strings.Split(text, " ") {
		if i > 0 && length+1+len(word) > width {
			out.WriteString("\n" + indent)
			length = 0
		} else if i > 0 {
			out.WriteByte(' ')
			length++
		}
		out.WriteString(word)
		length += len(word)
	}
	return out.String()
}
