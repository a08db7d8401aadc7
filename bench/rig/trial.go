package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// Trial is one run of one system under one load, with a server and workers of its own.
type Trial struct {
	System     string
	Server     func(pin bool) (Server, error)
	Worker     func() *exec.Cmd
	Second     *Member         // every second worker is its; nil: all are of one system
	Specs      []workload.Spec // what each worker runs
	Unmeasured int             // the first workers, which are started first and not measured
	Pin        bool            // server and workers share one CPU

	Warmup time.Duration // before the window
	Window time.Duration
	Grace  time.Duration // for the load to end of itself; default 5 s
	Limit  time.Duration // for the whole trial; a worker that is not done then has hung, and is killed
}

// Member is another system that takes part in a trial.
type Member struct {
	System string
	Worker func() *exec.Cmd
}

// member returns the system of worker i.
func (t *Trial) member(i int) Member {
	if t.Second != nil && i%2 == 1 {
		return *t.Second
	}
	return Member{t.System, t.Worker}
}

// Outcome is the result of a trial.
type Outcome struct {
	Result *workload.Result
	Server Usage // while it was observed, in the window

	ServerSeconds float64 // duration of the observation
	ServerMemory  float64 // bytes that the server had more at the beginning of the window than before the load
	SecondShare   float64 // acquisitions of the second system, as a multiple of its even share; 0 without one
}

// stopGrace is how long an idle worker may take to end.
const stopGrace = 3 * time.Second

// Run runs the trial. Whatever happens, it leaves nothing behind.
func (t *Trial) Run(ctx context.Context) (*Outcome, error) {
	o, err := t.run(ctx)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not done within %v: %w", t.Limit, err)
	}
	return o, err
}

func (t *Trial) run(ctx context.Context) (*Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "mortise-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's directory for temporary files
	gate, err := newGate(dir)
	if err != nil {
		return nil, err
	}
	server, err := t.Server(t.Pin)
	if err != nil {
		return nil, err
	}
	defer server.Stop()

	var workers []*Process
	defer func() {
		grace := stopGrace
		if ctx.Err() != nil {
			grace = 0
		}
		var stopped sync.WaitGroup
		for _, w := range workers {
			stopped.Go(func() { w.Stop(grace) })
		}
		stopped.Wait()
	}()
	for i := range t.Specs {
		w, err := Start(t.member(i).Worker(), t.Pin)
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	err = each(workers, func(i int, w *Process) error {
		_, err := w.do(ctx, "open", &Order{System: t.member(i).System, Addr: server.Addr(), Gate: gate, Spec: t.Specs[i], Grace: t.Grace})
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.measure(ctx, server, workers)
}

// measure takes connected workers through the phases of their load.
func (t *Trial) measure(ctx context.Context, server Server, workers []*Process) (*Outcome, error) {
	unmeasured, measured := workers[:t.Unmeasured], workers[t.Unmeasured:]
	empty, err := server.Usage()
	if err != nil {
		return nil, err
	}
	for _, part := range [][]*Process{unmeasured, measured} {
		if _, err := all(ctx, part, "start"); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, t.Warmup); err != nil {
		return nil, err
	}
	if _, err := all(ctx, workers, "begin"); err != nil {
		return nil, err
	}
	looked := time.Now()
	before, err := server.Usage()
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, t.Window); err != nil {
		return nil, err
	}
	after, err := server.Usage()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(looked).Seconds()
	results, err := all(ctx, measured, "end")
	if err != nil {
		return nil, err
	}
	if _, err := all(ctx, unmeasured, "end"); err != nil {
		return nil, err
	}
	return &Outcome{
		Result: workload.Merge(results...), Server: after.Since(before),
		ServerSeconds: seconds, ServerMemory: before.Memory - empty.Memory, SecondShare: t.secondShare(results),
	}, nil
}

// secondShare returns what the second system got, as a multiple of what its goroutines would get if all
// got the same.
func (t *Trial) secondShare(results []*workload.Result) float64 {
	var acquired, goroutines [2]float64
	for i, r := range results {
		acquired[i%2] += float64(r.Acquisitions())
		goroutines[i%2] += float64(len(r.Counts) + len(r.Writers))
	}
	all := acquired[0] + acquired[1]
	if t.Second == nil || all == 0 || goroutines[1] == 0 {
		return 0
	}
	return acquired[1] / all * (goroutines[0] + goroutines[1]) / goroutines[1]
}

// do sends a command and waits for its answer.
func (p *Process) do(ctx context.Context, do string, order *Order) (*workload.Result, error) {
	if err := p.send(do, order); err != nil {
		return nil, err
	}
	return p.await(ctx, do)
}

// all sends a command to all workers at the same time.
func all(ctx context.Context, workers []*Process, do string) ([]*workload.Result, error) {
	results := make([]*workload.Result, len(workers))
	err := each(workers, func(i int, w *Process) (err error) {
		results[i], err = w.do(ctx, do, nil)
		if err == nil && do == "end" && results[i] == nil {
			err = errors.New("the worker ended its load without a result")
		}
		return err
	})
	return results, err
}

// each calls do for all workers at the same time, and returns the error of the first worker that
// has one.
func each(workers []*Process, do func(i int, w *Process) error) error {
	errs := make([]error, len(workers))
	var done sync.WaitGroup
	for i, w := range workers {
		done.Go(func() { errs[i] = do(i, w) })
	}
	done.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("worker %d of %d: %w", i+1, len(workers), err)
		}
	}
	return nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
