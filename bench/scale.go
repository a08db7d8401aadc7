package main

import (
	"fmt"
	"time"

	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// scale is what the loads have in common that show what a large deployment costs.
const scale = "scale"

// large returns the loads that show what a large deployment costs. On one machine they tell that by commands
// and CPU time, and not by how long things take. They are run only if they are asked for.
func (w *windows) large(short bool) (all []*load) {
	for _, n := range []int{1, 3, 6} {
		all = append(all, w.shards(n))
	}
	held, clients := 1_000_000, 10_000
	if short {
		held, clients = 50_000, 1_000
	}
	all = append(all, w.million(held), w.waitingClients(clients))
	for _, l := range all {
		l.asked, l.rounds = true, 1
	}
	return all
}

// shards returns the load of 512 goroutines that lock on a cluster, each its own lock.
func (w *windows) shards(n int) *load {
	l := &load{
		Case: report.Case{
			Name: fmt.Sprintf("%s/shards/%d", scale, n), Workload: scale + "/shards", Main: true, Growth: "shards", Size: n,
			Limit: "raw/rueidis", Title: "512 goroutines of one process, each with its own lock, on one server",
		},
		systems: join([]string{"raw/rueidis"}, plain), warmup: w.warmup, window: w.window,
		specs: []workload.Spec{{Kind: workload.Cycle, N: 512, Key: ownKeys}},
	}
	if n > 1 {
		l.server = rig.StartCluster(n)
		l.Title = fmt.Sprintf("512 goroutines of one process, each with its own lock, on a cluster of %d shards", n)
	}
	return l
}

// million returns the load of ten processes that hold locks.
func (w *windows) million(locks int) *load {
	const processes = 10
	l := &load{
		Case: report.Case{
			Name: scale + "/held", Workload: scale + "/held", Main: true, Size: locks,
			Title: fmt.Sprintf("%d processes hold %d locks, which are renewed", processes, locks),
		},
		systems: plain, warmup: 2 * time.Second, window: 2 * w.period,
		grace: 8 * time.Minute, release: 2 * time.Minute,
	}
	for p := range processes {
		l.specs = append(l.specs, workload.Spec{Kind: workload.Keep, N: locks / processes, Key: ownKeys, Process: p})
	}
	return l
}

// waitingClients returns the load of clients that wait for one lock, in one process, as if each were one.
func (w *windows) waitingClients(n int) *load {
	return &load{
		Case: report.Case{
			Name: scale + "/clients", Workload: scale + "/clients", Main: true, Size: n,
			Title: fmt.Sprintf("%d clients wait for a lock that another one holds", n),
		},
		systems:    []string{"mortise/client each", "mortise hidden/client each"},
		unmeasured: 1, warmup: 15 * time.Second, window: w.period, grace: time.Minute, release: 30 * time.Second,
		specs: []workload.Spec{
			{Kind: workload.Keep, N: 1, Key: oneKey, Shared: true},
			{Kind: workload.Queued, N: n, Key: oneKey, Shared: true, Process: 1},
		},
	}
}
