package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// load is a case and how to run it.
type load struct {
	report.Case
	specs      []workload.Spec
	unmeasured int
	warmup     time.Duration
	window     time.Duration
	grace      time.Duration // in addition to warmup and window, for the work before and after
	rounds     int           // number of rounds it is run in, 0: all
	systems    []string
	asked      bool                               // it is run only if it is asked for
	server     func(pin bool) (rig.Server, error) // instead of the system's own
	release    time.Duration                      // for the load to end of itself; default 5 s

	// turns is how often its systems take turns in a round, 0: once. Where a few per cent matter, many
	// short turns tell more than one long run. Systems that are not in often have the first few only.
	turns int
	often []string
}

// fewTurns is the number of turns of systems that do not have all.
const fewTurns = 3

// The systems by suitability, as prefixes of their names.
var (
	raws      = []string{"raw/rueidis", "raw/go-redis"}
	waiting   = []string{"redsync", "redislock", "redislock-5ms", "rueidislock"} // peers that can have 10,000 waiters here
	peers     = join(waiting, []string{"etcd", "etcd in memory", "Redisson"})
	plain     = []string{"mortise/rueidis", "mortise/go-redis"}
	fair      = []string{"mortise fair"}
	contended = join(peers, plain, fair, []string{"Redisson fair"})
	growing   = join(waiting, plain, fair) // systems that start quickly
)

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// The locks of the loads.
const (
	ownKeys = "bench:own"
	oneKey  = "bench:one"
)

// plan returns all loads. Short ones are for development: they show that everything works, and
// roughly how it compares.
func plan(short bool) []*load {
	w := &windows{warmup: 500 * time.Millisecond, window: 2 * time.Second, period: 10 * time.Second, kept: 100_000, waiters: 10_000}
	if short {
		*w = windows{warmup: 200 * time.Millisecond, window: 500 * time.Millisecond, period: 10 * time.Second, kept: 10_000, waiters: 10_000}
	}
	var all []*load
	all = append(all, w.own()...)
	all = append(all, w.one()...)
	all = append(all, w.sharing(short)...)
	all = append(all, w.held()...)
	all = append(all, w.growth(short)...)
	all = append(all, w.observing()...)
	all = append(all, w.large(short)...)
	for _, l := range all {
		l.Window = l.window.String()
		if l.grace == 0 {
			l.grace = 20 * time.Second
		}
	}
	return all
}

// windows has the durations and sizes of the measurements.
type windows struct {
	warmup, window, period time.Duration
	kept, waiters          int
}

// own returns the loads in which every goroutine has its own lock.
func (w *windows) own() []*load {
	own := func(c report.Case, systems ...string) *load {
		return &load{
			Case: c, systems: systems, warmup: w.warmup, window: w.window * 3 / 4,
			specs: []workload.Spec{{Kind: workload.Cycle, N: c.Size, Key: ownKeys}},
		}
	}
	everyone := join(raws, []string{"raw/Redisson's format"}, peers, plain)
	many := join(raws, peers, plain)
	w1 := own(report.Case{
		Name: "W1", Workload: "W1", Main: true, Size: 1, Pinned: true, Limit: "raw/rueidis",
		Title: "one goroutine takes and releases its own lock; client and server on one CPU",
	}, everyone...)
	w1.rounds, w1.turns, w1.often = 1, 20, join(raws, plain)
	w1.warmup, w1.window = w.warmup/2, w.window/4
	return []*load{
		w1,
		own(report.Case{
			Name: "W2/64", Workload: "W2", Main: true, Size: 64, Limit: "raw/rueidis",
			Title: "64 goroutines of one process, each with its own lock",
		}, many...),
		own(report.Case{
			Name: "W2/512", Workload: "W2", Main: true, Size: 512, Limit: "raw/rueidis",
			Title: "512 goroutines of one process, each with its own lock",
		}, join(raws, waiting, []string{"etcd"}, plain)...),
	}
}

