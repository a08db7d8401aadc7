package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// rowHeight is the height of the row of a system.
const rowHeight = 22

// row is the figure of one system.
type row struct {
	system *System
	value  float64
}

// dots draws the hand-overs of all systems under one load, the most first. The axis is logarithmic, so bars would
// have no base line. It returns nil if there is nothing to draw.
func (r *Record) dots(c Case) *graph {
	s := &series{says: saysHandOvers, of: handOvers, show: count, tell: plain, more: true}
	var rows []row
	low, high, names := math.Inf(1), math.Inf(-1), 0.0
	var told []string
	for i := range r.Systems {
		system := &r.Systems[i]
		if m := r.Spread(c.Name, system.Name, s.of); m.N > 0 && m.Median > 0 {
			rows = append(rows, row{system, m.Median})
			low, high, names = min(low, m.Median), max(high, m.Median), max(names, width(system.Name, textSize))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.value, a.value) })
	for _, row := range rows {
		told = append(told, row.system.Name+": "+plain(row.value))
	}
	g := &graph{title: c.Title, desc: "Hand-overs to other goroutines per second. " + strings.Join(told, "; ") + "."}
	if own, other, _ := r.rivals(c.Name, s); own != "" {
		g.title = "With " + strings.NewReplacer(" contend for one lock", "", "processes with", "processes of").Replace(c.Title) + ", " + r.compared(s, c.Name, own, other)
	}
	top := g.top() + 4
	bottom := top + rowHeight*float64(len(rows))
	x := scaleOf(low, high, edge+names+20, chartWidth-edge-60)
	g.height = int(bottom) + 58
	for _, v := range x.ticks() {
		g.rule("x", x.at(v), top, x.at(v), bottom)
		g.text(x.at(v), bottom+18, "c", tick(plain(v)))
	}
	g.text((x.from+x.to)/2, bottom+38, "c", axisHandOvers+logarithmic)
	for i, row := range rows {
		y := top + rowHeight*(float64(i)+0.5)
		class, text := string(roleOf(row.system)), ""
		shape := 0
		switch roleOf(row.system) {
		case ours:
			text = " m"
		case limit:
			shape = len(shapes) // outlined
		}
		g.text(x.from-12, y+4, "r"+text, row.system.Name)
		g.mark(class, shape, x.at(row.value), y)
		g.text(x.at(row.value)+10, y+4, "t"+text, plain(row.value))
	}
	return g
}
