package workload

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations in buckets that are at most 3 % wide. The zero
// value is empty. It is not safe for concurrent use.
//
// Its JSON is an array of [nanoseconds, count] pairs, the longest duration
// last. It may be read from any such pairs.
type Histogram struct {
	counts []uint32
	n      int64
	max    time.Duration
}

const (
	fine    = 5 // each power of two has 1<<fine buckets
	buckets = (43 - fine) << fine
)

// bucket returns the index for d: below 1<<fine each nanosecond has its own.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(0, bits.Len64(v)-fine-1)
	return min(shift<<fine+int(v>>shift), buckets-1)
}

// floor is the shortest duration of a bucket.
func floor(i int) time.Duration {
	if i < 2<<fine {
		return time.Duration(i)
	}
	shift := i>>fine - 1
	return time.Duration(i-shift<<fine) << shift
}

// Add counts d once.
func (h *Histogram) Add(d time.Duration) { h.add(d, 1) }

func (h *Histogram) add(d time.Duration, n int64) {
	if h.counts == nil {
		h.counts = make([]uint32, buckets)
	}
	h.counts[bucket(d)] += uint32(n)
	h.n += n
	h.max = max(h.max, d)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		if n > 0 {
			h.add(floor(i), int64(n))
		}
	}
	h.max = max(h.max, other.max)
}

// Count returns how many durations were added.
func (h *Histogram) Count() int64 { return h.n }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that the fraction q of all do not exceed, to
// within the width of a bucket; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(h.n))), 1)
	for i, n := range h.counts {
		if rank -= int64(n); rank <= 0 {
			return min((floor(i)+floor(i+1))/2, h.max)
		}
	}
	return h.max
}

// MarshalJSON implements [json.Marshaler].
func (h Histogram) MarshalJSON() ([]byte, error) {
	pairs := [][2]int64{}
	for i, n := range h.counts {
		if n > 0 {
			pairs = append(pairs, [2]int64{int64(floor(i)), int64(n)})
		}
	}
	if len(pairs) > 0 {
		last := &pairs[len(pairs)-1]
		if last[1] > 1 {
			last[1]--
			pairs = append(pairs, [2]int64{})
		}
		pairs[len(pairs)-1] = [2]int64{int64(h.max), 1}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][2]int64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return err
	}
	*h = Histogram{}
	for _, p := range pairs {
		h.add(time.Duration(p[0]), p[1])
	}
	return nil
}
