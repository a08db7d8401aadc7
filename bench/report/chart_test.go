package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// published is where the report of the last published run lies.
const published = "../../docs/performance"

// The published report and its charts are those of the published run: what they say follows from its figures.
func TestThePublishedReportIsThatOfTheRun(t *testing.T) {
	r, err := Read(filepath.Join(published, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Write(r, dir); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{"run.json": true}
	for _, file := range drawn {
		made[file.Name()] = true
		want, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(published, file.Name())); string(got) != string(want) {
			t.Errorf("%s is not that of the run (%v): go run ./bench report docs/performance/run.json", file.Name(), err)
		}
	}
	files, err := os.ReadDir(published)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !made[file.Name()] {
			t.Errorf("%s is of no run", file.Name())
		}
	}
}

// A document says of a chart what its title says.
func TestDocumentsSayWhatTheChartsSay(t *testing.T) {
	for document, want := range map[string]int{"../../docs/performance.md": 4} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`!\[([^\]]*)\]\((?:docs/)?performance/([^)]+\.svg)\)`).FindAllStringSubmatch(string(text), -1)
		if len(shown) < want {
			t.Errorf("%s shows %d charts, want %d", document, len(shown), want)
		}
		for _, match := range shown {
			svg, err := os.ReadFile(filepath.Join(published, match[2]))
			if err != nil {
				t.Fatal(err)
			}
			if title := parsed(t, string(svg)).title; title != match[1] {
				t.Errorf("%s says %q of %s, whose title is %q", document, match[1], match[2], title)
			}
		}
	}
}

// crowded is a run in which all systems are equal, so that all labels want one place, and in which names are
// long or strange.
func crowded() *Record {
	r := &Record{}
	for i := range 14 {
		name := fmt.Sprintf("lock <%d> & \"co\" with a long name", i)
		if i < 3 {
			name = "mortise/" + name
		}
		r.Systems = append(r.Systems, System{Name: name, Limit: i > 11})
	}
	for _, n := range []int{2, 4} {
		c := Case{Name: fmt.Sprintf("W4/%d", n), Workload: "W4", Main: true, Growth: "processes", Size: n, Title: "processes contend for one lock"}
		r.Cases = append(r.Cases, c)
		for _, s := range r.Systems {
			r.Samples = append(r.Samples, sample(c.Name, s.Name, 0, Figures{HandOvers: 1234, Sent: 2, WaitMax: 1e6}))
		}
	}
	return r
}

