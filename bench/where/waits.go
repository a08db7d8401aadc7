package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// wait is the time for which goroutines waited at one place of the code, for each unit of a load.
type wait struct {
	where string
	count float64
	us    float64
}

const (
	listed  = 10    // places are listed at most
	noticed = 0.005 // µs for each unit is the shortest wait that is listed
)

// longest returns the places of mutex or block profiles with the longest waits. Their samples have a
// count, and nanoseconds.
func longest(all []*profile.Profile, units float64) []wait {
	sums := map[string]wait{}
	for _, p := range all {
		for _, s := range p.Sample {
			where := place(functions(s))
			if strings.Contains(where, "main.(*profiler)") {
				continue // it waits for the end of the profile of the CPU
			}
			w := sums[where]
			w.where = where
			w.count += float64(s.Value[0]) / units
			w.us += float64(s.Value[1]) / 1e3 / units
			sums[w.where] = w
		}
	}
	var waits []wait
	for _, w := range sums {
		if w.us >= noticed {
			waits = append(waits, w)
		}
	}
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Or(cmp.Compare(b.us, a.us), cmp.Compare(a.where, b.where)) })
	return waits[:min(len(waits), listed)]
}

// place names where a stack waits: its leaf, and the first two functions that were written for locks
// or Redis.
func place(stack []string) string {
	if len(stack) == 0 {
		return ""
	}
	parts := []string{short(stack[0])}
	for _, f := range stack[1:] {
		if layerOf(f).acts() {
			parts = append(parts, short(f))
		}
		if len(parts) == 3 {
			break
		}
	}
	return strings.Join(parts, " ← ")
}

// short returns the name of a function without the path of its package and without type arguments, which
// have paths as well.
func short(function string) string {
	name, arguments, generic := strings.Cut(function, "[")
	name = name[strings.LastIndex(name, "/")+1:]
	if generic {
		name += arguments[strings.LastIndex(arguments, "]")+1:]
	}
	return name
}
