package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string
	Elapsed                       float64
}

// test is one test or, without a name, what a package prints outside of tests.
type test struct{ pkg, name string }

func (t test) String() string {
	pkg := strings.TrimPrefix(strings.TrimPrefix(t.pkg, module), "/")
	return strings.TrimSpace(cmp.Or(pkg, "mortise") + " " + t.name)
}

const module = "github.com/mortise-go/mortise"

// report is what is known of a run.
type report struct {
	out      io.Writer
	terminal bool
	args     []string // of go test
	begin    time.Time

	stall time.Duration                                // how long a package may stand still
	quit  func()                                       // ends the run, with the goroutines of its tests
	kill  func()                                       // ends it if that does not
	heard time.Time                                    // when go test printed something
	moved map[string]time.Time                         // when something began or ended in a package that runs
	cpu   func(pkg string) (got, waited time.Duration) // how long its processes have run, and stood in line for a processor; 0 if that is not known
	spent map[string]spent                             // that when something had last begun or ended
	still string                                       // the package that stands still

	printed map[test][]string   // by tests that have not passed
	over    map[test]bool       // tests that have ended
	since   map[test]time.Time  // of those that run
	passed  map[string]int      // by package
	took    map[test]float64    // seconds, of tests without subtests
	parts   map[test]bool       // whether a test has subtests
	bad     map[string][]test   // failed and skipped, by package; the package itself if none of its tests is
	above   map[test]bool       // those that have such parts
	skipped map[test]bool       // those of them that were skipped
	builds  map[string][]string // what the compiler or vet printed first, by package
	unbuilt map[string]string   // the package that was not built, by package that needs it, as each needs itself
	margins []string            // of bounds on real time, as canary logs them
}

func newReport(out io.Writer, terminal bool) *report {
	now := time.Now()
	return &report{
		out: out, terminal: terminal, begin: now,
		stall: time.Minute, quit: func() {}, kill: func() {}, heard: now, moved: make(map[string]time.Time),
		cpu: func(string) (got, waited time.Duration) { return 0, 0 }, spent: make(map[string]spent),
		printed: make(map[test][]string), over: make(map[test]bool), since: make(map[test]time.Time), passed: make(map[string]int),
		took: make(map[test]float64), parts: make(map[test]bool), bad: make(map[string][]test), above: make(map[test]bool), skipped: make(map[test]bool),
		builds: make(map[string][]string), unbuilt: make(map[string]string),
	}
}

// follow reads events until there are no more, and shows progress meanwhile.
func (r *report) follow(in io.Reader) {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for b := bufio.NewReader(in); ; {
			line, err := b.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	every := 5 * time.Second
	if r.terminal {
		every = time.Second / 5
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			r.line(line)
			continue
		case <-tick.C:
		}
		for waits := true; waits; { // what was printed before the tick comes before its verdict
			select {
			case line, more := <-lines:
				if !more {
					return
				}
				r.line(line)
			default:
				waits = false
			}
		}
		if time.Since(looked) > every+2*time.Second { // this process stood still, and knows nothing of the tests
			for pkg := range r.moved {
				r.moved[pkg] = time.Now()
			}
		}
		looked = time.Now()
		r.standsStill()
		r.progress()
	}
}

// line takes a line that go test has printed.
func (r *report) line(line []byte) {
	r.heard = time.Now()
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		r.println(strings.TrimRight(string(line), "\n"))
		return
	}
	r.note(e)
}

func (r *report) note(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.println(strings.TrimRight(e.Output, "\n"))
		pkg, line := ofBuild(e.ImportPath), strings.TrimSpace(e.Output)
		if said := r.builds[pkg]; len(said) < 5 && !strings.HasPrefix(line, "# ") && !slices.Contains(said, line) { // with its tests, and without
			r.builds[pkg] = append(said, line)
		}
	case "output":
		r.output(t, e.Output)
		return // a test that prints may print for ever
	case "start", "run", "cont":
		r.since[t] = time.Now()
		delete(r.over, t) // it runs again, with -count
		if i := strings.LastIndexByte(t.name, '/'); i >= 0 {
			delete(r.since, test{t.pkg, t.name[:i]}) // it waits for its parts
		}
	case "pause":
		delete(r.since, t)
	case "pass", "fail", "skip":
		delete(r.since, t)
		if e.Test == "" {
			r.ended(t, e)
			return
		}
		r.testEnded(t, e)
	}
	if e.Package != "" {
		r.moved[e.Package] = time.Now()
	}
}

