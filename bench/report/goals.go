package report

import (
	"math"
	"slices"
	"strings"
)

// Goal is a goal of mortise, and what a run reached.
type Goal struct {
	Case   string
	System string
	Text   string
	Value  float64 // NaN if it was not measured
	Shown  string
	Met    bool
}

// The systems in the goals.
const (
	onRueidis = "mortise/rueidis"
	onGoredis = "mortise/go-redis"
	fairLock  = "mortise fair"

	rawRueidis = "raw/rueidis"
	rawGoredis = "raw/go-redis"
	inProcess  = "limit: in the process"
	granted    = "limit: granted"
)

// judge collects goals.
type judge struct {
	*Record
	goals []Goal
}

// Goals returns the goals for what a run measured.
func (r *Record) Goals() []Goal {
	j := &judge{Record: r}
	j.uncontended()
	for _, c := range r.Cases {
		if !c.Main {
			continue
		}
		switch c.Workload {
		case "W2":
			j.ratio(c.Name, onRueidis, "pairs/s of "+rawRueidis, perSecond, rawRueidis, 0.90)
			peer := r.best(c.Name, r.among("redsync", "redislock"), perSecond)
			j.ratio(c.Name, onGoredis, "pairs/s of the best peer on go-redis ("+peer+")", perSecond, peer, 1)
		case "W3":
			j.oneProcess(c.Name)
		case "W4":
			j.manyProcesses(c.Name)
		case "W5":
			j.most(c.Name, onRueidis, "goroutines per lock", routinesPer, 0.01, trim)
			j.most(c.Name, onRueidis, "bytes per lock", bytesEach, 600, count)
			j.most(c.Name, onRueidis, "commands/s without PING: 1 for 100 locks in 10 s", withoutPing, float64(c.Size)/1000, count)
			j.most(c.Name, onRueidis, "client CPU, cores", clientCPU, 0.05, trim)
		case "W6":
			j.most(c.Name, onRueidis, "commands/s without PING", withoutPing, 5, count)
			j.most(c.Name, onRueidis, "bytes per waiter", bytesEach, 3584, count)
		case "W7":
			for _, s := range []string{onRueidis, fairLock} {
				j.least(c.Name, s, "utilisation", utilisation, 0.85, trim)
				j.most(c.Name, s, "worst wait", waitMax, 20e6, duration)
				j.least(c.Name, s, "Jain", jain, 0.99, index)
				j.most(c.Name, s, "commands per acquisition", sent, 3, trim)
			}
		}
	}
	j.fairQueue()
	j.exclusion()
	return j.goals
}

func (j *judge) uncontended() {
	j.ratio("W1", onRueidis, "pairs/s of "+rawRueidis, perSecond, rawRueidis, 0.95)
	j.ratio("W1", onGoredis, "pairs/s of "+rawGoredis, perSecond, rawGoredis, 0.95)
	for system, limit := range map[string]float64{onRueidis: 4, onGoredis: 12} {
		j.most("W1", system, "commands per pair", sent, 2.02, trim)
		j.most("W1", system, "allocations per pair", allocs, limit, trim)
	}
	slices.SortStableFunc(j.goals, func(a, b Goal) int { return strings.Compare(b.System, a.System) })
}

func (j *judge) oneProcess(load string) {
	peer := j.best(load, j.among("redsync", "redislock", "rueidislock", "etcd", "Redisson"), handOvers)
	for _, s := range []string{onRueidis, onGoredis} {
		j.ratio(load, s, "hand-overs to others of "+inProcess, handOvers, inProcess, 0.7)
		j.ratio(load, s, "hand-overs to others of the best peer ("+peer+")", handOvers, peer, 50)
		j.most(load, s, "commands per acquisition", sent, 0.1, trim)
		j.least(load, s, "Jain", jain, 0.99, index)
		j.add(Goal{Case: load, System: s, Text: "worst wait ≤ 2 × that of " + inProcess},
			j.Ratio(load, s, inProcess, waitMax).Median, func(v float64) bool { return v <= 2 }, times)
	}
}

