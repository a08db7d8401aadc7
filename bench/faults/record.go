package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/bench/rig"
)

// record is what a run has observed.
type record struct {
	Started  time.Time         `json:"started"`
	Seed     uint64            `json:"seed"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load"` // of the machine when the run began
	Go       string            `json:"go"`
	Server   string            `json:"server"`
	Versions map[string]string `json:"versions"`
	Settings map[string]string `json:"settings"`
	Results  []result          `json:"results"`
}

// result is a case of a row, with one system.
type result struct {
	Row     string          `json:"row"`
	System  string          `json:"system"`
	Case    string          `json:"case"`
	Trials  int             `json:"trials"`
	Hit     int             `json:"hit"` // trials that count
	Said    map[string]int  `json:"said"`
	Took    map[string]took `json:"took,omitempty"` // times in milliseconds
	Command string          `json:"command"`
}

type took struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
}

func newRecord(seed uint64, systems []*contender.System) (*record, error) {
	r := &record{
		Started: time.Now().UTC().Truncate(time.Second),
		Seed:    seed,
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Go:      runtime.Version(), Versions: map[string]string{}, Settings: map[string]string{},
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil { // only Linux has it
		r.Load = strings.TrimSpace(string(load))
	}
	version, err := exec.Command(rig.RedisProgram(), "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("redis-server (REDIS_SERVER_BIN names another): %w", err)
	}
	r.Server = strings.TrimSpace(string(version))
	for _, s := range systems {
		r.Settings[s.Name] = s.Setting
		if r.Versions[s.Name] = moduleVersion(s.Module); s.Version != nil {
			if r.Versions[s.Name], err = s.Version(); err != nil {
				return nil, err
			}
		}
	}
	r.Versions["go-redis"] = moduleVersion("github.com/redis/go-redis/v9")
	return r, nil
}

// moduleVersion returns the version of a module of this program.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "this one"
}

// summarize adds the outcomes of trials to r.
func (r *record) summarize(t *trials) {
	byCase := map[string][]outcome{}
	var order []string
	for _, o := range t.outcomes {
		if byCase[o.Case] == nil {
			order = append(order, o.Case)
		}
		byCase[o.Case] = append(byCase[o.Case], o)
	}
	command := t.command(r.Seed)
	for _, c := range order {
		result := result{
			Row: t.row.name, System: t.system.Name, Case: c, Said: map[string]int{}, Took: map[string]took{},
			Command: command,
		}
		times := map[string][]float64{}
		for _, o := range byCase[c] {
			if result.Trials++; !o.Hit {
				continue
			}
			result.Hit++
			result.Said[o.Said]++
			for what, ms := range o.Took {
				times[what] = append(times[what], ms)
			}
		}
		for what, ms := range times {
			slices.Sort(ms)
			result.Took[what] = took{len(ms), ms[len(ms)/2], ms[len(ms)-1]}
		}
		r.Results = append(r.Results, result)
	}
}

// vacuous names the results in which no trial counts.
func (r *record) vacuous() (names []string) {
	for _, res := range r.Results {
		if res.Hit == 0 {
			names = append(names, fmt.Sprintf("%s %s, %s", res.Row, res.System, res.Case))
		}
	}
	return names
}

// tables writes results as Markdown.
func (r *record) tables(w io.Writer, results []result) {
	for _, row := range rows {
		first := true
		for _, res := range results {
			if res.Row != row.name {
				continue
			}
			if first {
				fmt.Fprintf(w, "\n## %s: %s\n\n", strings.ToUpper(row.name), row.title)
				fmt.Fprint(w, "| case | system | counted | observed | median and largest; times in ms |\n|---|---|--:|---|---|\n")
				first = false
			}
			fmt.Fprintf(w, "| %s | %s | %d of %d | %s | %s |\n", res.Case, res.System, res.Hit, res.Trials, saidText(res.Said), tookText(res.Took))
		}
	}
}

// report writes the whole record as Markdown.
func (r *record) report(w io.Writer) {
	fmt.Fprintf(w, "# The same faults, one run\n\nWritten by `go run ./bench/faults`, from [run.json](run.json); [the page](../comparison.md) says what it means.\n\n")
	fmt.Fprintf(w, "%s, seed %d, %s, %s, %s; load of the machine before: %s.\n", r.Started.Format(time.DateOnly), r.Seed, r.Machine, r.Go, r.Server, r.Load)
	fmt.Fprint(w, "A trial counts if the fault hit what it was meant to hit.\n\n| system | version | used how |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(w, "| %s | %s | %s |\n", name, r.Versions[name], r.Settings[name])
	}
	results := slices.Clone(r.Results)
	slices.SortStableFunc(results, func(a, b result) int {
		return cmp.Or(slices.Index(caseOrder(r.Results), a.Row+a.Case)-slices.Index(caseOrder(r.Results), b.Row+b.Case), systemOrder(a)-systemOrder(b))
	})
	r.tables(w, results)
}

// caseOrder returns the cases in the order in which they first occur.
func caseOrder(results []result) (order []string) {
	for _, res := range results {
		if !slices.Contains(order, res.Row+res.Case) {
			order = append(order, res.Row+res.Case)
		}
	}
	return order
}

func systemOrder(r result) int {
	return slices.IndexFunc(contender.Systems, func(s *contender.System) bool { return s.Name == r.System })
}

func saidText(said map[string]int) string {
	var parts []string
	for _, text := range slices.SortedFunc(maps.Keys(said), func(a, b string) int {
		return cmp.Or(said[b]-said[a], strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", said[text], text))
	}
	return strings.Join(parts, "<br>")
}

func tookText(all map[string]took) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s: %.1f, %.1f", what, all[what].P50, all[what].Max))
	}
	return strings.Join(parts, "<br>")
}

// write writes the record and its report into a directory.
func (r *record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var report strings.Builder
	r.report(&report)
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(report.String()), 0o644)
}

func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &record{}
	return r, json.Unmarshal(text, r)
}

// merge replaces the results in r of the rows and systems that other has.
func (r *record) merge(other *record) {
	r.Results = slices.DeleteFunc(r.Results, func(old result) bool {
		return slices.ContainsFunc(other.Results, func(n result) bool { return n.Row == old.Row && n.System == old.System })
	})
	r.Results = append(r.Results, other.Results...)
	maps.Copy(r.Versions, other.Versions)
	maps.Copy(r.Settings, other.Settings)
}
