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
	top, lane    = 58, 30
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

// draw returns a picture of a demonstration: a line for each worker, with a bar for each of its turns.
func draw(log []event, workers int, start time.Time) []byte {
	c := &canvas{start: start}
	end, height := log[len(log)-1].At, top+workers*lane+56
	width := int(c.x(end)) + 48
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>mortise demo: %d processes take turns under one lock; one is killed while it holds it</title>
<style>
text{font:12px system-ui,sans-serif;fill:#57606a}.h{font-size:14px;font-weight:600;fill:#24292f}.k{fill:#cf222e;font-weight:600}.g{fill:#1a7f37;font-weight:600}
.m{text-anchor:middle}.b{fill:#fff}.l{stroke:#d0d7de}.t{fill:#0969da}.dead{fill:#cf222e;opacity:.3}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.h{fill:#f0f6fc}.b{fill:#0d1117}.l{stroke:#30363d}.t{fill:#4493f8}.k{fill:#ff7b72}.g{fill:#3fb950}}
</style>
<rect class="b" width="%d" height="%d" rx="6"/>
`, width, height, width, height, workers, width, height)
	t := tallyOf(log)
	c.text(16, 26, "h", "%d processes, one lock: %d turns, %d at a time", workers, t.entered, t.crowd)
	floor := top + workers*lane
	for s := 0; float64(s) <= end.Sub(start).Seconds(); s++ {
		x := left + second*s
		fmt.Fprintf(c, "<line class=\"l\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", x, x, top, floor)
		c.text(float64(x), floor+18, "m", "%d s", s)
	}
	for n := 1; n <= workers; n++ {
		y := top + (n-1)*lane
		c.text(16, y+17, "", "worker-%d", n)
		c.turns(log, n, y)
	}
	c.kill(log, floor)
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

// kill explains the kill, and what follows.
func (c *canvas) kill(log []event, floor int) {
	var killed, next, stalls event
	for _, e := range log {
		switch {
		case e.What == workerStalls:
			stalls = e
		case e.What == workerKilled:
			killed = e
		case e.What == workerEnters && killed.Worker != 0 && next.Worker == 0:
			next = e
		}
	}
	y := top + (killed.Worker-1)*lane
	from, to := c.x(killed.At), c.x(next.At)
	fmt.Fprintf(c, "<rect class=\"dead\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"20\"/>\n", from, y+3, to-from)
	c.text((c.x(stalls.At)+from)/2, top-10, "m", "it stops; its lease is renewed")
	c.text(from, floor+38, "k m", "worker-%d is killed", killed.Worker)
	c.text((from+to)/2, top-10, "m", "its lease runs out")
	c.text(to, floor+38, "g", "worker-%d has it %s later", next.Worker, short(next.At.Sub(killed.At)))
}
