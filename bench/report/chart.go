package report

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is a picture of the report.
type Chart struct {
	Title string
	About string // the load or series it belongs to
	File  string
}

// colours are those of Okabe and Ito, which colour-blind readers can distinguish; limits are grey.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x8c, 0x6d, 0x31, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

const (
	chartWidth  = 7.2 * vg.Inch
	chartHeight = 3.4 * vg.Inch
	legendWidth = 2.1 * vg.Inch
)

// charts draws all charts of a run into a directory.
func (r *Record) charts(dir string) ([]Chart, error) {
	var all []Chart
	for _, s := range allSeries {
		cases := r.cases(s.growth)
		if len(cases) < 2 {
			continue
		}
		c := Chart{Title: s.title, About: s.file, File: s.file + ".svg"}
		drawn, err := r.lines(s, cases, c, dir)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.File, err)
		}
		if drawn {
			all = append(all, c)
		}
	}
	for _, c := range r.Cases {
		if !c.Main || (c.Workload != "W3" && c.Workload != "W4") {
			continue
		}
		chart := Chart{
			Title: c.Name + ": hand-overs to others per second", About: c.Name,
			File: strings.NewReplacer("/", "-", "×", "x").Replace(c.Name) + "-handovers.svg",
		}
		if err := r.dots(c, chart, dir); err != nil {
			return nil, fmt.Errorf("chart %s: %w", chart.File, err)
		}
		all = append(all, chart)
	}
	return all, nil
}

// newPlot returns a plot on a white background, because the reader's page may be dark.
func newPlot(c Chart) *plot.Plot {
	plot.DefaultFont.Variant = "Sans" // of the font family that gonum includes
	p := plot.New()
	p.Title.Text = c.Title
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Title.Padding = vg.Points(6)
	p.BackgroundColor = color.White
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(9), vg.Points(9)
	return p
}

// lines draws a series, with both axes logarithmic. It reports false if there
// is nothing to draw.
func (r *Record) lines(s series, cases []Case, c Chart, dir string) (bool, error) {
	p := newPlot(c)
	p.X.Label.Text, p.Y.Label.Text = grows[s.growth], s.axis
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	var ticks []plot.Tick
	for _, k := range cases {
		ticks = append(ticks, plot.Tick{Value: float64(k.Size), Label: count(float64(k.Size))})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.Add(plotter.NewGrid())
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.YPosition = true, true, draw.PosCenter
	legend.TextStyle.Font.Size = vg.Points(9)
	legend.Padding = vg.Points(3)
	drawn := 0
	for i, system := range r.Systems {
		var points plotter.XYs
		for _, k := range cases {
			if m := r.Spread(k.Name, system.Name, s.of); m.N > 0 && m.Median > 0 {
				points = append(points, plotter.XY{X: float64(k.Size), Y: m.Median * s.scale})
			}
		}
		if len(points) < 2 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return false, err
		}
		line.Color = r.colour(i)
		line.Width = vg.Points(1.4)
		if strings.HasPrefix(system.Name, "mortise") {
			line.Width = vg.Points(2.8)
		}
		if system.Limit {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2.4)
		p.Add(line, dots)
		legend.Add(system.Name, line, dots)
		drawn++
	}
	if drawn == 0 {
		return false, nil
	}
	return true, save(filepath.Join(dir, c.File), func(canvas draw.Canvas) {
		p.Draw(draw.Crop(canvas, 0, -legendWidth, 0, 0))
		legend.Draw(draw.Crop(canvas, chartWidth-legendWidth+vg.Points(8), 0, 0, -vg.Points(24)))
	})
}

// colour returns the colour of the i-th system.
func (r *Record) colour(i int) color.Color {
	if r.Systems[i].Limit {
		return color.Gray{0x80}
	}
	n := 0
	for _, s := range r.Systems[:i] {
		if !s.Limit {
			n++
		}
	}
	return colours[n%len(colours)]
}

// dots draws a figure of all systems under one load. The axis is logarithmic, so bars would have no
// base line.
func (r *Record) dots(c Case, chart Chart, dir string) error {
	p := newPlot(chart)
	p.X.Label.Text = "hand-overs to others/s"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	var names []string
	for i := range slices.Backward(r.Systems) { // the axis starts at the bottom
		m := r.Spread(c.Name, r.Systems[i].Name, handOvers)
		if m.N == 0 || m.Median <= 0 {
			continue
		}
		dot, err := plotter.NewScatter(plotter.XYs{{X: m.Median, Y: float64(len(names))}})
		if err != nil {
			return err
		}
		dot.Color, dot.Shape, dot.Radius = r.colour(i), draw.CircleGlyph{}, vg.Points(4)
		p.Add(dot)
		names = append(names, r.Systems[i].Name)
	}
	if len(names) == 0 {
		return nil
	}
	p.NominalY(names...)
	p.Y.Padding = vg.Points(6)
	return save(filepath.Join(dir, chart.File), func(canvas draw.Canvas) { p.Draw(canvas) })
}

// save writes what draw draws as SVG.
func save(path string, drawing func(draw.Canvas)) error {
	svg := vgsvg.New(chartWidth, chartHeight)
	canvas := draw.New(svg)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	drawing(canvas)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = svg.WriteTo(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
