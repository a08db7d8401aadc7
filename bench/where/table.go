package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// section is the Markdown of a load.
func section(l *load, columns []*column, causes bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s\n\n", l.name, l.title)
	times(&b, l, columns)
	counts(&b, columns)
	commands(&b, columns)
	if causes {
		for _, c := range columns {
			caused(&b, c)
		}
	}
	for _, c := range columns {
		for _, name := range []string{"mutex", "block"} {
			waited(&b, name, c)
		}
	}
	return b.String()
}

// row is a row of a table.
type row struct {
	name  string
	value func(c *column) float64
}

// grid writes rows, with the difference between each system and the least that stands beside it. It
// leaves out the rows in which all are zero.
func grid(b *strings.Builder, head string, columns []*column, rows []row, digits int) {
	b.WriteString("| " + head + " |")
	line := "|---|"
	for i, c := range columns {
		b.WriteString(" " + c.system + " |")
		line += "--:|"
		if least(columns, i) != nil {
			b.WriteString(" more |")
			line += "--:|"
		}
	}
	b.WriteString("\n" + line + "\n")
	for _, r := range rows {
		if !slices.ContainsFunc(columns, func(c *column) bool { return fixed(r.value(c), digits) != "0" }) {
			continue
		}
		emphasis := ""
		if strings.HasPrefix(r.name, "**") {
			emphasis = "**"
		}
		b.WriteString("| " + r.name + " |")
		for i, c := range columns {
			v := r.value(c)
			b.WriteString(" " + emphasis + fixed(v, digits) + emphasis + " |")
			if from := least(columns, i); from != nil {
				b.WriteString(" " + emphasis + fixed(v-r.value(from), digits) + emphasis + " |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// least returns the column of the least that does the same as column i, nil if there is none.
func least(columns []*column, i int) *column {
	if columns[i].least == "" {
		return nil
	}
	return columns[i+1]
}

// times writes where the time goes.
func times(b *strings.Builder, l *load, columns []*column) {
	rows := []row{
		{"**server, CPU**", func(c *column) float64 { return c.user + c.sys }},
		{"scripts: the commands inside", func(c *column) float64 { return total(c.inner).usec }},
		{"scripts: Lua, and EVALSHA itself", func(c *column) float64 { return total(c.sent).usec - total(c.inner).usec }},
		{"user mode, without scripts: protocol, event loop", func(c *column) float64 { return c.user - total(c.sent).usec }},
		{"kernel: sockets, epoll", func(c *column) float64 { return c.sys }},
		{"**clients, CPU**", func(c *column) float64 { return c.client }},
	}
	for _, in := range order {
		rows = append(rows, row{string(in), func(c *column) float64 { return c.layerSum(in) }})
	}
	rows = append(rows,
		row{"**both, CPU**", func(c *column) float64 { return c.user + c.sys + c.client }},
		row{"**elapsed**", func(c *column) float64 { return c.elapsed }},
	)
	rows = append(rows, row{"CPUs in use, on average", func(c *column) float64 { return (c.user + c.sys + c.client) / c.elapsed }})
	digits := 1
	if columns[0].elapsed < 10 {
		digits = 2
	}
	grid(b, "µs per "+l.unit, columns, rows, digits)
}

// counts writes what does not depend on the machine, and how good the profile is.
func counts(b *strings.Builder, columns []*column) {
	grid(b, "count", columns, []row{
		{"commands sent", func(c *column) float64 { return total(c.sent).calls }},
		{"commands inside scripts", func(c *column) float64 { return total(c.inner).calls }},
		{"reads by the server", func(c *column) float64 { return c.reads }},
		{"writes by the server", func(c *column) float64 { return c.writes }},
		{"allocations", func(c *column) float64 { return c.mallocs }},
		{"bytes allocated", func(c *column) float64 { return c.bytes }},
		{"samples of the profile", func(c *column) float64 { return c.samples }},
	}, 2)
}

// commands lists the commands of the server, with the time of each by the server's clock.
func commands(b *strings.Builder, columns []*column) {
	some := false
	for _, c := range columns {
		if list := calls(c); list != "" {
			fmt.Fprintf(b, "- the server with *%s*: %s\n", c.system, list)
			some = true
		}
	}
	if some {
		b.WriteString("\n")
	}
}

// calls lists the commands that a server ran at least once in a hundred units.
func calls(c *column) string {
	var parts []string
	for _, commands := range []map[string]spent{c.sent, c.inner} {
		for _, name := range sorted(commands) {
			if s := commands[name]; s.calls >= 0.01 {
				parts = append(parts, fmt.Sprintf("%s %s %s µs", fixed(s.calls, 2), strings.ToUpper(name), fixed(s.usec, 2)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// caused writes on whose behalf the client's time was taken.
func caused(b *strings.Builder, c *column) {
	acting := []layer{library, drivers, scripts, hubs, watchdogs, manager, public, benchmark, rest}
	columns := []layer{sockets, threads, schedule, alloc, collect, timers, clock, mutexes, network}
	b.WriteString("| " + c.system + ", on behalf of | itself |")
	for _, in := range columns {
		b.WriteString(" " + string(in) + " |")
	}
	b.WriteString(" sum |\n|---|" + strings.Repeat("--:|", len(columns)+2) + "\n")
	for _, by := range acting {
		sum := c.costs[cost{by, by}]
		b.WriteString("| " + string(by) + " | " + fixed(sum, 2) + " |")
		for _, in := range columns {
			us := c.costs[cost{in, by}]
			sum += us
			b.WriteString(" " + fixed(us, 2) + " |")
		}
		b.WriteString(" " + fixed(sum, 2) + " |\n")
	}
	b.WriteString("\n")
}

// waited writes the places of a mutex or block profile.
func waited(b *strings.Builder, name string, c *column) {
	waits := c.waits[name]
	if len(waits) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s, %s profile | times | µs |\n|---|--:|--:|\n", c.system, name)
	for _, w := range waits {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", w.where, fixed(w.count, 3), fixed(w.us, 2))
	}
	b.WriteString("\n")
}

// fixed formats x with a number of decimal places, and zero without a sign.
func fixed(x float64, digits int) string {
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		return "0"
	}
	return text
}
