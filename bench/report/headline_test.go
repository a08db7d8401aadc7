package report

import (
	"math"
	"slices"
	"testing"
)

// A title says what the data say, whoever is better.
func TestHeadlines(t *testing.T) {
	handing := &series{growth: "processes", says: saysHandOvers, of: handOvers, tell: plain, more: true}
	waiting := &series{growth: "processes", says: saysWait, of: waitMax, tell: duration}
	for _, c := range []struct {
		what   string
		series *series
		at     map[string]map[int]Figures
		want   string
	}{
		{"mortise is better", handing, map[string]map[int]Figures{
			onRueidis: {2: {HandOvers: 90}, 4: {HandOvers: 8000}}, "slow": {2: {HandOvers: 80}, 4: {HandOvers: 1}}, "slower": {4: {HandOvers: 0.5}}, granted: {4: {HandOvers: 9999}},
		}, "With 4 processes, a lock is handed over 8,000 times a second with mortise, and 1 with slow, the best of the others"},
		{"another one is better", handing, map[string]map[int]Figures{onRueidis: {4: {HandOvers: 10}}, "fast": {4: {HandOvers: 20}}},
			"With 4 processes, a lock is handed over 10 times a second with mortise, and 20 with fast"},
		{"less is better", waiting, map[string]map[int]Figures{onRueidis: {4: {WaitMax: 2e6}}, "long": {4: {WaitMax: 2e9}}, "short": {4: {WaitMax: 3e6}}},
			"With 4 processes, the longest wait is 2 ms with mortise, and 3 ms with short, the best of the others"},
		{"the others were measured at a smaller size", handing, map[string]map[int]Figures{onRueidis: {2: {HandOvers: 5}, 4: {HandOvers: 10}}, "slow": {2: {HandOvers: 1}}},
			"With 2 processes, a lock is handed over 5 times a second with mortise, and 1 with slow"},
		{"the others got nothing done at the largest size", handing, map[string]map[int]Figures{onRueidis: {2: {HandOvers: 5}, 4: {HandOvers: 10}}, "slow": {2: {HandOvers: 1}, 4: {}}},
			"With 4 processes, a lock is handed over 10 times a second with mortise; slow finished no acquisition in time"},
		{"one of the others got nothing done", handing, map[string]map[int]Figures{onRueidis: {4: {HandOvers: 10}}, "slow": {4: {HandOvers: 1}}, "slower": {4: {}}},
			"With 4 processes, a lock is handed over 10 times a second with mortise, and 1 with slow"},
		{"the fair lock", handing, map[string]map[int]Figures{fairLock: {4: {HandOvers: 7}}, "Redisson fair": {4: {HandOvers: 1}}},
			"With 4 processes, a lock is handed over 7 times a second with mortise fair, and 1 with Redisson fair"},
		{"alone", handing, map[string]map[int]Figures{onRueidis: {2: {HandOvers: 5}, 4: {HandOvers: 6}}}, "With 4 processes, a lock is handed over 6 times a second with mortise"},
		{"without mortise", handing, map[string]map[int]Figures{"slow": {2: {HandOvers: 5}}}, ""},
	} {
		r := &Record{}
		for _, name := range []string{granted, "slow", "slower", "fast", "long", "short", "Redisson fair", onRueidis, onGoredis, fairLock} {
			r.Systems = append(r.Systems, System{Name: name, Limit: name == granted})
		}
		for _, n := range []int{2, 4} {
			name := map[int]string{2: "two", 4: "four"}[n]
			r.Cases = append(r.Cases, Case{Name: name, Growth: "processes", Size: n})
			for system, figures := range c.at {
				if f, ok := figures[n]; ok {
					r.Samples = append(r.Samples, sample(name, system, 0, f))
				}
			}
		}
		if got := r.headline(c.series, r.cases("processes")); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// Labels move no more than they must, keep their order, and stay where there is room.
func TestLabelsAreMovedApart(t *testing.T) {
	for _, c := range []struct {
		want, got []float64
	}{
		{nil, nil},
		{[]float64{5, 50}, []float64{5, 50}},
		{[]float64{50, 50}, []float64{45, 55}},
		{[]float64{50, 52, 90}, []float64{46, 56, 90}},
		{[]float64{50, 51, 52}, []float64{41, 51, 61}},
		{[]float64{0, 0}, []float64{0, 10}},
		{[]float64{100, 100}, []float64{90, 100}},
		{[]float64{0, 100, 100, 100}, []float64{0, 80, 90, 100}},
	} {
		if got := apart(c.want, 10, 0, 100); !slices.Equal(got, c.got) {
			t.Errorf("%v become %v, want %v", c.want, got, c.got)
		}
	}
}

func TestTicksAreFewAndRound(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      []float64
	}{
		{25, 200_000, []float64{100, 1000, 10_000, 100_000}},
		{2, 7, []float64{2, 5}},
		{40, 700, []float64{50, 100, 200, 500}},
		{0.5, 2e6, []float64{1, 100, 10_000, 1_000_000}},
	} {
		got := scaleOf(c.low, c.high, 0, 100).ticks()
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }) {
			t.Errorf("from %v to %v there are %v, want %v", c.low, c.high, got, c.want)
		}
	}
	for text, want := range map[string]string{"0.050": "0.05", "10": "10", "1.00 s": "1 s", "100 ms": "100 ms", "10,000": "10,000"} {
		if got := tick(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for x, want := range map[float64]string{0.031: "0.031", 67.24: "67.2", 999.6: "1,000", 1225: "1,225", 15_849: "15,800", 1_234_567: "1,230,000"} {
		if got := plain(x); got != want {
			t.Errorf("%v is shown as %q, want %q", x, got, want)
		}
	}
}
