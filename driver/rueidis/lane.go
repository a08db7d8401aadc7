package rueidis

import (
	"context"
	"slices"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

const (
	// pumps is how many goroutines carry the scripts of one lane, and so how
	// many pipelines may be under way at once.
	pumps = 4
	// pipeline is how many commands are sent as one. Of many more, the client
	// would open a connection of their own.
	pipeline = 1000
)

// lane takes scripts to one node. Calls queue in it, and a few goroutines take
// what has gathered through the client, as one pipeline each.
//
// So a caller can leave at any time. The client alone does not let it: it
// waits without regard to a context while its ring of pending commands is
// full, while another call opens the connection, and, given a deadline on a
// connection that nobody shares yet, until that deadline even if the context
// is cancelled before, and closes the connection when it passes. A goroutine
// for each call would do as well, and cost half of the speed; this costs none,
// as the client has less to do for one pipeline than for many single commands.
// Who cannot leave early anyway, and finds the lane empty, needs no goroutine.
type lane struct {
	driver *Driver

	mu     sync.Mutex // guards what follows, and the state of jobs
	wake   sync.Cond  // of mu: there is work, or the end
	queue  []*job
	left   int // jobs in the queue whose callers have left
	idle   int // pumps that wait
	pumps  int
	closed bool

	// Of the caller who carries its own command, see carry.
	carrying bool
	crowd    int         // how many more callers may not, as there were several at once
	own      *sending    // of who carries, one after the other
	until    time.Time   // when that one must leave; zero: not by itself
	timer    *time.Timer // calls expire at alarm
	alarm    time.Time   // zero: not set
}

func newLane(d *Driver) *lane {
	l := &lane{driver: d}
	l.wake.L = &l.mu
	return l
}

type state uint8

const (
	queued state = iota
	taken        // it may have been sent
	left         // its caller has left before that
)

// job is a part of a pipeline. It belongs to its caller, and to a pump while
// it is taken.
type job struct {
	cmds    []redis.Completed
	results []redis.RedisResult
	state   state         // guarded by lane.mu
	done    chan struct{} // has room for one

	one       [1]redis.Completed // of cmds, if there is one
	oneResult [1]redis.RedisResult
}

var jobs = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// single returns a job of one command.
func single(cmd redis.Completed) *job {
	j := jobs.Get().(*job)
	j.one[0] = cmd
	j.cmds, j.results = j.one[:], j.oneResult[:]
	return j
}

// release takes back a job that run has returned without an error.
func (j *job) release() {
	j.cmds, j.results, j.state = nil, nil, queued
	j.one, j.oneResult = [1]redis.Completed{}, [1]redis.RedisResult{}
	jobs.Put(j)
}

// one returns the result of one command.
func (l *lane) one(ctx context.Context, cmd redis.Completed) (redis.RedisResult, error) {
	if result, carried, err := l.carry(ctx, cmd); carried {
		return result, err
	}
	j := single(cmd)
	if err := l.run(ctx, j); err != nil {
		return redis.RedisResult{}, err
	}
	result := j.results[0]
	j.release()
	return result, nil
}

// run returns when the results of j are there, or the caller must not wait for
// them any longer. After an error j is lost.
func (l *lane) run(ctx context.Context, j *job) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &driver.Error{Class: driver.NotSent, Err: errClosed}
	}
	l.queue = append(l.queue, j)
	if l.idle > 0 {
		l.wake.Signal()
	} else if l.pumps < pumps {
		l.pumps++
		l.driver.running.Go(l.pump)
	}
	l.mu.Unlock()

	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		sent, done := l.leave(j)
		if done {
			return nil
		}
		return driver.ContextError(ctx, sent)
	case <-l.driver.closing:
		sent, done := l.leave(j)
		if done {
			return nil
		}
		return &driver.Error{Class: sent, Err: errClosed}
	}
}

// leave gives up a job and tells whether it may have been sent, or is done.
func (l *lane) leave(j *job) (sent driver.Class, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.state == taken {
		select {
		case <-j.done: // both came at once: a reply is better than none
			return 0, true
		default:
			return driver.Unknown, false
		}
	}
	// A node that is silent for long must not gather what nobody waits for.
	j.state = left
	if l.left++; l.left > 64 && l.left > len(l.queue)/2 {
		l.queue = slices.DeleteFunc(l.queue, func(j *job) bool { return j.state == left })
		l.left = 0
	}
	return driver.NotSent, false
}

// take moves jobs from the queue to batch, as many as make a pipeline, and
// waits for some. It reports false at the end.
func (l *lane) take(batch []*job) ([]*job, bool) {
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
	n, commands := 0, 0
	for ; n < len(l.queue) && (n == 0 || commands+len(l.queue[n].cmds) <= pipeline); n++ {
		if l.queue[n].state == left {
			l.left--
			continue
		}
		l.queue[n].state = taken
		commands += len(l.queue[n].cmds)
		batch = append(batch, l.queue[n])
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return batch, true
}

// pump carries jobs until the driver closes.
func (l *lane) pump() {
	var batch []*job
	var cmds []redis.Completed
	for {
		var ok bool
		if batch, ok = l.take(batch[:0]); !ok {
			return
		}
		cmds = cmds[:0]
		for _, j := range batch {
			cmds = append(cmds, j.cmds...)
		}
		switch len(cmds) {
		case 0:
		case 1:
			batch[0].results[0] = l.driver.client.Do(l.driver.sending, cmds[0])
			batch[0].done <- struct{}{}
		default:
			results := l.driver.client.DoMulti(l.driver.sending, cmds...)
			for _, j := range batch {
				results = results[copy(j.results, results):]
				j.done <- struct{}{}
			}
		}
		clear(batch)
		clear(cmds)
	}
}

// close ends the pumps when they have done what they are at.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
	l.dismiss()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// lane returns the lane to a node.
func (d *Driver) lane(node string) *lane {
	d.mu.RLock()
	l := d.lanes[node]
	d.mu.RUnlock()
	if l != nil {
		return l
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l = d.lanes[node]; l == nil {
		l = newLane(d)
		l.closed = d.closed
		d.lanes[node] = l
	}
	return l
}

// noKey is the lane of scripts without keys in a cluster. The client does not
// let them share a pipeline with others.
const noKey = "no key"

// laneOf returns the lane for a call.
func (d *Driver) laneOf(call *driver.Call) *lane {
	switch {
	case !d.cluster:
		return d.only
	case len(call.Keys) == 0:
		return d.lane(noKey)
	default:
		return d.lane(d.slots.owner(slotOf(call.Keys[0])))
	}
}