// one returns the loads in which all goroutines contend for one lock.
func (w *windows) one() []*load {
	w7 := w.among(report.Case{
		Name: "W7", Workload: "W7", Main: true, Size: 8, Limit: "limit: granted",
		Title: "8 processes contend for one lock, and hold it for 1 ms each time",
	}, 8, 1, append([]string{"limit: granted"}, contended...))
	for i := range w7.specs {
		w7.specs[i].Inside = time.Millisecond
	}
	return []*load{
		w.among(report.Case{
			Name: "W3/64", Workload: "W3", Main: true, Growth: "waiters", Size: 64, Limit: "limit: in the process",
			Title: "64 goroutines of one process contend for one lock",
		}, 1, 64, append([]string{"limit: in the process", "limit: owner changed"}, contended...)),
		w.among(report.Case{
			Name: "W4/16×8", Workload: "W4", Main: true, Growth: "processes", Size: 16, Limit: "limit: granted",
			Title: "16 processes with 8 goroutines each contend for one lock",
		}, 16, 8, append([]string{"limit: granted", "limit: in the process and granted"}, contended...)),
		w.among(report.Case{
			Name: "W4/16×1", Workload: "W4", Main: true, Size: 16, Limit: "limit: granted",
			Title: "16 processes with one goroutine each contend for one lock",
		}, 16, 1, append([]string{"limit: granted"}, growing...)),
		w7,
		w.among(report.Case{
			Name: "mixed", Workload: "mixed", Main: true, Size: 8,
			Title: "4 processes with mortise and 4 with Redisson, of 4 goroutines or threads each, contend for one lock",
		}, 8, 4, append([]string{"mortise beside Redisson", "mortise fair beside Redisson fair"}, plain[0])),
	}
}

// among returns a load of processes with goroutines that contend for one lock.
func (w *windows) among(c report.Case, processes, goroutines int, systems []string) *load {
	l := &load{Case: c, systems: systems, warmup: w.warmup, window: w.window}
	for p := range processes {
		l.specs = append(l.specs, workload.Spec{Kind: workload.Cycle, N: goroutines, Key: oneKey, Shared: true, Process: p})
	}
	return l
}

// held returns the loads in which locks are held for long.
func (w *windows) held() []*load {
	return []*load{
		w.keep("W5", w.kept, false, append([]string{"rueidislock"}, plain...)...),
		{
			Case: report.Case{
				Name: "W6", Workload: "W6", Main: true, Size: w.waiters,
				Title: fmt.Sprintf("%d goroutines of one process wait for a lock that another process holds", w.waiters),
			},
			systems: join(waiting, plain, fair), rounds: 1,
			unmeasured: 1, warmup: 1500 * time.Millisecond, window: 3 * time.Second, grace: 30 * time.Second,
			specs: []workload.Spec{
				{Kind: workload.Keep, N: 1, Key: oneKey, Shared: true},
				{Kind: workload.Queued, N: w.waiters, Key: oneKey, Shared: true, Process: 1},
			},
		},
	}
}

// keep returns a load of locks that are held and renewed.
func (w *windows) keep(name string, n int, growth bool, systems ...string) *load {
	return &load{
		Case: report.Case{
			Name: name, Workload: "W5", Size: n, Main: !growth, Growth: "held",
			Title: fmt.Sprintf("one process holds %d locks, which are renewed", n),
		},
		systems: systems, rounds: 1, warmup: w.warmup, window: w.period, grace: 45 * time.Second,
		specs: []workload.Spec{{Kind: workload.Keep, N: n, Key: ownKeys}},
	}
}

