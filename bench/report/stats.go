package report

import (
	"math"
	"slices"
)

// Spread is a figure over rounds: median, minimum and maximum. N is the number of rounds with this
// figure.
type Spread struct {
	Median, Min, Max float64
	N                int
}

// NewSpread returns the spread of values.
func NewSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{Median: math.NaN(), Min: math.NaN(), Max: math.NaN()}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// figure selects one of the figures.
type figure func(*Figures) float64

// samples returns the samples of a system under a load, by round.
func (r *Record) samples(load, system string) (found []*Sample) {
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Case == load && s.System == system {
			found = append(found, s)
		}
	}
	return found
}

// Spread returns the spread of a figure of a system under a load.
func (r *Record) Spread(load, system string, of func(*Figures) float64) Spread {
	var values []float64
	for _, s := range r.samples(load, system) {
		if s.Figures != nil {
			values = append(values, of(s.Figures))
		}
	}
	return NewSpread(values)
}

// Ratio returns the spread of the ratio between a figure of two systems, each taken within a round.
func (r *Record) Ratio(load, system, to string, of func(*Figures) float64) Spread {
	base := make(map[int]float64)
	for _, s := range r.samples(load, to) {
		if s.Figures != nil {
			base[s.Round] = of(s.Figures)
		}
	}
	var ratios []float64
	for _, s := range r.samples(load, system) {
		if b := base[s.Round]; s.Figures != nil && b > 0 {
			ratios = append(ratios, of(s.Figures)/b)
		}
	}
	return NewSpread(ratios)
}

// best returns the named system with the highest median of a figure under a load; empty if none was
// measured.
func (r *Record) best(load string, systems []string, of func(*Figures) float64) (name string) {
	most := math.Inf(-1)
	for _, s := range systems {
		if m := r.Spread(load, s, of); m.N > 0 && m.Median > most {
			name, most = s, m.Median
		}
	}
	return name
}

// rounds returns how many rounds a load was run in.
func (r *Record) rounds(load string) (n int) {
	for _, s := range r.Samples {
		if s.Case == load {
			n = max(n, s.Round+1)
		}
	}
	return n
}

// measured returns the systems that were run under a load, in the order of the record.
func (r *Record) measured(load string) (names []string) {
	for _, s := range r.Systems {
		if len(r.samples(load, s.Name)) > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}