func (j *judge) manyProcesses(load string) {
	peer := j.best(load, j.among("redsync", "redislock", "rueidislock", "etcd", "Redisson"), handOvers)
	commands := map[string]float64{onRueidis: 3, onGoredis: 3, fairLock: 2.1}
	for _, s := range []string{onRueidis, onGoredis, fairLock} {
		fair := 0.95
		if s == fairLock {
			fair = 0.999
			j.ratio(load, s, "hand-overs to others of "+granted, handOvers, granted, 0.8)
		}
		j.ratio(load, s, "hand-overs to others of the best peer ("+peer+")", handOvers, peer, 5)
		j.most(load, s, "commands per acquisition", sent, commands[s], trim)
		j.least(load, s, "Jain", jain, fair, index)
		j.least(load, s, "Jain over processes", jainAcross, 0.95, index)
		j.most(load, s, "starved goroutines", starved, 0, trim)
	}
}

// fairQueue compares the longest queue with the shortest.
func (j *judge) fairQueue() {
	var queues []Case
	for _, c := range j.Cases {
		if c.Growth == "queue" {
			queues = append(queues, c)
		}
	}
	if len(queues) < 2 {
		return
	}
	slices.SortFunc(queues, func(a, b Case) int { return a.Size - b.Size })
	short, long := queues[0].Name, queues[len(queues)-1].Name
	for _, g := range []struct {
		text string
		of   figure
	}{{"commands", sent}, {"inner calls", inner}} {
		v := j.Spread(long, fairLock, g.of).Median / j.Spread(short, fairLock, g.of).Median
		j.add(Goal{Case: long, System: fairLock, Text: g.text + " per acquisition ≤ 1.1 × those of " + short},
			v, func(v float64) bool { return v <= 1.1 }, times)
	}
}

// exclusion is the goal of every run: no goroutine was inside together with another.
func (j *judge) exclusion() {
	worst, n := 0.0, 0
	for _, s := range j.Samples {
		if s.Figures != nil && strings.HasPrefix(s.System, "mortise") {
			n++
			worst += overlaps(s.Figures) + lost(s.Figures) + acquired(s.Figures) + float64(s.Hung)
		}
	}
	if n > 0 {
		j.add(Goal{Case: "all", System: "mortise", Text: "overlaps, lost locks, wrong admissions, hung goroutines = 0"},
			worst, func(v float64) bool { return v == 0 }, trim)
	}
}

// among returns the systems of the record with a name that begins with one of prefixes.
func (r *Record) among(prefixes ...string) (names []string) {
	for _, s := range r.Systems {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
			names = append(names, s.Name)
		}
	}
	return names
}

func (j *judge) ratio(load, system, what string, of figure, to string, least float64) {
	j.add(Goal{Case: load, System: system, Text: "≥ " + times(least) + " " + what},
		j.Ratio(load, system, to, of).Median, func(v float64) bool { return v >= least }, times)
}

func (j *judge) least(load, system, what string, of figure, least float64, show func(float64) string) {
	j.add(Goal{Case: load, System: system, Text: what + " ≥ " + show(least)},
		j.Spread(load, system, of).Median, func(v float64) bool { return v >= least }, show)
}

func (j *judge) most(load, system, what string, of figure, most float64, show func(float64) string) {
	j.add(Goal{Case: load, System: system, Text: what + " ≤ " + show(most)},
		j.Spread(load, system, of).Median, func(v float64) bool { return v <= most }, show)
}

// add adds a goal, unless the run has no figure for it.
func (j *judge) add(g Goal, value float64, met func(float64) bool, show func(float64) string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	g.Value, g.Shown, g.Met = value, show(value), met(value)
	j.goals = append(j.goals, g)
}

// times formats a factor.
func times(x float64) string { return trim(x) + " ×" }
