package workload

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	var other Histogram
	other.Add(20 * time.Second)
	h.Merge(&other)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var copied Histogram
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Histogram{"itself": &h, "from JSON": &copied} {
		if h.Count() != 1001 || h.Max() != 20*time.Second {
			t.Errorf("%s: %d durations up to %v, want 1001 up to 20s", name, h.Count(), h.Max())
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
			want := q * 1001
			if got := float64(h.Quantile(q)) / 1e3; math.Abs(got-want) > 0.03*want+1 {
				t.Errorf("%s: quantile %v is %v µs, want %v", name, q, got, want)
			}
		}
		if h.Quantile(1) != 20*time.Second {
			t.Errorf("%s: the last is %v", name, h.Quantile(1))
		}
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
}

func TestBucketsFollowEachOther(t *testing.T) {
	for i := range buckets {
		if got := bucket(floor(i)); got != i {
			t.Fatalf("bucket(floor(%d)) = %d, want %v", i, got, i)
		}
		if i > 0 && bucket(floor(i)-1) != i-1 {
			t.Fatalf("bucket %d does not end where bucket %d begins", i-1, i)
		}
		if width := floor(i+1) - floor(i); i >= 1<<fine && float64(width) > 0.032*float64(floor(i)) {
			t.Fatalf("bucket %d is %v wide at %v", i, width, floor(i))
		}
	}
	if got := bucket(100 * 24 * time.Hour); got != buckets-1 {
		t.Errorf("a very long time is in bucket %d, want %v", got, buckets-1)
	}
}
