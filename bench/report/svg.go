package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// The size of charts, in px. A page of GitHub shows as much in full.
const (
	chartWidth = 830
	edge       = 16 // around everything
	titleSize  = 15
	textSize   = 12
	lineHeight = 16
)

// palette has the colours of one theme.
type palette struct{ ground, title, text, grid, accent, peer, limit string }

// The palettes. A chart has its own ground, so it is readable on any page.
var (
	light = palette{"#ffffff", "#1f2328", "#59636e", "#d8dee4", "#0969da", "#818b98", "#59636e"}
	dark  = palette{"#0d1117", "#f0f6fc", "#9198a1", "#2a313c", "#4493f8", "#7d8590", "#9198a1"}
)

// graph is a chart as it is drawn: what all charts have in common, and the marks of one.
type graph struct {
	title, desc string
	height      int
	marks       strings.Builder
}

// style returns the rules of a palette.
func (p *palette) style() string {
	return fmt.Sprintf(`.g{fill:%s}text{fill:%s}.h{fill:%s}.x{stroke:%s}text.m{fill:%s}.t{stroke:%[1]s}`+
		`path.m{stroke:%[5]s}.d.m{fill:%[5]s}.o.m{stroke:%[5]s;fill:%[1]s}`+
		`path.p{stroke:%[6]s}.d.p{fill:%[6]s}.o.p{stroke:%[6]s;fill:%[1]s}`+
		`path.l{stroke:%[7]s}.d.l{fill:%[7]s}.o.l{stroke:%[7]s;fill:%[1]s}.e{stroke:%[6]s}`,
		p.ground, p.text, p.title, p.grid, p.accent, p.peer, p.limit)
}

const layoutStyle = `text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums}` +
	`.t{paint-order:stroke;stroke-width:5;stroke-linejoin:round}.h{font-size:15px;font-weight:600}text.m{font-weight:600}.r{text-anchor:end}.c{text-anchor:middle}` +
	`path,line{fill:none;stroke-width:1}path.s{stroke-width:1.5;stroke-linejoin:round}path.s.m{stroke-width:2.75}` +
	`path.s.l{stroke-dasharray:5 4}.o{stroke-width:1.75}.e{stroke-dasharray:1 3}`

// svg returns the file.
func (g *graph) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="t d">`+"\n", chartWidth, g.height)
	fmt.Fprintf(&b, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", escaped(g.title), escaped(g.desc))
	fmt.Fprintf(&b, "<style>\n%s\n%s\n@media(prefers-color-scheme:dark){%s}\n</style>\n", layoutStyle, light.style(), dark.style())
	fmt.Fprintf(&b, `<rect class="g" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, g.height)
	y := edge + titleSize
	for _, line := range wrapped(g.title, chartWidth-2*edge, titleSize) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="h">%s</text>`+"\n", edge, y, escaped(line))
		y += titleSize + 5
	}
	b.WriteString(g.marks.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// top returns where the marks begin, below the title.
func (g *graph) top() float64 {
	return edge + float64(len(wrapped(g.title, chartWidth-2*edge, titleSize))*(titleSize+5)) + 6
}

func (g *graph) add(format string, args ...any) { fmt.Fprintf(&g.marks, format+"\n", args...) }

// text writes a text whose baseline is at y; class may be "r" if it ends at x, or "c" if its middle is there.
func (g *graph) text(x, y float64, class, text string) {
	g.add(`<text x="%s" y="%s" class="%s">%s</text>`, px(x), px(y), strings.TrimSpace(class), escaped(text))
}

// rule writes a thin line.
func (g *graph) rule(class string, x1, y1, x2, y2 float64) {
	g.add(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

// mark writes a mark of one of a few shapes, so that lines of one grey can be told apart.
func (g *graph) mark(class string, shape int, x, y float64) {
	fill := "d"
	if shape >= len(shapes) {
		fill = "o" // outlined
	}
	g.add(`<path class="%s %s" d="M%s %s%s"/>`, fill, class, px(x), px(y), shapes[shape%len(shapes)])
}

// shapes are paths from the middle of a mark.
var shapes = []string{
	"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",                    // a circle
	"m-3.6 -3.6h7.2v7.2h-7.2z",                               // a square
	"m0 -5l5 5l-5 5l-5 -5z",                                  // a diamond
	"m0 -4.6l4.8 8.2h-9.6z",                                  // a triangle
	"m0 4.6l4.8 -8.2h-9.6z",                                  // one that stands on its tip
	"m-4.4 -1.5h2.9v-2.9h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9z", // a cross
}

// px formats a coordinate.
func px(x float64) string { return trimZeros(fmt.Sprintf("%.1f", math.Round(x*10)/10)) }

func trimZeros(s string) string { return strings.TrimSuffix(s, ".0") }

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}

// width returns how wide a text is at most, in px, in the fonts of common systems.
func width(text string, size float64) float64 {
	return float64(len([]rune(text))) * size * 0.6
}

// wrapped breaks a text into as few lines as fit, of about the same width.
func wrapped(text string, most, size float64) []string {
	lines := broken(text, most, size)
	for narrower := most - size; ; narrower -= size {
		if next := broken(text, narrower, size); len(next) == len(lines) && narrower > most/2 {
			lines = next
		} else {
			return lines
		}
	}
}

// broken breaks a text into lines that are no wider than most.
func broken(text string, most, size float64) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case width(line+" "+word, size) > most:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
