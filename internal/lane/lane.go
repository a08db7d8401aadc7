// Package lane is how the calls of many goroutines go to one server: they queue,
// and a few goroutines, the pumps, send what has gathered as one.
//
// So a caller can leave at any time, whatever the client library does with a
// context, and a crowd costs the library and the server less than so many single
// commands. A caller who cannot leave early anyway, and finds the lane empty,
// carries its call itself, which spares two changes of goroutine.
package lane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

const (
	// pumps is how many goroutines carry the calls of one lane, and so how many
	// pipelines may be under way at once.
	pumps = 4
	// crowdLasts is how many callers a lane that was busy takes through its
	// pumps even if they find it idle.
	crowdLasts = 8
)

// Config is what a lane needs to know. It is shared by the lanes of a driver.
type Config[T any] struct {
	// Send sends jobs and returns when each has its outcome. Pumps call it,
	// several at once.
	Send func(jobs []*Job[T])
	// Left is told that the caller of a job which may have been sent does not
	// wait any more, and answers what that one can be told. It must not block.
	// If it is nil the answer is [driver.Unknown].
	Left func(j *Job[T]) driver.Class
	// Most is how much weight is sent at once.
	Most int
	// Closing is closed before Close; callers leave then, with Closed.
	Closing <-chan struct{}
	Closed  error
	// Running counts the pumps and those who carry. It grows only while the
	// lane is open.
	Running *sync.WaitGroup
}

// Lane is the way to one server. Its methods are safe for concurrent use.
type Lane[T any] struct {
	config *Config[T]

	mu     sync.Mutex // guards what follows, and the state of jobs
	wake   sync.Cond  // of mu: there is work, or the end
	queue  []*Job[T]
	left   int // jobs in the queue whose callers have left
	idle   int // pumps that wait
	pumps  int
	closed bool

	// Of those who carry, one after the other, see Enter.
	carrying bool
	crowd    int         // how many more may not, as there were several at once
	over     *Over       // what they send with
	until    time.Time   // when this one must leave; zero: not by itself
	timer    *time.Timer // calls expire at alarm
	alarm    time.Time   // zero: not set
}

// New returns a lane. It starts no goroutine before there is a job.
func New[T any](config *Config[T]) *Lane[T] {
	l := &Lane[T]{config: config}
	l.wake.L = &l.mu
	return l
}

type state uint8

const (
	queued state = iota
	taken        // it may have been sent
	left         // its caller has left before that
)

// Job is a call. It belongs to its caller, and to a pump while it is taken.
type Job[T any] struct {
	Load   T
	Weight int           // of the load
	state  state         // guarded by Lane.mu
	done   chan struct{} // has room for one
	timer  *time.Timer   // for a caller that leaves at a certain instant
}

// NewJob returns a job, for one Run after the other that gives no error.
func NewJob[T any]() *Job[T] { return &Job[T]{done: make(chan struct{}, 1)} }

// Run returns nil when j has its outcome, or the reason why the caller must not
// wait for it any longer. After that j is lost.
func (l *Lane[T]) Run(ctx context.Context, j *Job[T]) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &driver.Error{Class: driver.Closed, Err: l.config.Closed}
	}
	j.state = queued
	l.queue = append(l.queue, j)
	if l.idle > 0 {
		l.wake.Signal()
	} else if l.pumps < pumps {
		l.pumps++
		l.config.Running.Go(l.pump)
	}
	l.mu.Unlock()

	var end <-chan struct{}
	var late <-chan time.Time
	if d, ok := ctx.(*driver.Deadline); ok { // its own timer would be garbage soon
		late = j.late(d)
		defer j.timer.Stop()
	} else {
		end = ctx.Done()
	}
	closed := false
	select {
	case <-j.done:
		return nil
	case <-end:
	case <-late:
	case <-l.config.Closing:
		closed = true
	}
	sent, done := l.leave(j)
	if done {
		return nil
	}
	if closed {
		if sent == driver.NotSent {
			sent = driver.Closed
		}
		return &driver.Error{Class: sent, Err: l.config.Closed}
	}
	return driver.ContextError(ctx, sent)
}

// late returns a channel on which something comes when d ends.
func (j *Job[T]) late(d *driver.Deadline) <-chan time.Time {
	at, _ := d.Deadline()
	if j.timer == nil {
		j.timer = time.NewTimer(time.Until(at))
	} else {
		j.timer.Reset(time.Until(at))
	}
	return j.timer.C
}

// leave gives up a job and tells whether it may have been sent, or is done.
func (l *Lane[T]) leave(j *Job[T]) (sent driver.Class, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.state == taken {
		select {
		case <-j.done: // both came at once: a reply is better than none
			return 0, true
		default:
		}
		if l.config.Left != nil {
			return l.config.Left(j), false
		}
		return driver.Unknown, false
	}
	// A server that is silent for long must not gather what nobody waits for.
	j.state = left
	if l.left++; l.left > 64 && l.left > len(l.queue)/2 {
		l.queue = slices.DeleteFunc(l.queue, func(j *Job[T]) bool { return j.state == left })
		l.left = 0
	}
	return driver.NotSent, false
}

// take moves jobs from the queue to batch, as many as are sent at once, and
// waits for some. It reports false at the end.
func (l *Lane[T]) take(batch []*Job[T]) ([]*Job[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.idle++
		l.wake.Wait()
		l.idle--
	}
	if l.closed {
		return batch, false // what is queued was not sent, and its callers leave
	}
	n, weight := 0, 0
	for ; n < len(l.queue) && (n == 0 || weight+l.queue[n].Weight <= l.config.Most); n++ {
		if l.queue[n].state == left {
			l.left--
			continue
		}
		l.queue[n].state = taken
		weight += l.queue[n].Weight
		batch = append(batch, l.queue[n])
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return batch, true
}

// pump sends jobs until the lane closes.
func (l *Lane[T]) pump() {
	var batch []*Job[T]
	for {
		var ok bool
		if batch, ok = l.take(batch[:0]); !ok {
			return
		}
		if len(batch) > 0 {
			l.config.Send(batch)
		}
		for _, j := range batch {
			j.done <- struct{}{}
		}
		clear(batch)
	}
}

// Close ends the pumps when they have done what they are at, and has who
// carries leave.
func (l *Lane[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
	l.dismiss()
	if l.timer != nil {
		l.timer.Stop()
	}
}
