package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
)

// maxRounds is the limit of rounds.
const maxRounds = 5

// rounds repeats loads while there is time. In every round it runs each load with all its systems,
// one after another in a rotating order.
type rounds struct {
	loads  []*load
	budget time.Duration
	most   int // rounds
	record *report.Record
	say    func(format string, args ...any)
	took   map[string]time.Duration // duration of a system under a load, by both names
}

// run fills the record. It always runs the first round, unless ctx ends.
func (r *rounds) run(ctx context.Context) error {
	began := time.Now()
	defer func() { r.record.Took = time.Since(began).Seconds() }()
	r.took = make(map[string]time.Duration)
	for round := range r.most {
		if round > 0 && time.Since(began)+r.expected(round) > r.budget {
			return nil
		}
		for i, l := range r.loads {
			where := fmt.Sprintf("after %v: round %d, load %d of %d", time.Since(began).Round(time.Second), round+1, i+1, len(r.loads))
			if err := r.load(ctx, l, round, where); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected returns how long a round will take, judging by the last one.
func (r *rounds) expected(round int) (all time.Duration) {
	for _, l := range r.loads {
		for _, turn := range l.turnsOf(round) {
			for _, s := range l.in(turn) {
				all += r.took[l.Name+" "+s.Name]
			}
		}
	}
	return all
}

// turnsOf returns the numbers of the turns in a round, counted over all rounds.
func (l *load) turnsOf(round int) (turns []int) {
	if l.rounds > 0 && round >= l.rounds {
		return nil
	}
	n := max(l.turns, 1)
	for turn := range n {
		turns = append(turns, round*n+turn)
	}
	return turns
}

// in returns the systems that have a turn, in order.
func (l *load) in(turn int) (systems []*peer.System) {
	for i := range l.systems {
		s := peer.Find(l.systems[(i+turn)%len(l.systems)])
		if s.Available != nil && s.Available() != nil {
			continue // the record reports it
		}
		if l.turns > 0 && turn%l.turns >= fewTurns && !slices.Contains(l.often, s.Name) {
			continue
		}
		if s.Rounds == 0 || turn < s.Rounds {
			systems = append(systems, s)
		}
	}
	return systems
}

// load runs all systems under one load. where says how far the run is.
func (r *rounds) load(ctx context.Context, l *load, round int, where string) error {
	for i, turn := range l.turnsOf(round) {
		if i == 0 {
			r.say("%s, %s: %s", where, l.Name, l.Title)
		}
		for _, s := range l.in(turn) {
			if err := r.turn(ctx, l, s, turn); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn runs a system under a load once.
func (r *rounds) turn(ctx context.Context, l *load, s *peer.System, turn int) error {
	start := time.Now()
	sample := report.Sample{Case: l.Name, System: s.Name, Round: turn}
	outcome, err := trial(l, s).Run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		sample.Error = err.Error()
	} else {
		sample.Figures = report.NewFigures(outcome, s.Sends)
	}
	r.took[l.Name+" "+s.Name] = time.Since(start)
	r.record.Samples = append(r.record.Samples, sample)
	r.say("  %-36s %s", s.Name, report.Brief(&sample))
	return nil
}

// trial returns the trial of system s under load l.
func trial(l *load, s *peer.System) *rig.Trial {
	t := &rig.Trial{
		System: s.Name, Server: s.Server, Worker: s.Worker,
		Specs: l.specs, Unmeasured: l.unmeasured, Pin: l.Pinned,
		Warmup: max(l.warmup, s.Warmup), Window: l.window, Grace: l.release,
	}
	if second := peer.Find(s.Beside); second != nil {
		t.Second = &rig.Member{System: second.Name, Worker: second.Worker}
	}
	if l.server != nil {
		t.Server = l.server
	}
	t.Limit = s.Ready + t.Warmup + t.Window + l.grace
	if t.Server == nil {
		t.Server = rig.StartRedis
	}
	if t.Worker == nil {
		t.Worker = self
	}
	return t
}

// self returns the command of a worker: this program.
func self() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, "worker")
}

// progress writes to standard error.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
