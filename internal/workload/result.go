package workload

// Result is what one or several processes measured in the window.
type Result struct {
	Seconds float64 `json:"seconds"` // length of the window

	Counts    []int64 `json:"counts,omitempty"`    // acquisitions of each goroutine that does not write
	Writers   []int64 `json:"writers,omitempty"`   // acquisitions of each goroutine that writes
	Processes []int64 `json:"processes,omitempty"` // of each process, if there are several
	HandOvers int64   `json:"hand_overs"`          // acquisitions after another goroutine's hold
	Across    int64   `json:"across"`              // hand-overs between processes
	Overlaps  int64   `json:"overlaps"`            // acquisitions while another goroutine was inside, also those outside the window
	Failures  int64   `json:"failures"`            // errors of Lock and Unlock
	Failure   string  `json:"failure,omitempty"`
	Hung      int     `json:"hung"`   // goroutines that did not end when they should
	Inside    float64 `json:"inside"` // seconds that goroutines held the lock, together
	Busy      float64 `json:"busy"`   // seconds in which it was held, where several goroutines may hold it

	Waits      Histogram `json:"waits"`       // from the request to the acquisition; requests that had not ended count as well
	WriteWaits Histogram `json:"write_waits"` // the same, of those that write, which are not in Waits
	Gaps       Histogram `json:"gaps"`        // from an unlock to the next acquisition, in one process
	AcrossGap  Histogram `json:"across_gap"`  // the same, between processes

	Mallocs    uint64  `json:"mallocs"`     // heap objects allocated
	AllocBytes uint64  `json:"alloc_bytes"` // and their size
	CPU        float64 `json:"cpu"`         // seconds of processor time, 0 where the system does not report it

	Each *Footprint `json:"each,omitempty"` // of [Keep] and [Queued]
}

// Footprint is what a kept lock, or a waiting goroutine, costs.
type Footprint struct {
	N          int     `json:"n"`
	Bytes      float64 `json:"bytes"`      // of heap and stacks for each, without its name
	Goroutines float64 `json:"goroutines"` // for each, including the waiting one
	Lost       int     `json:"lost"`       // locks no longer held at the end of the window
	Acquired   int     `json:"acquired"`   // waiters that acquired the lock although it was held
}

// Merge returns the joint result of processes that measured the same window.
func Merge(results ...*Result) *Result {
	all := &Result{}
	for _, r := range results {
		all.Seconds = max(all.Seconds, r.Seconds)
		all.Counts = append(all.Counts, r.Counts...)
		all.Writers = append(all.Writers, r.Writers...)
		if r.Processes == nil {
			all.Processes = append(all.Processes, r.Acquisitions())
		}
		all.Processes = append(all.Processes, r.Processes...)
		all.HandOvers += r.HandOvers
		all.Across += r.Across
		all.Overlaps += r.Overlaps
		all.Failures += r.Failures
		if all.Failure == "" {
			all.Failure = r.Failure
		}
		all.Hung += r.Hung
		all.Inside += r.Inside
		all.Busy = max(all.Busy, r.Busy) // all see the same
		all.Waits.Merge(&r.Waits)
		all.WriteWaits.Merge(&r.WriteWaits)
		all.Gaps.Merge(&r.Gaps)
		all.AcrossGap.Merge(&r.AcrossGap)
		all.Mallocs += r.Mallocs
		all.AllocBytes += r.AllocBytes
		all.CPU += r.CPU
		if r.Each != nil {
			all.Each = r.Each.plus(all.Each)
		}
	}
	return all
}

func (f *Footprint) plus(other *Footprint) *Footprint {
	if other == nil {
		return f
	}
	a, b := float64(f.N), float64(other.N)
	return &Footprint{
		N:          f.N + other.N,
		Bytes:      (a*f.Bytes + b*other.Bytes) / (a + b),
		Goroutines: (a*f.Goroutines + b*other.Goroutines) / (a + b),
		Lost:       f.Lost + other.Lost,
		Acquired:   f.Acquired + other.Acquired,
	}
}

// Acquisitions returns how often the locks were acquired, for reading and writing.
func (r *Result) Acquisitions() int64 { return sum(r.Counts) + r.Writes() }

// Writes returns how often read/write locks were acquired for writing.
func (r *Result) Writes() int64 { return sum(r.Writers) }

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Starved returns how many goroutines never acquired the lock.
func (r *Result) Starved() (n int) {
	for _, counts := range [][]int64{r.Counts, r.Writers} {
		for _, c := range counts {
			if c == 0 {
				n++
			}
		}
	}
	return n
}

// Jain returns Jain's fairness index of the goroutines, without those that write: 1 if all acquired
// the lock equally often, 1/n if only one of n did, 0 if none did.
func (r *Result) Jain() float64 { return Jain(r.Counts) }

// Jain returns Jain's index of counts.
func Jain(counts []int64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// Per returns x per acquisition, 0 if there was none.
func (r *Result) Per(x float64) float64 {
	n := r.Acquisitions()
	if n == 0 {
		return 0
	}
	return x / float64(n)
}

// PerSecond returns n per second of the window.
func (r *Result) PerSecond(n int64) float64 {
	if r.Seconds == 0 {
		return 0
	}
	return float64(n) / r.Seconds
}

// Utilisation returns the fraction of the window in which the lock was held.
func (r *Result) Utilisation() float64 {
	if r.Seconds == 0 {
		return 0
	}
	if r.Busy > 0 {
		return r.Busy / r.Seconds
	}
	return r.Inside / r.Seconds
}
