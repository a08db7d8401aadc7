package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/internal/workload"
)

// The systems whose locks several can hold at the same time.
var (
	readWrite  = []string{"Redisson RReadWriteLock", "mortise RWLock/rueidis", "mortise RWLock/go-redis"}
	semaphores = []string{
		"limit: permits granted", "polling", "Redisson RSemaphore", "Redisson RPermitExpirableSemaphore",
		"mortise Semaphore/rueidis", "mortise Semaphore/go-redis", "mortise PermitSemaphore",
	}
)

// The sizes of these loads. Permits are held for a moment, so that many are out at the same time, and
// one too many would be seen.
const (
	readHeld        = time.Millisecond
	readProcesses   = 4
	permitHeld      = 100 * time.Microsecond
	permitWaiters   = 512
	permitProcesses = 8
	permitGrowth    = 8 // permits while processes or waiters get more
)

// sharing returns the loads of read/write locks and of semaphores.
func (w *windows) sharing(short bool) (all []*load) {
	readers, permits := []int{1, 8, 64}, []int{1, 8, 100}
	if short {
		readers, permits = []int{8}, []int{8}
	}
	for _, n := range readers {
		all = append(all, w.sides(n, false), w.sides(n, true))
	}
	for _, n := range permits {
		all = append(all, w.permits(n, 1, permitWaiters), w.permits(n, permitProcesses, permitWaiters))
	}
	all = append(all, w.sharingGrows(short)...)
	all = append(all, w.free()...)
	for _, l := range all {
		l.rounds = 1 // the JVMs of Redisson take long
	}
	return all
}

// sharingGrows returns the loads that show how the cost of a semaphore grows, of systems that start quickly.
func (w *windows) sharingGrows(short bool) (all []*load) {
	processes, waiters := []int{2, 4, 16}, []int{16, 64}
	if short {
		processes, waiters = []int{2}, nil
	}
	for _, n := range processes {
		l := w.permits(permitGrowth, n, permitWaiters)
		l.Name = fmt.Sprintf("W9/8/%d", n)
		all = append(all, l)
	}
	for _, n := range waiters {
		l := w.permits(permitGrowth, permitProcesses, n)
		l.Name, l.Growth, l.Size = fmt.Sprintf("W9/8/%d waiters", n), "permit waiters", n
		all = append(all, l)
	}
	for _, l := range all {
		l.Main, l.window = false, w.window/2
		l.systems = withoutJava(semaphores)
	}
	return all
}

// free returns the loads of one goroutine that reads, writes, or takes a permit, alone.
func (w *windows) free() (all []*load) {
	for _, c := range []struct {
		name, title string
		spec        workload.Spec
		systems     []string
	}{
		{"read", "one goroutine acquires and releases the read side of its own lock", workload.Spec{Sides: true}, readWrite},
		{"write", "one goroutine acquires and releases the write side of its own lock", workload.Spec{Sides: true, Writers: 1}, readWrite},
		{"permit", "one goroutine takes and releases the permit of its own semaphore", workload.Spec{Permits: 1}, semaphores},
	} {
		c.spec.Kind, c.spec.N, c.spec.Key = workload.Cycle, 1, ownKeys
		all = append(all, &load{
			Case: report.Case{
				Name: "free/" + c.name, Workload: "free", Main: true, Size: 1, Pinned: true, Limit: "raw/rueidis",
				Title: c.title + "; client and server on one CPU",
			},
			specs: []workload.Spec{c.spec}, warmup: w.warmup / 2, window: w.window / 4, turns: fewTurns,
			systems: append([]string{"raw/rueidis"}, withoutJava(c.systems)...),
		})
	}
	return all
}

// withoutJava returns the systems that start quickly.
func withoutJava(systems []string) []string {
	return slices.DeleteFunc(slices.Clone(systems), func(name string) bool { return strings.HasPrefix(name, "Redisson") })
}

// sides returns the load of readers and a writer. They are in one process, or apart: the readers in
// four processes, of which the first one writes as well. A single reader has a process of its own.
func (w *windows) sides(readers int, apart bool) *load {
	l := &load{
		Case: report.Case{
			Name: fmt.Sprintf("W8/%d", readers), Workload: "W8", Main: true, Size: readers,
			Title: fmt.Sprintf("%s and a writer, in one process", things(readers, "reader")),
		},
		systems: readWrite, warmup: w.warmup, window: w.window,
	}
	spec := workload.Spec{Kind: workload.Cycle, Key: oneKey, Shared: true, Sides: true, Inside: readHeld}
	add := func(readers, writers int) {
		spec.N, spec.Writers, spec.Process = readers+writers, writers, len(l.specs)
		l.specs = append(l.specs, spec)
	}
	switch {
	case !apart:
		add(readers, 1)
		return l
	case readers < readProcesses:
		add(0, 1)
		add(readers, 0)
	default:
		for p := range readProcesses {
			add(readers/readProcesses, map[bool]int{true: 1}[p == 0])
		}
	}
	l.Name, l.Growth = l.Name+"/apart", "readers"
	l.Title = fmt.Sprintf("%s and a writer, in %d processes", things(readers, "reader"), len(l.specs))
	return l
}

// permits returns the load of goroutines that want the permits of a semaphore, in a number of processes.
func (w *windows) permits(permits, processes, waiters int) *load {
	name, where := fmt.Sprintf("W9/%d", permits), "in one process"
	if processes > 1 {
		name, where = name+"/apart", fmt.Sprintf("in %d processes", processes)
	}
	l := w.among(report.Case{
		Name: name, Workload: "W9", Main: true, Size: processes, Limit: "limit: permits granted",
		Title: fmt.Sprintf("%d goroutines want %s, %s", waiters, things(permits, "permit"), where),
	}, processes, waiters/processes, semaphores)
	l.window = w.window * 3 / 4
	if permits == permitGrowth {
		l.Growth = "permit processes"
	}
	if permits != permitGrowth { // its JVMs take long
		l.systems = slices.DeleteFunc(slices.Clone(l.systems), func(name string) bool { return name == "Redisson RPermitExpirableSemaphore" })
	}
	for i := range l.specs {
		l.specs[i].Permits, l.specs[i].Inside = permits, permitHeld
	}
	return l
}

// things is a number of things.
func things(n int, thing string) string {
	if n == 1 {
		return "one " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
