//go:build proof

package demo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var picture = flag.String("picture", "", "run a whole demonstration, and draw it to this file")

// The picture of the README shows every turn of a demonstration. To draw it anew: make picture.
func TestPicture(t *testing.T) {
	out := &watched{}
	c := Config{Workers: 3, Duration: 4 * time.Second, Out: out, Command: workerProgram}
	if *picture != "" {
		c.Workers, c.Duration = 4, 8*time.Second
	}
	d := newDemonstration(c)
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	svg := draw(d.log, c.Workers, d.show.start)
	decoder, turns, killed := xml.NewDecoder(bytes.NewReader(svg)), 0, 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				turns += strings.Count(a.Value, "M") * strings.Count(a.Name.Local, "d")
				killed += strings.Count(a.Value, "dead")
			}
		}
	}
	if want := tallyOf(d.log).entered; turns != want || killed != 1 {
		t.Errorf("the picture has %d turns and %d kills, want %d and 1\n%s", turns, killed, want, svg)
	}
	if *picture != "" {
		if err := os.WriteFile(*picture, svg, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes are in %s", len(svg), *picture)
	}
}

// Where things are in the picture.
const (
	left, second = 84, 86 // of time 0; a second's width
	top, lane    = 70, 30
)

// canvas is a picture of a demonstration.
type canvas struct {
	bytes.Buffer
	start time.Time
}

func (c *canvas) x(at time.Time) float64 { return left + second*at.Sub(c.start).Seconds() }

func (c *canvas) text(x float64, y int, class, format string, args ...any) {
	fmt.Fprintf(c, "<text x=\"%.0f\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, fmt.Sprintf(format, args...))
}

// The colours of the two themes of a page: ground, titles, lines, turns, the kill, the next turn, texts in bars.
const (
	light = `.b{fill:#fff}text.h{fill:#1f2328}.l{stroke:#d8dee4}.t{fill:#0969da}text.k,.dead{fill:#cf222e}line.k{stroke:#cf222e}` +
		`text.n{fill:#1a7f37}line.n{stroke:#1a7f37}text.i{fill:#fff}text.o{fill:#1f2328}`
	dark = `text{fill:#9198a1}.b{fill:#0d1117}text.h{fill:#f0f6fc}.l{stroke:#2a313c}.t{fill:#4493f8}text.k,.dead{fill:#ff7b72}line.k{stroke:#ff7b72}` +
		`text.n{fill:#3fb950}line.n{stroke:#3fb950}text.i{fill:#0d1117}text.o{fill:#f0f6fc}`
)

// draw returns a picture of a demonstration: a line for each worker, with a bar for each of its turns.
func draw(log []event, workers int, start time.Time) []byte {
	c := &canvas{start: start}
	end, height := log[len(log)-1].At, top+workers*lane+32
	width := int(c.x(end)) + 48
	t := tallyOf(log)
	killed, next := kill(log)
	title := fmt.Sprintf("%d turns of %d processes, %d at a time; after a kill, the next turn comes %s later",
		t.entered, workers, t.crowd, short(next.At.Sub(killed.At)))
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#59636e}.h{font-size:15px;font-weight:600}.m{text-anchor:middle}.k,.n{font-weight:600}
line{stroke-width:1}line.k,line.n{stroke-width:1.5}.dead{opacity:.25}
%s
@media(prefers-color-scheme:dark){%s}
</style>
<rect class="b" width="%d" height="%d" rx="6"/>
`, width, height, width, height, title, light, dark, width, height)
	c.text(16, 28, "h", "%s", title)
	floor := top + workers*lane
	for s := 0; float64(s) <= end.Sub(start).Seconds(); s++ {
		x := left + second*s
		fmt.Fprintf(c, "<line class=\"l\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", x, x, top, floor)
		c.text(float64(x), floor+16, "m", "%d s", s)
	}
	for n := 1; n <= workers; n++ {
		y := top + (n-1)*lane
		c.text(16, y+17, "", "worker-%d", n)
		c.turns(log, n, y)
	}
	c.kill(log, killed, next, floor)
	c.WriteString("</svg>\n")
	return c.Bytes()
}

// turns draws the turns of a worker, each as wide as it lasted.
func (c *canvas) turns(log []event, worker, y int) {
	fmt.Fprintf(c, "<path class=\"t\" d=\"")
	var entered time.Time
	for _, e := range log {
		if e.Worker != worker {
			continue
		}
		switch e.What {
		case workerEnters:
			entered = e.At
		case workerLeaves, workerKilled:
			fmt.Fprintf(c, "M%.1f %dh%.1fv20h-%.1fz", c.x(entered), y+3, c.x(e.At)-c.x(entered), c.x(e.At)-c.x(entered))
		}
	}
	c.WriteString("\"/>\n")
}

// kill returns the kill, and the first turn after it.
func kill(log []event) (killed, next event) {
	for _, e := range log {
		switch {
		case e.What == workerKilled:
			killed = e
		case e.What == workerEnters && killed.Worker != 0 && next.Worker == 0:
			next = e
		}
	}
	return killed, next
}

// kill explains the kill, and what follows.
func (c *canvas) kill(log []event, killed, next event, floor int) {
	var stalls event
	for _, e := range log {
		if e.What == workerStalls {
			stalls = e
		}
	}
	y := top + (killed.Worker-1)*lane
	from, to := c.x(killed.At), c.x(next.At)
	fmt.Fprintf(c, "<rect class=\"dead\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"20\"/>\n", from, y+3, to-from)
	c.text((c.x(stalls.At)+from)/2, y+17, "m i", "stands still, and is renewed")
	c.text((from+to)/2, y+17, "m o", "its lease runs out")
	for _, mark := range []struct {
		class string
		x     float64
	}{{"k", from}, {"n", to}} {
		fmt.Fprintf(c, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", mark.class, mark.x, mark.x, top-6, floor)
	}
	c.text(from, top-12, "k m", "worker-%d is killed", killed.Worker)
	c.text(to-6, top-12, "n", "worker-%d has the lock", next.Worker)
}
