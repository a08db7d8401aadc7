package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
)

// maxRounds is how many rounds are enough.
const maxRounds = 5

// rounds runs loads again and again while there is time, in every round each
// load with all its systems, one after the other in an order that rotates.
type rounds struct {
	loads  []*load
	budget time.Duration
	most   int // rounds
	record *report.Record
	say    func(format string, args ...any)
	took   map[string]time.Duration // what a system needed under a load, by both names
}

// run fills the record. The first round is run in any case, unless ctx ends.
func (r *rounds) run(ctx context.Context) error {
	began := time.Now()
	defer func() { r.record.Took = time.Since(began).Seconds() }()
	r.took = make(map[string]time.Duration)
	for round := range r.most {
		if round > 0 && time.Since(began)+r.expected(round) > r.budget {
			return nil
		}
		for _, l := range r.loads {
			if err := r.load(ctx, l, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected is how long a round will take, by what the last one took.
func (r *rounds) expected(round int) (all time.Duration) {
	for _, l := range r.loads {
		for _, s := range l.in(round) {
			all += r.took[l.Name+" "+s.Name]
		}
	}
	return all
}

// in returns the systems that a load is run with in a round, in their order.
func (l *load) in(round int) (systems []*peer.System) {
	if l.rounds > 0 && round >= l.rounds {
		return nil
	}
	for i := range l.systems {
		s := peer.Find(l.systems[(i+round)%len(l.systems)])
		if s.Available != nil && s.Available() != nil {
			continue // the record says so
		}
		if s.Rounds == 0 || round < s.Rounds {
			systems = append(systems, s)
		}
	}
	return systems
}

// load runs all systems under one load.
func (r *rounds) load(ctx context.Context, l *load, round int) error {
	for i, s := range l.in(round) {
		if i == 0 {
			r.say("round %d, %s: %s", round+1, l.Name, l.Title)
		}
		start := time.Now()
		sample := report.Sample{Case: l.Name, System: s.Name, Round: round}
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
	}
	return nil
}

// trial is how system s is run under load l.
func trial(l *load, s *peer.System) *rig.Trial {
	t := &rig.Trial{
		System: s.Name, Server: s.Server, Worker: s.Worker,
		Specs: l.specs, Beside: l.beside, Pin: l.Pinned,
		Warmup: max(l.warmup, s.Warmup), Window: l.window,
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

// self is a worker of this program.
func self() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, "worker")
}

// progress writes to standard error.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
