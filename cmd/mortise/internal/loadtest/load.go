package loadtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/workload"
)

// client is a client whose commands are counted.
type client struct {
	*mortise.Client
	driver counted
}

// connect returns a client whose commands count as those of the load test.
func (t *loadTest) connect(ctx context.Context, options mortise.Options) (*client, error) {
	d, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	c := counted{Driver: d, sent: &t.sent}
	return &client{Client: mortise.New(c, &options), driver: c}, nil
}

// leave closes a client at the end of its work: an error would not matter any more.
func (c *client) leave() { _ = c.Close() }

// locker lets a workload use a client. The first error ends the load: later figures would not tell
// what locks cost.
type locker struct {
	client *client
	fail   context.CancelCauseFunc
}

// Lock implements workload.Locker.
func (l locker) Lock(ctx context.Context, key string) (workload.Hold, error) {
	h, _, err := l.client.Lock(key).Lock(ctx) // the workload checks the hold instead of its context
	if err != nil {
		if ctx.Err() == nil {
			l.fail(err)
		}
		return nil, err
	}
	return hold{h, l.fail}, nil
}

type hold struct {
	*mortise.Hold
	fail context.CancelCauseFunc
}

// Unlock implements workload.Hold.
func (h hold) Unlock() error {
	err := h.Hold.Unlock()
	if err != nil {
		h.fail(err)
	}
	return err
}

// load is the load of one part of the test.
type load struct {
	spec    workload.Spec // of each client
	clients []*client
	warmup  time.Duration
	window  time.Duration
}

// outcome is the result of a load.
type outcome struct {
	*workload.Result
	sent    int64 // commands in the window
	batches int64 // those that renewed locks
	batched int64 // locks that were renewed in the window
}

// put puts a load on the server, and returns when it is gone.
func (t *loadTest) put(ctx context.Context, l load) (outcome, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var gate workload.Gate
	var running []workload.Running
	for i, client := range l.clients {
		l.spec.Process = i
		run, err := workload.Start(ctx, locker{client, fail}, l.spec, &gate)
		if err != nil {
			fail(err)
			break
		}
		running = append(running, run)
	}
	pause(ctx, l.warmup)
	for _, run := range running {
		run.Begin()
	}
	sent, batches, batched := t.sent.commands.Load(), t.sent.batches.Load(), t.sent.batched.Load()
	pause(ctx, l.window)
	o := outcome{
		sent: t.sent.commands.Load() - sent, batches: t.sent.batches.Load() - batches, batched: t.sent.batched.Load() - batched,
	}
	results := make([]*workload.Result, len(running))
	var ending sync.WaitGroup
	for i, run := range running { // together, so that all stop at the same time
		ending.Go(func() { results[i] = run.End(grace) })
	}
	ending.Wait()
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	o.Result = workload.Merge(results...)
	if o.Hung > 0 {
		return o, fmt.Errorf("%w: %d goroutines are still waiting for it after %v", mortise.ErrUnreachable, o.Hung, grace)
	}
	if l.spec.Kind == workload.Cycle && o.Acquisitions() == 0 {
		return o, &NoLockError{Within: l.window}
	}
	return o, nil
}

// grace is how long the goroutines of a load may take to stop.
const grace = 15 * time.Second

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ping is a script that does nothing.
var ping = driver.NewScript("ping", "return 1")

// roundTrips measures how long a script takes that does nothing, one call after another.
func (t *loadTest) roundTrips(ctx context.Context, c *client, window time.Duration) (*workload.Histogram, error) {
	call := driver.Call{Script: ping, Keys: []string{t.Prefix + "ping"}}
	if _, err := c.driver.Eval(ctx, call); err != nil { // it may have to be loaded
		return nil, &RoundTripError{Err: err}
	}
	var seen workload.Histogram
	for end := time.Now().Add(window); ; {
		start := time.Now()
		if start.After(end) && seen.Count() > 0 {
			return &seen, nil
		}
		if _, err := c.driver.Eval(ctx, call); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &RoundTripError{Err: err}
		}
		seen.Add(time.Since(start))
	}
}
