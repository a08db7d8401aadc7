package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// page writes the page of a proof from what is kept of its stages: in docs, or in bin/proof if some have not run at this commit.
func page(stages []stage) error {
	results, missing, err := recall(stages)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return fmt.Errorf("no stage of the proof has run at %s", commit())
	}
	file, err := writePage(results, missing)
	if err != nil {
		return err
	}
	fmt.Println("the page is", file)
	if len(missing) > 0 {
		fmt.Printf("docs/proof.md is written when these have run at this commit, too: %s\n", strings.Join(missing, ","))
	}
	return nil
}

func writePage(results []result, missing []string) (file string, err error) {
	file, title, which, root := "docs/proof.md", "The last proof", "which runs everything there is", ".."
	if len(missing) > 0 {
		file, title, which, root = "bin/proof/proof.md", "A part of the proof", "of which only these stages ran", "../.."
	}
	var took time.Duration
	for _, one := range results {
		took += one.took
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nWritten by `make proof`, %s; see [CONTRIBUTING.md](%s/CONTRIBUTING.md#how-tests-work-here).\n\n", title, which, root)
	fmt.Fprintf(&b, "Begun on %s, commit %s, in %v. %s.\n\n", begun(results).UTC().Format("2 January 2006"), commit(), took.Round(time.Second), machines(results))
	fmt.Fprintln(&b, "| stage | what it shows | result | passed | failed | time |\n|---|---|---|--:|--:|--:|")
	for _, one := range results {
		state := "green"
		if one.err != nil {
			state = "**red**"
		}
		if one.redBefore > 0 {
			state += fmt.Sprintf(", **red before**: %d", one.redBefore)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %v |\n", one.name, one.shows, state, one.Passed, one.Failed, one.took.Round(time.Second))
	}
	for _, one := range results {
		for _, line := range one.quoted {
			fmt.Fprintf(&b, "\n* %s: %s", one.name, line)
		}
	}
	writeMargins(&b, results)
	return file, os.WriteFile(file, b.Bytes(), 0o644)
}

// machines says on what the stages have run.
func machines(results []result) string {
	var all []string
	for _, one := range results {
		if !slices.Contains(all, one.machine) {
			all = append(all, one.machine)
		}
	}
	return strings.Join(all, "; ")
}

// writeMargins writes the bounds on real time that were used up the most. A promise that erodes shows here before
// it is broken.
func writeMargins(b *bytes.Buffer, results []result) {
	all := closest(results)
	fmt.Fprintf(b, "\n\n## Bounds on real time\n\n%d bounds were judged beside a canary; these were used up the most. \"Late\" is how late the machine itself was.\n\n", len(all))
	fmt.Fprintln(b, "| test | what | took | bound | used | late |\n|---|---|--:|--:|--:|--:|")
	for _, m := range all[:min(30, len(all))] {
		fmt.Fprintf(b, "| %s | %s | %v | %v | %.0f %% | %v |\n", m.test, m.what, m.took, m.bound, 100*m.used(), m.late)
	}
}

// margin is a bound as canary logs it.
type margin struct {
	test, what        string
	took, bound, late time.Duration
}

func (m margin) used() float64 { return float64(m.took) / float64(m.bound) }

var logged = regexp.MustCompile(`^(.+?): (.+): (\S+) of (\S+), the machine late by (\S+)$`)

// closest returns the margins of all results, of each test and promise the one that was used up the most, and of all
// those first.
func closest(results []result) (all []margin) {
	most := make(map[[2]string]margin)
	for _, one := range results {
		for _, line := range one.Margins {
			f := logged.FindStringSubmatch(line)
			if f == nil {
				continue
			}
			m := margin{test: f[1], what: f[2]}
			var errs [3]error
			m.took, errs[0] = time.ParseDuration(f[3])
			m.bound, errs[1] = time.ParseDuration(f[4])
			m.late, errs[2] = time.ParseDuration(f[5])
			if errs != [3]error{} || m.bound <= 0 {
				continue
			}
			if key := [2]string{m.test, m.what}; m.used() >= most[key].used() || most[key].bound == 0 {
				most[key] = m
			}
		}
	}
	for _, m := range most {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b margin) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(a.test, b.test), cmp.Compare(a.what, b.what))
	})
	return all
}

// machine says on what the proof has run.
func machine() string {
	model := "a processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if f := regexp.MustCompile(`model name\s*:\s*(.+)`).FindSubmatch(text); f != nil {
			model = string(f[1])
		}
	}
	redis, _, _ := strings.Cut(said("redis-server", "--version"), " sha")
	return fmt.Sprintf("%d CPUs (%s), %s, %s, %s", runtime.NumCPU(), model, said("uname", "-sr"), runtime.Version(), redis)
}

// said returns what a command prints, on one line.
func said(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return name + " unknown"
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
