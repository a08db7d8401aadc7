package report

import "math"

// scale maps values to a coordinate, by their logarithms.
type scale struct{ low, high, from, to float64 }

// scaleOf returns a scale that has room for the values from low to high, and for a margin beside them.
func scaleOf(low, high, from, to float64) scale {
	low, high = math.Log10(low), math.Log10(high)
	margin := max(0.04*(high-low), 0.04)
	return scale{low - margin, high + margin, from, to}
}

func (s scale) at(value float64) float64 {
	return s.from + (math.Log10(value)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// ticks returns the powers of ten in the scale, every other one if there are many; with their doubles and
// fives if there are few.
func (s scale) ticks() (values []float64) {
	first, last := int(math.Ceil(s.low)), int(math.Floor(s.high))
	step := 1
	if last-first >= 6 {
		step = 2
	}
	for e := first; e <= last; e += step {
		values = append(values, math.Pow10(e))
	}
	if len(values) > 1 {
		return values
	}
	values = nil
	for e := first - 1; e <= last+1; e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow10(e); math.Log10(v) >= s.low && math.Log10(v) <= s.high {
				values = append(values, v)
			}
		}
	}
	return values
}

// apart moves positions, which must not descend, apart so that they are gap or more from each other, between
// low and high if they fit there. It moves them as little as possible in all.
func apart(want []float64, gap, low, high float64) []float64 {
	type block struct {
		sum float64
		n   int
	}
	var blocks []block
	for i, w := range want {
		blocks = append(blocks, block{w - float64(i)*gap, 1})
		for len(blocks) > 1 {
			a, b := blocks[len(blocks)-2], blocks[len(blocks)-1]
			if a.sum/float64(a.n) <= b.sum/float64(b.n) {
				break
			}
			blocks = append(blocks[:len(blocks)-2], block{a.sum + b.sum, a.n + b.n})
		}
	}
	var at []float64
	for _, b := range blocks {
		for range b.n {
			base := b.sum / float64(b.n)
			base = max(low, min(base, high-float64(len(want)-1)*gap))
			at = append(at, base+float64(len(at))*gap)
		}
	}
	return at
}
