package goredis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/pipeline"
)

// Scripts go through pipelines, one for each node, because go-redis takes a connection, and writes
// to it and reads from it, for each command that is sent alone. Its own batching, AutoPipeline,
// is not for scripts that must be sent once: it may resend what the server has run.
type (
	nodePipeline = pipeline.Pipeline[load]
	job          = pipeline.Job[load]
)

// load is the command of a job, and its outcome.
type load struct {
	cmd  *command
	ctx  context.Context // the caller's
	gone chan struct{}   // closed when the caller has left
	err  error           // of cmd
}

var jobs = sync.Pool{New: func() any {
	j := pipeline.NewJob[load]()
	j.Weight, j.Load.gone = 1, make(chan struct{})
	return j
}}

// patient reports whether the caller of a script need not be able to leave while it is written or
// read, and until when it may wait for a connection.
func (d *Driver) patient(ctx context.Context) (until time.Time, ok bool) {
	if deadline, known := ctx.(*driver.Deadline); known {
		at, _ := deadline.Deadline()
		if until = deadline.Latest().Add(-d.limit); at.Before(until) {
			until = at
		}
		return until, deadline.Left() == nil && d.limit > 0 && time.Until(until) > time.Second
	}
	return time.Now().Add(driver.Longest), ctx.Done() == nil
}

// run runs one script and returns its reply.
func (d *Driver) run(ctx context.Context, l *nodePipeline, cmd *command) (any, error) {
	if ctx.Err() != nil {
		return nil, driver.ContextError(ctx, driver.NotSent)
	}
	if until, ok := d.patient(ctx); ok {
		if over := l.BeginInline(until); over != nil {
			defer l.EndInline()
			return d.outcome(cmd, d.client.Process(seen(ctx, over), cmd))
		}
	}
	j := jobs.Get().(*job)
	j.Load.cmd, j.Load.ctx = cmd, ctx
	if err := l.Run(ctx, j); err != nil {
		return nil, d.hinted(err)
	}
	err := j.Load.err
	j.Load.cmd, j.Load.ctx, j.Load.err = nil, nil, nil
	jobs.Put(j)
	return d.outcome(cmd, err)
}

// hinted returns err, with a word of TLS if the client has never had a connection: a server that expects none does not
// answer a handshake.
func (d *Driver) hinted(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && e.Class == driver.NotSent && d.secure != nil && d.secure.PoolStats().TotalConns == 0 {
		e.Hint = "the client uses TLS: does the server, on this port?"
	}
	return err
}

// seen is the context that go-redis sees for an inline call. It must not change later, because
// go-redis may look at it after the call.
func seen(ctx context.Context, over *pipeline.Context) context.Context {
	if deadline, known := ctx.(*driver.Deadline); known {
		ctx = deadline.Values()
	}
	if ctx == context.Background() {
		return over // ctx has no values
	}
	return callContext{ctx, over.Done()}
}

// send sends jobs: a single one with the values of its caller's context, several as one pipeline.
func (d *Driver) send(batch []*job) {
	if len(batch) == 1 {
		j := batch[0]
		j.Load.err = d.client.Process(callContext{j.Load.ctx, j.Load.gone}, j.Load.cmd)
		return
	}
	// From here on, a caller that leaves must not interrupt the write, which is that of all.
	together := batch[:0:0]
	for _, j := range batch {
		if j.Load.cmd.join() {
			together = append(together, j)
		}
	}
	if len(together) == 0 {
		return
	}
	_, err := d.client.Pipelined(d.over, func(p redis.Pipeliner) error {
		for _, j := range together {
			if err := p.Process(d.over, j.Load.cmd); err != nil {
				return err
			}
		}
		return nil
	})
	for _, j := range together {
		if j.Load.err = j.Load.cmd.Err(); j.Load.err == nil && j.Load.cmd.Val() == nil {
			j.Load.err = err
		}
	}
}

// leave is called when the caller of a job that may have been sent has left.
func (d *Driver) leave(j *job) driver.Class {
	close(j.Load.gone) // otherwise it would go on waiting for a connection
	return j.Load.cmd.abandon()
}

// pipelineOf returns the pipeline for a script.
func (d *Driver) pipelineOf(call *driver.Call) *nodePipeline {
	if d.cluster == nil || len(call.Keys) == 0 {
		return d.only
	}
	return d.pipelines.To(d.Shard(call.Keys[0]))
}
