package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// page is where the tables stand, between these lines.
const (
	page  = "docs/servers.md"
	begin = "<!-- servers: written by `make servers` -->\n"
	end   = "<!-- end of servers -->\n"
)

// writeTable writes the table of the results that were kept to the page, and one of what servers lack. The
// rows of other servers stay as they are.
func writeTable() error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return errors.New(page + " has no place for the table of servers")
	}
	table, err := tableOf(servers, old)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(before+begin+table+"\n"+tableOfLacks()+end+after), 0o644)
}

func tableOf(all []server, old string) (string, error) {
	var b strings.Builder
	b.WriteString("| name | server | program | tests passed | it lacks (tests that fail for it) |\n|---|---|---|--:|---|\n")
	for _, s := range all {
		r, err := s.result()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.WriteString(rowOf(s.name, old))
		case err != nil:
			return "", err
		default:
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.name, r.Server, r.From, thousands(r.Passed), missing(r.Lacking))
		}
	}
	return b.String(), nil
}

// result returns the result of the last run.
func (s server) result() (r result, err error) {
	text, err := os.ReadFile(s.kept())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// rowOf returns the row of a table that begins with a name, or "".
func rowOf(name, table string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+name+" |") {
			return line
		}
	}
	return ""
}

// missing says what a server lacks, and how many tests fail for it.
func missing(counts map[string]int) string {
	var parts []string
	for _, l := range lacking {
		if n := counts[l.what]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d)", l.what, n))
		}
	}
	return strings.Join(parts, "; ")
}

// tableOfLacks says what mortise does on servers that lack something.
func tableOfLacks() string {
	var b strings.Builder
	b.WriteString("| a server that lacks | what mortise does |\n|---|---|\n")
	for _, l := range lacking {
		fmt.Fprintf(&b, "| %s | %s |\n", l.what, l.then)
	}
	return b.String()
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