// output takes a line that t has printed.
func (r *report) output(t test, line string) {
	if _, margin, is := strings.Cut(line, canary.Margin); is {
		r.margins = append(r.margins, t.String()+": "+strings.TrimSpace(margin))
	}
	if r.over[t] { // go test takes what the program prints, as its goroutines, for the output of the test that printed last
		t.name = ""
	}
	if t.name != "" || !ofGoTest(line) {
		r.printed[t] = bounded(append(r.printed[t], line))
	}
}

// standsStill ends the run if a package stands still.
func (r *report) standsStill() {
	for pkg, at := range r.moved {
		if r.still == "" && r.isStill(pkg, at) {
			r.still = pkg
			r.println(fmt.Sprintf("%s stands still: nothing has begun or ended in it for %v. The run ends, with its goroutines", test{pkg, ""}, time.Since(at).Truncate(r.stall)))
			r.quit()
			r.heard = time.Now()
		}
	}
	if r.still != "" && time.Since(r.heard) > 10*time.Second { // all goroutines were printed, or there is nobody to do so
		r.kill()
	}
}

// spent is how long the processes of a package had run when it was looked at first after something had begun or ended at that time.
type spent struct {
	at          time.Time
	got, waited time.Duration
}

const (
	asleep    = 60 // a package that neither runs nor stands in line for this part of the time sleeps
	mostStall = 10 // of the times that a package may stand still, for one that the machine leaves no time to
)

// isStill reports whether nothing has begun or ended in a package since then for too long. A package that has work to do, and gets no
// processor to do it because others have them, does not stand still before it has had one for as long as it may.
func (r *report) isStill(pkg string, since time.Time) bool {
	got, waited := r.cpu(pkg)
	was := r.spent[pkg]
	if was.at != since {
		was = spent{since, got, waited}
		r.spent[pkg] = was
	}
	idle := time.Since(since)
	ran, wanted := got-was.got, got-was.got+waited-was.waited
	switch {
	case idle < r.stall:
		return false
	case got == 0, wanted < idle/asleep, idle >= mostStall*r.stall: // nobody knows, it waits for something, or there is no end
		return true
	}
	return ran >= r.stall
}

// ofBuild returns the package of what go test builds: the package, with its tests or without, or its tests outside it.
func ofBuild(path string) string {
	pkg, _, _ := strings.Cut(path, " ")
	return strings.TrimSuffix(pkg, "_test")
}

// bounded leaves out the middle of what a test that never stops has printed.
func bounded(lines []string) []string {
	const first, last = 20_000, 5_000
	if len(lines) < first+2*last {
		return lines
	}
	return append(append(lines[:first:first], "[lines left out]\n"), lines[len(lines)-last:]...)
}

