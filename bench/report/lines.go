package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// plotHeight is the height of the part of a chart in which lines are.
const plotHeight = 260

// labelGap is between the name and the value in a label.
const labelGap = "\u2002"

// curve is the line of one system.
type curve struct {
	system *System
	points []point
	none   []int // sizes at which it got nothing done
	shape  int
}

// lines draws how a figure grows, with both axes logarithmic. It returns nil if there is nothing to draw.
func (r *Record) lines(s *series) *graph {
	cases := r.cases(s.growth)
	curves := r.curves(s, cases)
	if len(cases) < 2 || len(curves) == 0 {
		return nil
	}
	g := &graph{title: cmp.Or(r.headline(s, cases), s.title), desc: s.described(curves)}
	low, high := math.Inf(1), math.Inf(-1)
	labels, largest := 0.0, cases[len(cases)-1].Size
	for _, c := range curves {
		for _, p := range c.points {
			low, high = min(low, p.value), max(high, p.value)
		}
		labels = max(labels, width(c.system.Name+labelGap+c.value(s, largest), textSize))
	}
	top := g.top() + lineHeight + 12
	x := scaleOf(float64(cases[0].Size), float64(largest), edge+58, chartWidth-edge-labels-26)
	y := scaleOf(low, high, top+plotHeight, top)
	g.height = int(top) + plotHeight + 58
	g.axes(s, cases, x, y)
	for _, c := range slices.Backward(curves) { // mortise's are drawn last, above others
		g.curve(c, x, y)
	}
	g.endLabels(s, curves, largest, x, y)
	return g
}

// curves returns the lines of a series, mortise's first. A system that was measured at one size only has a
// mark, if that is the largest one.
func (r *Record) curves(s *series, cases []Case) (curves []*curve) {
	shape := map[role]int{}
	for i := range r.Systems {
		system := &r.Systems[i]
		points, none := r.measuredAt(cases, system.Name, s.of)
		if len(points) == 0 || len(points) == 1 && points[0].size < float64(cases[len(cases)-1].Size) {
			continue
		}
		role := roleOf(system)
		curves = append(curves, &curve{system, points, none, shape[role]})
		shape[role]++
	}
	slices.SortStableFunc(curves, func(a, b *curve) int { return cmp.Compare(rank[roleOf(a.system)], rank[roleOf(b.system)]) })
	return curves
}

// rank is which lines lie above which.
var rank = map[role]int{ours: 0, peers: 1, limit: 2}

// axes draws the axes: their ticks, and what they are.
func (g *graph) axes(s *series, cases []Case, x, y scale) {
	g.text(edge, y.to-14, "", s.axis+logarithmic)
	for _, v := range y.ticks() {
		g.rule("x", x.from, y.at(v), x.to, y.at(v))
		g.text(x.from-8, y.at(v)+4, "r", tick(s.tell(v)))
	}
	for _, c := range cases {
		at := x.at(float64(c.Size))
		g.rule("x", at, y.from, at, y.from+5)
		g.text(at, y.from+19, "c", plain(float64(c.Size)))
	}
	g.text((x.from+x.to)/2, y.from+38, "c", grows[s.growth])
}

// tick formats a value at an axis, which is round.
func tick(text string) string {
	number, unit, _ := strings.Cut(text, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + unit)
}

// curve draws the line of a system.
func (g *graph) curve(c *curve, x, y scale) {
	class := string(roleOf(c.system))
	var path strings.Builder
	for i, p := range c.points {
		fmt.Fprintf(&path, "%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], px(x.at(p.size)), px(y.at(p.value)))
	}
	if len(c.points) > 1 {
		g.add(`<path class="s %s" d="%s"/>`, class, path.String())
	}
	for _, p := range c.points {
		g.mark(class, c.shape, x.at(p.size), y.at(p.value))
	}
}

// value returns what the label of a line says after the name: its last value, where that is if it is not at the
// largest size, and where there is none.
func (c *curve) value(s *series, largest int) string {
	last := c.points[len(c.points)-1]
	text := s.tell(last.value)
	if last.size < float64(largest) {
		text += " at " + plain(last.size)
	}
	if len(c.none) > 0 {
		text += ", none at " + plain(float64(c.none[len(c.none)-1]))
	}
	return text
}

// endLabels writes the name and the last value of each line to its right, below each other where lines end at
// nearly the same height.
func (g *graph) endLabels(s *series, curves []*curve, largest int, x, y scale) {
	end := func(c *curve) point { return c.points[len(c.points)-1] }
	curves = slices.Clone(curves)
	slices.SortStableFunc(curves, func(a, b *curve) int { return cmp.Compare(y.at(end(a).value), y.at(end(b).value)) })
	var want []float64
	for _, c := range curves {
		want = append(want, y.at(end(c).value))
	}
	column := x.to + 22
	for i, at := range apart(want, lineHeight, y.to, y.from) {
		c := curves[i]
		from := x.at(end(c).size) + 8
		g.add(`<path class="e" d="M%s %sL%s %sL%s %s"/>`, px(from), px(want[i]), px(max(from, x.to)), px(want[i]), px(column-4), px(at))
		class := ""
		if roleOf(c.system) == ours {
			class = "m"
		}
		g.text(column, at+4, class, c.system.Name+labelGap+c.value(s, largest))
	}
}

// described reports what the lines show, for those who do not see them.
func (s *series) described(curves []*curve) string {
	var all []string
	for _, c := range curves {
		var values []string
		for _, p := range c.points {
			values = append(values, s.tell(p.value)+" at "+plain(p.size))
		}
		for _, n := range c.none {
			values = append(values, "none at "+plain(float64(n)))
		}
		all = append(all, c.system.Name+": "+strings.Join(values, ", "))
	}
	return s.title + ", by the number of " + grows[s.growth] + ". " + strings.Join(all, "; ") + "."
}
