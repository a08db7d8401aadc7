package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mortise-go/mortise/doctor"
)

// reportColumns is the width of a report.
const reportColumns = 100

// writeReport writes a report for people: a line for what is in order, and of the rest what to do.
func writeReport(w io.Writer, r *doctor.Report) {
	counts := make(map[doctor.Severity]int)
	group := doctor.Group("")
	for _, f := range gathered(r.Findings) {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(w, "%s\n", group)
		}
		writeFinding(w, &f)
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Accepted && f.Severity != doctor.OK {
			counts["accepted"]++
		} else {
			counts[f.Severity]++
		}
	}
	if len(r.Fixed) > 0 {
		fmt.Fprintln(w, "fixed")
		for _, f := range r.Fixed {
			fmt.Fprintf(w, "  %s  %s: %s\n", f.ID, shown(f.Name), harmless(f.Did))
		}
	}
	fmt.Fprintln(w, countsText(counts))
}

// countsText says how many findings there are of each severity, the worst first.
func countsText(counts map[doctor.Severity]int) string {
	var parts []string
	for _, severity := range []doctor.Severity{doctor.Critical, doctor.Warning, doctor.Unknown, doctor.Info, "accepted", doctor.OK} {
		if n := counts[severity]; n > 0 {
			word := string(severity)
			if severity == doctor.Warning && n > 1 { // the only one that is a noun
				word += "s"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(parts, ", ")
}

// gathered returns findings for people: what is unknown for one and the same reason is reported once, with all ids.
func gathered(findings []doctor.Finding) (list []doctor.Finding) {
	first := make(map[string]int)
	for _, f := range findings {
		reason := f.Found + f.Do + f.Command
		if i, ok := first[reason]; ok && f.Severity == doctor.Unknown && !f.Accepted {
			if !slices.Contains(strings.Split(list[i].ID, ", "), f.ID) {
				list[i].ID += ", " + f.ID
			}
			continue
		}
		first[reason] = len(list)
		list = append(list, f)
	}
	return list
}

func writeFinding(w io.Writer, f *doctor.Finding) {
	const indent = "            "
	text := f.Found
	if f.Server != "" {
		text = f.Server + ": " + text
	}
	mark := string(f.Severity)
	if f.Severity == doctor.Warning || f.Severity == doctor.Critical {
		mark = strings.ToUpper(mark)
	}
	if f.Severity != doctor.OK {
		text += " [" + f.ID + "]"
	}
	fmt.Fprintf(w, "  %-8s  %s\n", mark, indented(harmless(text), indent))
	if f.Severity == doctor.OK {
		return
	}
	if f.Accepted {
		fmt.Fprintf(w, "%saccepted\n", indent)
		return
	}
	if f.Do != "" {
		fmt.Fprintf(w, "%s%s\n", indent, indented(harmless(f.Do), indent))
	}
	for line := range strings.Lines(f.Command) {
		fmt.Fprintf(w, "%s$ %s\n", indent, harmless(strings.TrimSuffix(line, "\n")))
	}
}

// indented breaks a text into lines, with an indent before all but the first.
func indented(text, indent string) string {
	return strings.ReplaceAll(wrapped(text, reportColumns-len(indent), 0), "\n", "\n"+indent)
}