// ofGoTest reports whether go test itself prints the line, to sum a package up.
func ofGoTest(line string) bool {
	for _, prefix := range []string{"PASS\n", "FAIL\n", "ok  \t", "FAIL\t", "?   \t", "exit status ", "coverage: ", "\t" + module} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

func (r *report) testEnded(t test, e event) {
	r.over[t] = true
	r.took[t] = e.Elapsed
	for i, c := range t.name { // a test that has parts only waits for them
		if c == '/' {
			r.took[test{t.pkg, t.name[:i]}] = 0
			r.parts[test{t.pkg, t.name[:i]}] = true
		}
	}
	if r.parts[t] {
		r.took[t] = 0
	}
	if e.Action == "pass" {
		r.passed[t.pkg]++
		delete(r.printed, t)
		return
	}
	r.skipped[t] = e.Action == "skip"
	r.noteBad(t)
}

// noteBad notes that a test has not passed.
func (r *report) noteBad(t test) {
	r.bad[t.pkg] = append(r.bad[t.pkg], t)
	for i, c := range t.name {
		if c == '/' {
			r.above[test{t.pkg, t.name[:i]}] = true
		}
	}
}

// ended shows how a package has ended.
func (r *report) ended(t test, e event) {
	delete(r.moved, t.pkg)
	defer delete(r.printed, t)
	if e.Action == "skip" {
		return // it has no tests
	}
	if e.FailedBuild != "" {
		r.unbuilt[t.pkg] = ofBuild(e.FailedBuild)
		r.noteBad(t)
		r.println(fmt.Sprintf("FAIL  %-34s not built", t))
		return
	}
	if e.Action == "fail" {
		for other := range r.since { // what was not ended when the package was: it panicked, or took too long
			if other.pkg == t.pkg && other.name != "" {
				r.noteBad(other)
				delete(r.since, other)
			}
		}
		if len(r.bad[t.pkg]) == 0 {
			r.noteBad(t)
		}
	}
	bad := r.bad[t.pkg]
	slices.SortStableFunc(bad, func(a, b test) int { return strings.Compare(a.name, b.name) })
	r.println(strings.TrimRight(strings.Join(r.printed[t], ""), "\n"))
	for _, one := range bad {
		if one != t {
			r.println(strings.TrimRight(strings.Join(r.printed[one], ""), "\n"))
		}
	}
	line := fmt.Sprintf("%-34s %6.1fs %5d passed", t, e.Elapsed, r.passed[t.pkg])
	if len(bad) == 0 {
		r.println("ok    " + line)
		return
	}
	r.println(fmt.Sprintf("FAIL  %s, %d not", line, len(r.listed(t.pkg))))
}

// progress shows what is running.
func (r *report) progress() {
	what := "compiling"
	var oldest test
	for t, since := range r.since {
		if deeper := len(t.name) > len(oldest.name) && strings.HasPrefix(t.name, oldest.name); oldest.pkg == "" ||
			t.name != "" && (oldest.name == "" || deeper || since.Before(r.since[oldest])) {
			oldest = t
		}
	}
	if oldest.pkg != "" {
		what = oldest.String()
	}
	passed, failed := r.counts()
	line := fmt.Sprintf("%4.0fs  %d passed, %d failed; %s", time.Since(r.begin).Seconds(), passed, failed, what)
	if !r.terminal {
		fmt.Fprintln(r.out, line)
		return
	}
	fmt.Fprintf(r.out, "\r\x1b[K%.*s", 100, line)
}

// println prints a line above the one that shows progress.
func (r *report) println(line string) {
	if line == "" {
		return
	}
	if r.terminal {
		fmt.Fprint(r.out, "\r\x1b[K")
	}
	fmt.Fprintln(r.out, line)
}

// finish sums up, and reports whether all is well.
func (r *report) finish() bool {
	for pkg := range r.moved { // they were killed before go test could say how they ended
		r.ended(test{pkg, ""}, event{Action: "fail", Package: pkg})
	}
	slow := slices.SortedFunc(maps.Keys(r.took), func(a, b test) int { return cmp.Compare(r.took[b], r.took[a]) })
	var slowest []string
	for _, t := range slow[:min(5, len(slow))] {
		slowest = append(slowest, fmt.Sprintf("%s %.1fs", t.name, r.took[t]))
	}
	if len(slowest) > 0 {
		r.println("slowest: " + strings.Join(slowest, ", "))
	}
	for _, f := range r.failures() {
		r.println("not passed: " + f.name)
		for _, line := range f.more {
			r.println("            " + line)
		}
	}
	passed, failed := r.counts()
	r.println(fmt.Sprintf("%d passed, %d failed in %.1fs", passed, failed, time.Since(r.begin).Seconds()))
	return failed == 0
}
