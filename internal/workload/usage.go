package workload

import "runtime"

// usage is what the process has used so far.
type usage struct {
	mallocs, bytes uint64
	cpu            float64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{mallocs: m.Mallocs, bytes: m.TotalAlloc, cpu: cpu()}
}

// since records in r what was used since u.
func (u usage) since(r *Result) {
	now := used()
	r.Mallocs, r.AllocBytes, r.CPU = now.mallocs-u.mallocs, now.bytes-u.bytes, now.cpu-u.cpu
}

// footing is the memory and goroutines alive in the process.
type footing struct {
	bytes      int64
	goroutines int
}

// standing returns what is alive after garbage collection. It collects twice, because one
// collection shrinks stacks and empties pools only by half.
func standing() footing {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footing{bytes: int64(m.HeapAlloc + m.StackInuse), goroutines: runtime.NumGoroutine()}
}

// each returns the share of each of n in what was added since f.
func (f footing) each(n int) *Footprint {
	now := standing()
	return &Footprint{
		N:          n,
		Bytes:      float64(now.bytes-f.bytes) / float64(n),
		Goroutines: float64(now.goroutines-f.goroutines) / float64(n),
	}
}