// drawings draws the charts of some runs, by their names.
func drawings(t *testing.T) map[string]*picture {
	t.Helper()
	run, err := Read(filepath.Join(published, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*picture)
	for name, r := range map[string]*Record{"published": run, "stored": stored(), "crowded": crowded()} {
		dir := t.TempDir()
		charts, err := r.charts(dir)
		if err != nil || len(charts) < 2 {
			t.Fatalf("%s: %d charts, %v", name, len(charts), err)
		}
		for _, c := range charts {
			text, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			all[name+"/"+c.File] = parsed(t, string(text))
		}
	}
	return all
}

// picture is a chart as it was drawn.
type picture struct {
	width, height float64
	title, desc   string
	texts         []placed
	classes       map[string]int // of marks and lines
}

// placed is a text and its place.
type placed struct {
	text, class            string
	left, right, top, base float64
}

// parsed reads a chart.
func parsed(t *testing.T, svg string) *picture {
	t.Helper()
	p := &picture{classes: make(map[string]int)}
	var at xml.StartElement
	for parser := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := parser.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			at = token.Copy()
			switch at.Name.Local {
			case "svg":
				p.width, p.height = number(t, at, "width"), number(t, at, "height")
			case "path", "line":
				p.classes[attribute(at, "class")]++
			}
		case xml.CharData:
			switch text := string(token); at.Name.Local {
			case "title":
				p.title = text
			case "desc":
				p.desc = text
			case "text":
				p.texts = append(p.texts, place(t, at, text))
			}
		case xml.EndElement:
			at = xml.StartElement{}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func number(t *testing.T, e xml.StartElement, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(attribute(e, name), 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, e, err)
	}
	return v
}

func place(t *testing.T, e xml.StartElement, text string) placed {
	t.Helper()
	x, y, size := number(t, e, "x"), number(t, e, "y"), float64(textSize)
	class := strings.Fields(attribute(e, "class"))
	if slices.Contains(class, "h") {
		size = titleSize
	}
	wide := width(text, size)
	switch {
	case slices.Contains(class, "r"):
		x -= wide
	case slices.Contains(class, "c"):
		x -= wide / 2
	}
	return placed{text, strings.Join(class, " "), x, x + wide, y - 0.8*size, y + 0.2*size}
}

// No text lies on another one, or reaches beyond the edge of its chart.
func TestTextsOfChartsDoNotOverlap(t *testing.T) {
	for name, p := range drawings(t) {
		for i, a := range p.texts {
			if a.left < 0 || a.right > p.width || a.top < 0 || a.base > p.height {
				t.Errorf("%s: %q reaches beyond the edge: %+v", name, a.text, a)
			}
			for _, b := range p.texts[:i] {
				if a.left < b.right && b.left < a.right && a.top < b.base && b.top < a.base {
					t.Errorf("%s: %q lies on %q", name, a.text, b.text)
				}
			}
		}
	}
}

// The one accent is mortise's, limits are dashed, and each system is named at its line.
func TestChartsShowMortiseFirst(t *testing.T) {
	for name, p := range drawings(t) {
		if p.title == "" || p.desc == "" {
			t.Errorf("%s has the title %q and the description %q", name, p.title, p.desc)
		}
		ours := 0
		for _, text := range p.texts {
			accent := slices.Contains(strings.Fields(text.class), "m")
			if isOurs := strings.HasPrefix(text.text, "mortise"); isOurs && !accent && !strings.Contains(text.class, "h") || accent && !isOurs && !strings.Contains(text.class, "t") {
				t.Errorf("%s: the text %q has the class %q", name, text.text, text.class)
			}
			if accent {
				ours++
			}
		}
		if ours == 0 || p.classes["d m"]+p.classes["o m"] == 0 {
			t.Errorf("%s: nothing of mortise is in the accent colour: %v", name, p.classes)
		}
	}
	if !strings.Contains(layoutStyle, "path.s.l{stroke-dasharray") {
		t.Error("the lines of limits are not dashed")
	}
}

// Texts can be read in both themes, and lines be seen.
func TestColoursHaveContrast(t *testing.T) {
	for name, p := range map[string]palette{"light": light, "dark": dark} {
		for what, pair := range map[string]struct {
			colour string
			least  float64
		}{"title": {p.title, 7}, "text": {p.text, 4.5}, "accent": {p.accent, 4.5}, "peer": {p.peer, 3}, "limit": {p.limit, 3}} {
			if got := contrast(t, pair.colour, p.ground); got < pair.least {
				t.Errorf("%s: the contrast of %s %s is %.2f, want %v", name, what, pair.colour, got, pair.least)
			}
		}
		if red, green, blue := channels(t, p.peer); math.Abs(red-blue) > 0.12 || math.Abs(red-green) > 0.12 {
			t.Errorf("%s: %s is not grey", name, p.peer)
		}
	}
}

// contrast is the contrast ratio of WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) float64 {
		linear := func(c float64) float64 {
			if c <= 0.04045 {
				return c / 12.92
			}
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		red, green, blue := channels(t, colour)
		return 0.2126*linear(red) + 0.7152*linear(green) + 0.0722*linear(blue)
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func channels(t *testing.T, colour string) (red, green, blue float64) {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("%s is no colour: %v", colour, err)
	}
	return float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255
}
