package dashboard

import "time"

// histogram shows how long the last acquisitions of a lock have waited.
type histogram struct {
	Bins  []bin
	Count int
}

// bin is how many have waited for so long.
type bin struct {
	Label string
	N     int
	Width int // of 100
}

// bins are the upper limits of bins, the last of which has none.
var bins = []struct {
	below time.Duration
	label string
}{
	{10 * time.Millisecond, "below 10ms"}, {100 * time.Millisecond, "10 to 100ms"}, {time.Second, "0.1 to 1s"}, {10 * time.Second, "1 to 10s"},
	{time.Minute, "10s to 1m"}, {0, "1m and more"},
}

// histogramOf returns the histogram of waits; nil if there are none.
func histogramOf(waits []time.Duration) *histogram {
	if len(waits) == 0 {
		return nil
	}
	h := &histogram{Count: len(waits)}
	for _, b := range bins {
		h.Bins = append(h.Bins, bin{Label: b.label})
	}
	most := 0
	for _, w := range waits {
		i := 0
		for i < len(bins)-1 && w >= bins[i].below {
			i++
		}
		h.Bins[i].N++
		most = max(most, h.Bins[i].N)
	}
	for i := range h.Bins {
		h.Bins[i].Width = h.Bins[i].N * 100 / most
		if h.Bins[i].N > 0 {
			h.Bins[i].Width = max(1, h.Bins[i].Width)
		}
	}
	return h
}
