package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Chart is a picture of the report.
type Chart struct {
	Title string // a sentence that says what is seen
	About string // the load or series it belongs to
	File  string
}

// charts draws all charts of a run into a directory.
func (r *Record) charts(dir string) ([]Chart, error) {
	var all []Chart
	draw := func(about, file string, g *graph) error {
		if g == nil {
			return nil
		}
		c := Chart{Title: g.title, About: about, File: file + ".svg"}
		if err := os.WriteFile(filepath.Join(dir, c.File), []byte(g.svg()), 0o644); err != nil {
			return fmt.Errorf("chart %s: %w", c.File, err)
		}
		all = append(all, c)
		return nil
	}
	for i := range allSeries {
		s := &allSeries[i]
		if err := draw(s.file, s.file, r.lines(s)); err != nil {
			return nil, err
		}
	}
	for _, c := range r.Cases {
		if !c.Main || (c.Workload != "W3" && c.Workload != "W4") {
			continue
		}
		file := strings.NewReplacer("/", "-", "×", "x").Replace(c.Name) + "-handovers"
		if err := draw(c.Name, file, r.dots(c)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// role is what a system is in a chart. It decides how its marks and labels look.
type role string

const (
	ours  role = "m" // mortise: the one accent
	peers role = "p" // other locks: grey
	limit role = "l" // what is possible: dashed
)

func roleOf(s *System) role {
	switch {
	case s.Limit:
		return limit
	case strings.HasPrefix(s.Name, "mortise"):
		return ours
	}
	return peers
}

// point is a median that was measured.
type point struct{ size, value float64 }

// measuredAt returns the medians of a figure of a system under these loads, and the sizes of loads under
// which the figure was 0: then the system got nothing done.
func (r *Record) measuredAt(cases []Case, system string, of figure) (points []point, none []int) {
	for _, c := range cases {
		switch m := r.Spread(c.Name, system, of); {
		case m.N == 0:
		case m.Median > 0:
			points = append(points, point{float64(c.Size), m.Median})
		default:
			none = append(none, c.Size)
		}
	}
	return points, none
}
