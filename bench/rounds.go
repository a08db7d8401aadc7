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
}

// run fills the record. The first round is run in any case, unless ctx ends.
func (r *rounds) run(ctx context.Context) error {
	began := time.Now()
	defer func() { r.record.Took = time.Since(began).Seconds() }()
	var longest time.Duration // of the loads that are in all rounds
	for round := range r.most {
		if round > 0 && time.Since(began)+longest > r.budget {
			return nil
		}
		start, once := time.Now(), time.Duration(0)
		for _, l := range r.loads {
			if l.rounds > 0 && round >= l.rounds {
				continue
			}
			t := time.Now()
			if err := r.load(ctx, l, round); err != nil {
				return err
			}
			if l.rounds == round+1 {
				once += time.Since(t)
			}
		}
		longest = time.Since(start) - once
	}
	return nil
}

// load runs all systems under one load.
func (r *rounds) load(ctx context.Context, l *load, round int) error {
	r.say("round %d, %s: %s", round+1, l.Name, l.Title)
	for i := range l.systems {
		s := peer.Find(l.systems[(i+round)%len(l.systems)])
		if s.Available != nil && s.Available() != nil {
			continue // the record says so
		}
		if s.Rounds > 0 && round >= s.Rounds {
			continue
		}
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
