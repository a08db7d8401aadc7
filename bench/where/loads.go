package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mortise-go/mortise/internal/workload"
)

// load is what is measured, and with which systems.
type load struct {
	name, title string
	unit        string // what the figures are for
	specs       []workload.Spec
	pin         bool
	handOvers   bool // count hand-overs instead of acquisitions
	pairs       []pair
}

// pair is a system, and the least that can do the same, empty if it is already beside another.
type pair struct{ system, least string }

// loads returns the loads, named as those of package bench that are like them.
func loads() []*load {
	raw := []pair{{"mortise/rueidis", "raw/rueidis"}, {"mortise/go-redis", "raw/go-redis"}}
	return []*load{
		{
			name: "W1", title: "one goroutine, its own lock; client and server on one CPU", unit: "pair",
			specs: own(1), pin: true, pairs: raw,
		},
		{
			name: "W2", title: "64 goroutines of one process, each with its own lock", unit: "pair",
			specs: own(64), pairs: raw,
		},
		{
			name: "W3", title: "64 goroutines of one process, one lock", unit: "hand-over", handOvers: true,
			specs: one(1, 64), pairs: []pair{{"mortise/rueidis", "limit: in the process"}, {"mortise/go-redis", ""}},
		},
		{
			name: "W4", title: "4 processes of one goroutine each, one lock", unit: "hand-over", handOvers: true,
			specs: one(4, 1), pairs: []pair{{"mortise/rueidis", "limit: granted"}, {"mortise/go-redis", ""}},
		},
	}
}

func own(goroutines int) []workload.Spec {
	return []workload.Spec{{Kind: workload.Cycle, N: goroutines, Key: "where:own"}}
}

func one(processes, goroutines int) (specs []workload.Spec) {
	for p := range processes {
		specs = append(specs, workload.Spec{Kind: workload.Cycle, N: goroutines, Key: "where:one", Shared: true, Process: p})
	}
	return specs
}

// choose returns the requested loads with the requested systems; all if none are requested.
func choose(only, systems []string) (chosen []*load, err error) {
	all := loads()
	asked := slices.DeleteFunc(slices.Clone(all), func(l *load) bool { return !wanted(only, l.name) })
	if len(asked) == 0 {
		there, _ := named(all)
		return nil, fmt.Errorf("no load is called %s; there are %s", strings.Join(only, " or "), strings.Join(there, ", "))
	}
	_, there := named(asked)
	for _, l := range asked {
		for i := range l.pairs {
			p := &l.pairs[i]
			if !wanted(systems, p.system) {
				p.system = ""
			}
			if !wanted(systems, p.least) {
				p.least = ""
			}
		}
		l.pairs = slices.DeleteFunc(l.pairs, func(p pair) bool { return p == pair{} })
		if len(l.pairs) > 0 {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no system of these loads is called %s; there are %s", strings.Join(systems, " or "), strings.Join(there, ", "))
	}
	return chosen, nil
}

// named returns those of all and of their systems.
func named(all []*load) (loads, systems []string) {
	for _, l := range all {
		loads = append(loads, l.name)
		for _, p := range l.pairs {
			systems = append(systems, p.system, p.least)
		}
	}
	systems = slices.DeleteFunc(systems, func(name string) bool { return name == "" })
	slices.Sort(systems)
	return loads, slices.Compact(systems)
}

// wanted reports whether name is in list, or list is empty.
func wanted(list []string, name string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(w string) bool { return strings.EqualFold(w, name) })
}
