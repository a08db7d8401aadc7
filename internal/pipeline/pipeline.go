// Package pipeline sends the calls of many goroutines to one server: calls queue, and a few
// worker goroutines send what has gathered as one batch.
//
// This lets a caller leave at any time, whatever the client library does with a context, and
// a batch costs the library and the server less than as many single commands. A caller that
// cannot leave early anyway, and finds the pipeline idle, sends its call inline, which saves
// two goroutine switches.
package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

const (
	// maxWorkers is the limit of the workers of a pipeline, and so of the batches in flight.
	maxWorkers = 4
	// batchBias is how many callers must still queue after the pipeline was busy, even if they
	// find it idle.
	batchBias = 8
)

// Config configures pipelines. The pipelines of a driver share it.
type Config[T any] struct {
	// Send sends jobs and returns when each has its outcome. Several workers may call it at
	// once.
	Send func(jobs []*Job[T])
	// Left is called when the caller of a job that may have been sent stops waiting. It returns
	// the class of the error for that caller. It must not block. If it is nil, the class is
	// [driver.Unknown].
	Left func(j *Job[T]) driver.Class
	// Most is the largest total weight of a batch.
	Most int
	// Closing is closed before Close; callers then leave with the error Closed.
	Closing <-chan struct{}
	Closed  error
	// Running counts the workers and the inline callers. It grows only while the pipeline is
	// open.
	Running *sync.WaitGroup
}

// Pipeline sends calls to one server. Its methods are safe for concurrent use.
type Pipeline[T any] struct {
	config *Config[T]

	mu      sync.Mutex // guards the fields below, and the state of jobs
	wake    sync.Cond  // of mu: there is work, or the pipeline has closed
	queue   []*Job[T]
	left    int // jobs in the queue whose callers have left
	idle    int // workers without work
	workers int
	closed  bool

	// The state of the inline caller, see BeginInline.
	inline bool
	bias   int         // how many further callers must queue, because several came at once
	ctx    *Context    // what the inline caller sends with
	until  time.Time   // when the inline caller must leave; zero: no limit
	timer  *time.Timer // calls expire at alarm
	alarm  time.Time   // zero: not set
}

// New returns a pipeline. It starts no goroutine before the first job.
func New[T any](config *Config[T]) *Pipeline[T] {
	p := &Pipeline[T]{config: config}
	p.wake.L = &p.mu
	return p
}

type state uint8

const (
	queued state = iota
	taken        // it may have been sent
	left         // its caller left before it was sent
)

// Job is a call. It belongs to its caller, and to a worker while it is taken.
type Job[T any] struct {
	Load   T
	Weight int           // of the load
	state  state         // guarded by Pipeline.mu
	done   chan struct{} // capacity 1
	timer  *time.Timer   // for a caller with a fixed deadline
}

// NewJob returns a job. It can be run again after each Run that returned nil.
func NewJob[T any]() *Job[T] { return &Job[T]{done: make(chan struct{}, 1)} }

// Run returns nil when j has its outcome, or the reason why the caller must not wait any
// longer. After an error j must not be used again.
func (p *Pipeline[T]) Run(ctx context.Context, j *Job[T]) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return &driver.Error{Class: driver.Closed, Err: p.config.Closed}
	}
	j.state = queued
	p.queue = append(p.queue, j)
	if p.idle > 0 {
		p.wake.Signal()
	} else if p.workers < maxWorkers {
		p.workers++
		p.config.Running.Go(p.work)
	}
	p.mu.Unlock()

	var end <-chan struct{}
	var late <-chan time.Time
	if d, ok := ctx.(*driver.Deadline); ok { // its own timer would soon be garbage
		at, _ := d.Deadline()
		late, end = j.late(at), d.Left()
	} else {
		late, end = j.late(time.Now().Add(driver.Longest)), ctx.Done()
	}
	defer j.timer.Stop()
	closed := false
	select {
	case <-j.done:
		return nil
	case <-end:
	case <-late:
	case <-p.config.Closing:
		closed = true
	}
	sent, done := p.leave(j)
	if done {
		return nil
	}
	if closed {
		if sent == driver.NotSent {
			sent = driver.Closed
		}
		return &driver.Error{Class: sent, Err: p.config.Closed}
	}
	if ctx.Err() == nil {
		return &driver.Error{Class: sent, Err: ErrSlow}
	}
	return driver.ContextError(ctx, sent)
}

// ErrSlow is why a call has ended whose context has not.
var ErrSlow = fmt.Errorf("no answer within %v", driver.Longest)

// late returns a channel that receives at that time.
func (j *Job[T]) late(at time.Time) <-chan time.Time {
	if j.timer == nil {
		j.timer = time.NewTimer(time.Until(at))
	} else {
		j.timer.Reset(time.Until(at))
	}
	return j.timer.C
}

// leave gives up a job. It returns whether the job may have been sent, or is done.
func (p *Pipeline[T]) leave(j *Job[T]) (sent driver.Class, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.state == taken {
		select {
		case <-j.done: // both came at once: a reply is better than none
			return 0, true
		default:
		}
		if p.config.Left != nil {
			return p.config.Left(j), false
		}
		return driver.Unknown, false
	}
	// The queue of a server that is silent for long must not grow by abandoned jobs.
	j.state = left
	if p.left++; p.left > 64 && p.left > len(p.queue)/2 {
		p.queue = slices.DeleteFunc(p.queue, func(j *Job[T]) bool { return j.state == left })
		p.left = 0
	}
	return driver.NotSent, false
}

// take moves jobs from the queue to batch, up to the largest weight, and waits for the first.
// It reports false when the pipeline has closed.
func (p *Pipeline[T]) take(batch []*Job[T]) ([]*Job[T], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.closed {
		p.idle++
		p.wake.Wait()
		p.idle--
	}
	if p.closed {
		return batch, false // the queued jobs were not sent, and their callers leave
	}
	n, weight := 0, 0
	for ; n < len(p.queue) && (n == 0 || weight+p.queue[n].Weight <= p.config.Most); n++ {
		if p.queue[n].state == left {
			p.left--
			continue
		}
		p.queue[n].state = taken
		weight += p.queue[n].Weight
		batch = append(batch, p.queue[n])
	}
	p.queue = slices.Delete(p.queue, 0, n)
	return batch, true
}

// work sends jobs until the pipeline closes.
func (p *Pipeline[T]) work() {
	var batch []*Job[T]
	for {
		var ok bool
		if batch, ok = p.take(batch[:0]); !ok {
			return
		}
		if len(batch) > 0 {
			p.config.Send(batch)
		}
		for _, j := range batch {
			j.done <- struct{}{}
		}
		clear(batch)
	}
}

// Close ends the workers as soon as their current batches are done, and ends the context of
// the inline caller.
func (p *Pipeline[T]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake.Broadcast()
	p.cancelInline()
	if p.timer != nil {
		p.timer.Stop()
	}
}
