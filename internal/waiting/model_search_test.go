//go:build !race

package waiting

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	modelWalkSeed = flag.Uint64("seed", 0, "run the random walk of the model with this seed only")
	modelDeep     = flag.Bool("deep", false, "search the model within wider limits, too; it takes minutes")
)

// modelSearch visits all states of a modelWorld that can be reached. It has no copy of a
// state: it repeats the events on the way to it.
type modelSearch struct {
	limits modelLimits
	depth  int // the most events of a path
	seen   map[uint64]int
	paths  int
	events int
	cut    int // paths with more events
}

// run visits all states, up to one with which something is wrong.
func (s *modelSearch) run(t *testing.T) {
	s.seen = make(map[uint64]int)
	var path, width []int // the event chosen at each state, and how many there were
	for {
		w := newModelWorld(s.limits)
		width = s.walk(w, &path, width)
		s.paths++
		w.report(t, "")
		w.close()
		for len(path) > 0 && path[len(path)-1]+1 == width[len(path)-1] {
			path = path[:len(path)-1]
		}
		if width = width[:len(path)]; len(path) == 0 || w.err != nil {
			return
		}
		path[len(path)-1]++
	}
}

// walk follows the path, and goes on with the first event of each state until it reaches a
// state that was visited before.
func (s *modelSearch) walk(w *modelWorld, path *[]int, width []int) []int {
	for at := 0; w.err == nil; at++ {
		events := w.events()
		if at >= len(*path) {
			if w.err != nil || len(events) == 0 {
				return width
			}
			key := w.key()
			if depth, seen := s.seen[key]; seen && depth <= at {
				return width
			}
			s.seen[key] = at
			if at >= s.depth {
				s.cut++
				return width
			}
			*path, width = append(*path, 0), append(width, len(events))
		}
		if width[at] != len(events) {
			w.fail("the same events have led to another state")
			return width
		}
		s.events++
		w.happen(events[(*path)[at]])
	}
	return width
}

// modelCase is a search, with the number of states that it visits at least.
type modelCase struct {
	limits modelLimits
	states int
}

// report reports what is wrong, before the end of the clients can hide it.
func (w *modelWorld) report(t *testing.T, where string) {
	if w.err != nil {
		t.Errorf("%s%v, after\n%s", where, w.err, strings.Join(w.log, "\n"))
	}
}

// All that can happen to a few goroutines, within narrow limits.
func TestModelExhaustive(t *testing.T) {
	tests := []modelCase{
		{modelLimits{goroutines: []int{2}, rounds: 1, giveUps: 1, replies: 1, parts: true}, 2000},
		{modelLimits{goroutines: []int{3}, rounds: 1, giveUps: 1}, 900},
		{modelLimits{goroutines: []int{1, 1}, rounds: 1, giveUps: 1, messages: 1}, 1000},
		{modelLimits{goroutines: []int{1, 1}, rounds: 1, giveUps: 2}, 900},
		{modelLimits{goroutines: []int{1, 1}, rounds: 1, giveUps: 1, expiries: 1}, 1800},
		{modelLimits{goroutines: []int{2}, rounds: 1, expiries: 1, renewals: 1}, 1500},
		{modelLimits{goroutines: []int{1, 1}, fixed: 3, rounds: 1, giveUps: 1, messages: 1}, 900},
		{modelLimits{goroutines: []int{2}, fixed: 2, rounds: 1, giveUps: 1}, 300},
		{modelLimits{goroutines: []int{1, 2}, rounds: 1}, 4000},
	}
	if *modelDeep {
		tests = append(tests, []modelCase{
			{modelLimits{goroutines: []int{1, 1}, rounds: 1, replies: 1}, 1000},
			{modelLimits{goroutines: []int{1, 1}, rounds: 1, copies: 1}, 1000},
			{modelLimits{goroutines: []int{1, 1}, rounds: 1, giveUps: 1, replies: 1}, 10000},
			{modelLimits{goroutines: []int{1, 1}, rounds: 1, giveUps: 1, copies: 1}, 10000},
			{modelLimits{goroutines: []int{1, 1}, rounds: 1, renewals: 1}, 10000},
			{modelLimits{goroutines: []int{1, 1}, rounds: 2}, 20000},
			{modelLimits{goroutines: []int{1, 2}, rounds: 1, giveUps: 1}, 25000},
			{modelLimits{goroutines: []int{1, 2}, fixed: 4, rounds: 1}, 8000},
			{modelLimits{goroutines: []int{2, 2}, rounds: 1}, 25000},
		}...)
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%+v", test.limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &modelSearch{limits: test.limits, depth: 100}
				if s.run(t); t.Failed() {
					return
				}
				t.Logf("%d states, %d paths with %d events, of which %d were cut", len(s.seen), s.paths, s.events, s.cut)
				if s.cut > 0 || len(s.seen) < test.states {
					t.Errorf("%d states were visited, want %d, and %d paths were cut, want none", len(s.seen), test.states, s.cut)
				}
			})
		})
	}
}

// modelWalk does random things, and then lets everything end.
func modelWalk(t *testing.T, seed uint64) *modelWorld {
	dice := rand.New(rand.NewPCG(seed, 2))
	clients := [][]int{{2, 2}, {1, 2}, {2, 1}, {3, 1}, {1, 1, 1}, {3}}
	limits := modelLimits{
		goroutines: clients[dice.IntN(len(clients))], fixed: dice.IntN(16) * dice.IntN(2), rounds: 1 + dice.IntN(3), giveUps: dice.IntN(5),
		parts: dice.IntN(2) == 0, late: dice.IntN(2) == 0,
	}
	if dice.IntN(2) == 0 {
		limits.messages, limits.replies, limits.copies, limits.expiries = dice.IntN(3), dice.IntN(3), dice.IntN(2), dice.IntN(2)
		limits.polls, limits.renewals = dice.IntN(3), dice.IntN(3)
	}
	calm := dice.IntN(8) // of 8 events that at least happen by themselves, if any can
	w := newModelWorld(limits)
	defer w.close()
	defer w.report(t, fmt.Sprintf("seed %d: ", seed))
	for range 1000 {
		events := w.events()
		if len(events) == 0 || w.err != nil {
			break
		}
		n := len(events)
		if dice.IntN(8) < calm {
			n = cmp.Or(events.themselves(), n)
		}
		w.happen(events[dice.IntN(n)])
	}
	return w
}

// Random things happen to more goroutines for longer.
func TestModelWalks(t *testing.T) {
	walks := uint64(4000)
	if *modelDeep {
		walks = 20000
	}
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(1); seed <= walks; seed++ {
			if *modelWalkSeed != 0 {
				seed = *modelWalkSeed
			}
			if modelWalk(t, seed); t.Failed() || *modelWalkSeed != 0 {
				break
			}
		}
	})
}

// The same seed makes the same things happen.
func TestModelWalkRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			if first, again := modelWalk(t, seed).log, modelWalk(t, seed).log; !slices.Equal(first, again) {
				t.Errorf("seed %d gives\n%s\nand then\n%s", seed, strings.Join(first, "\n"), strings.Join(again, "\n"))
			}
		}
	})
}
