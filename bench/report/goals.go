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

	permitsGranted = "limit: permits granted"
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
		switch c.Workload {
		case "W3":
			j.oneProcess(c)
		case "W4":
			if c.Main {
				j.manyProcesses(c.Name)
			}
		case "W2":
			j.ratio(c.Name, onRueidis, "pairs/s of "+rawRueidis, perSecond, rawRueidis, 0.90)
			peer := r.best(c.Name, r.among("redsync", "redislock"), perSecond)
			j.ratio(c.Name, onGoredis, "pairs/s of the best peer on go-redis ("+peer+")", perSecond, peer, 1)
		case "W5":
			j.held(c)
		case "W6":
			j.most(c.Name, onRueidis, "commands/s without PING", withoutPing, 5, count)
			j.most(c.Name, onRueidis, "bytes per waiter", bytesEach, 4096, count)
		case "W7":
			for _, s := range []string{onRueidis, fairLock} {
				j.least(c.Name, s, "utilisation", utilisation, 0.85, trim)
				j.most(c.Name, s, "worst wait", waitMax, 20e6, duration)
				j.least(c.Name, s, "Jain", jain, 0.99, index)
				j.most(c.Name, s, "commands per acquisition", sent, 3, trim)
			}
		case "W8", "W9":
			j.shared(c)
		case "mixed":
			for _, s := range []string{"mortise beside Redisson", "mortise fair beside Redisson fair"} {
				j.least(c.Name, s, "Redisson's share ÷ even", secondShare, 0.5, trim)
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
	for system, limit := range map[string]float64{onRueidis: 6, onGoredis: 12} {
		j.most("W1", system, "commands per pair", sent, 2.02, trim)
		j.most("W1", system, "allocations per pair", allocs, limit, trim)
	}
	slices.SortStableFunc(j.goals, func(a, b Goal) int { return strings.Compare(b.System, a.System) })
}

// oneProcess has the goals of one lock in one process: the speed with any number of goroutines, the
// rest with those of the main load.
func (j *judge) oneProcess(c Case) {
	peer := j.best(c.Name, j.among("redsync", "redislock", "rueidislock", "etcd", "Redisson"), handOvers)
	for _, s := range []string{onRueidis, onGoredis} {
		j.ratio(c.Name, s, "hand-overs to others of "+inProcess, handOvers, inProcess, 0.5)
		if !c.Main {
			continue
		}
		j.ratio(c.Name, s, "hand-overs to others of the best peer ("+peer+")", handOvers, peer, 50)
		j.most(c.Name, s, "commands per acquisition", sent, 0.1, trim)
		j.least(c.Name, s, "Jain", jain, 0.99, index)
		j.wait(c.Name, s, inProcess)
	}
}

func (j *judge) manyProcesses(load string) {
	peer := j.best(load, j.among("redsync", "redislock", "rueidislock", "etcd", "Redisson"), handOvers)
	for _, s := range []string{onRueidis, onGoredis, fairLock} {
		fair := 0.99
		if s == fairLock {
			fair = 0.999
		}
		j.ratio(load, s, "hand-overs to others of "+granted, handOvers, granted, 0.85)
		if load == "W4/16×8" { // with one goroutine each, the limit itself is not much more than that
			j.ratio(load, s, "hand-overs to others of the best peer ("+peer+")", handOvers, peer, 5)
		}
		j.most(load, s, "commands per acquisition", sent, 2.1, trim)
		j.least(load, s, "Jain", jain, fair, index)
		j.least(load, s, "Jain over processes", jainAcross, 0.99, index)
		j.most(load, s, "starved goroutines", starved, 0, trim)
		j.wait(load, s, granted)
	}
}

// held has the goals of locks that are held, of the largest number.
func (j *judge) held(c Case) {
	if !c.Main {
		return
	}
	j.most(c.Name, onRueidis, "goroutines per lock", routinesPer, 0.01, trim)
	j.most(c.Name, onRueidis, "bytes per lock", bytesEach, 400, count)
	j.most(c.Name, onRueidis, "commands/s without PING: 1 for 100 locks in 10 s", withoutPing, float64(c.Size)/1000, count)
	j.most(c.Name, onRueidis, "client CPU, cores", clientCPU, 0.05, trim)
}

// shared has the goals of read/write locks and of semaphores. They are those of a lock that many
// processes want: a few commands whoever else waits, and a turn for everybody.
func (j *judge) shared(c Case) {
	for _, s := range j.among("mortise RWLock", "mortise Semaphore", "mortise PermitSemaphore") {
		j.most(c.Name, s, "commands per acquisition", sent, 3.1, trim)
		if !c.Main {
			continue
		}
		j.most(c.Name, s, "starved goroutines", starved, 0, trim)
		if c.Workload == "W9" {
			j.least(c.Name, s, "Jain", jain, 0.95, index)
			j.wait(c.Name, s, permitsGranted)
		}
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

// wait demands that the longest wait is not much longer than where waiters have their turns in order.
func (j *judge) wait(load, system, to string) {
	j.add(Goal{Case: load, System: system, Text: "worst wait ≤ 2 × that of " + to},
		j.Ratio(load, system, to, waitMax).Median, func(v float64) bool { return v <= 2 }, times)
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