// growth returns the series that show how cost grows.
func (w *windows) growth(short bool) []*load {
	var all []*load
	add := func(l *load, growth string) {
		l.Growth, l.rounds = growth, 1
		if growth != "queue" { // all waiters of a long queue must get their turns
			l.window = w.window / 2
		}
		all = append(all, l)
	}
	waiters, processes, queues := []int{2, 8, 512}, []int{2, 4, 8}, []int{10, 100, 1000}
	if short {
		waiters, processes, queues = []int{2, 512}, []int{4}, []int{10, 1000}
	}
	for _, n := range waiters {
		add(w.among(report.Case{
			Name: fmt.Sprintf("W3/%d", n), Workload: "W3", Size: n, Limit: "limit: in the process",
			Title: fmt.Sprintf("%d goroutines of one process contend for one lock", n),
		}, 1, n, append([]string{"limit: in the process"}, growing...)), "waiters")
	}
	for _, n := range processes {
		add(w.among(report.Case{
			Name: fmt.Sprintf("W4/%d×8", n), Workload: "W4", Size: n, Limit: "limit: granted",
			Title: fmt.Sprintf("%d processes with 8 goroutines each contend for one lock", n),
		}, n, 8, append([]string{"limit: granted"}, growing...)), "processes")
	}
	for _, n := range queues {
		add(w.among(report.Case{
			Name: fmt.Sprintf("fair/%d", n), Workload: "fair", Size: n, Limit: "limit: granted",
			Title: fmt.Sprintf("a queue of %d waiters from two processes", n),
		}, 2, n/2, []string{"limit: granted", "mortise fair", "Redisson fair"}), "queue")
	}
	if !short {
		for _, n := range []int{1_000, 10_000} {
			all = append(all, w.keep(fmt.Sprintf("W5/%d", n), n, true, "rueidislock", "mortise/rueidis"))
		}
	}
	return all
}

// observing returns loads of mortise alone, with one thing at a time that can be seen of it. They show
// what observing costs, and are run only if they are asked for.
func (w *windows) observing() []*load {
	const least = "mortise hidden"
	own, one, kept := w.own()[0], w.among(report.Case{Size: 16, Main: true}, 16, 8, nil), w.keep("", w.kept, false)
	all := []*load{own, one, kept}
	for i, name := range []string{"W1", "W4", "W5"} {
		l := all[i]
		l.Name, l.Workload, l.Title = seen+"/"+name, seen+"/"+name, name+", with one thing at a time that can be seen of a client"
		l.Limit, l.Growth, l.rounds, l.turns, l.asked = least, "", 0, 0, true
		l.window = max(l.window, w.window*3/4)
		l.systems = []string{least, "mortise/rueidis", "mortise observed", "mortise logged", "mortise recorded"}
	}
	return all
}

// seen is what the loads have in common that show what observing costs.
const seen = "seen"

// choose returns the requested loads and systems; all if none are requested. A system takes part
// only where it is suitable.
func choose(all []*load, only, systems []string) ([]*load, error) {
	var asked, chosen []*load
	for _, l := range all {
		if wanted(only, l.Workload, l.Name, strings.Split(l.Workload, "/")[0]) && (!l.asked || len(only) > 0) {
			asked = append(asked, l)
		}
	}
	loads, _ := names(all)
	if len(asked) == 0 {
		return nil, fmt.Errorf("no load is called %s; there are %s", strings.Join(only, " or "), strings.Join(loads, ", "))
	}
	_, there := names(asked)
	for _, l := range asked {
		l.systems = slices.DeleteFunc(slices.Clone(l.systems), func(name string) bool {
			return !wanted(systems, name) || peer.Find(name) == nil
		})
		if len(l.systems) > 0 {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no system of these loads is called %s; there are %s", strings.Join(systems, " or "), strings.Join(there, ", "))
	}
	return chosen, nil
}

// names returns those of loads and of their systems.
func names(all []*load) (loads, systems []string) {
	for _, l := range all {
		loads = append(loads, l.Name)
		systems = append(systems, l.systems...)
	}
	slices.Sort(systems)
	return loads, slices.Compact(systems)
}

// wanted reports whether one of names is in list, or list is empty. An x stands for ×.
func wanted(list []string, names ...string) bool {
	for _, w := range list {
		for _, name := range names {
			if strings.EqualFold(w, name) || strings.EqualFold(w, strings.ReplaceAll(name, "×", "x")) {
				return true
			}
		}
	}
	return len(list) == 0
}
