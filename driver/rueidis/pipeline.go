package rueidis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/pipeline"
)

// maxPipeline is how many commands are sent at once. For many more, the client would open a
// connection of their own.
const maxPipeline = 1000

// Scripts go through pipelines, one for each node, so that a caller can leave at any time. The
// client alone does not allow it in three cases. It ignores a context while its ring of pending
// commands is full, and while another call opens the connection. Given a deadline on a connection
// that is not shared yet, it waits until that deadline even if the context is cancelled before, and
// closes the connection when the deadline passes. A goroutine for each call would also do, and cost
// half of the speed; a pipeline costs none, because the client has less to do for one pipeline than
// for many single commands.
type (
	nodePipeline = pipeline.Pipeline[load]
	job          = pipeline.Job[load]
)

// load is the commands of a job, and their outcomes.
type load struct {
	cmds    []redis.Completed
	results []redis.RedisResult

	one       [1]redis.Completed // backs cmds if there is only one
	oneResult [1]redis.RedisResult
}

var jobs = sync.Pool{New: func() any { return pipeline.NewJob[load]() }}

// single returns a job of one command.
func single(cmd redis.Completed) *job {
	j := jobs.Get().(*job)
	j.Weight, j.Load.one[0] = 1, cmd
	j.Load.cmds, j.Load.results = j.Load.one[:], j.Load.oneResult[:]
	return j
}

// release takes back a job that was run without an error.
func release(j *job) {
	j.Load = load{}
	jobs.Put(j)
}

// sending is the context that the client sees.
//
// The client notices its end only on a connection that goroutines of the client read and write. A
// connection becomes such for good when two calls use it at once, or when a call has a context that
// can end and has no deadline. Until then the calling goroutine itself writes and reads, which
// saves two goroutine switches for each command, and only a deadline ends that. So this context
// always has one, and it is near: a limit that is short for a script is already long for a lock.
type sending struct{ *pipeline.Context }

// Deadline implements context.Context.
func (sending) Deadline() (time.Time, bool) { return time.Now().Add(replyLimit), true }

// patient reports whether the caller of a script need not be able to leave before the client gives
// up, and when it must leave at the latest.
func patient(ctx context.Context) (until time.Time, ok bool) {
	if d, known := ctx.(*driver.Deadline); known {
		until, _ = d.Deadline()
		return until, d.Left() == nil && time.Until(until) > replyLimit
	}
	return time.Now().Add(driver.Longest), ctx.Done() == nil
}

// run returns the result of one command.
func (d *Driver) run(ctx context.Context, l *nodePipeline, cmd redis.Completed) (redis.RedisResult, error) {
	if until, ok := patient(ctx); ok {
		if over := l.BeginInline(until); over != nil {
			defer l.EndInline()
			result := d.client.Do(sending{over}, cmd)
			if result.NonRedisError() == nil || over.Err() == nil {
				return result, nil
			}
			if ctx.Err() != nil {
				return result, driver.ContextError(ctx, driver.Unknown)
			}
			if d.life.Err() == nil {
				return result, &driver.Error{Class: driver.Unknown, Err: pipeline.ErrSlow}
			}
			return result, &driver.Error{Class: driver.Unknown, Err: errClosed}
		}
	}
	j := single(cmd)
	if err := l.Run(ctx, j); err != nil {
		return redis.RedisResult{}, err
	}
	result := j.Load.results[0]
	release(j)
	return result, nil
}

// send sends jobs, as one pipeline.
func (d *Driver) send(batch []*job) {
	ctx := sending{d.over}
	if len(batch) == 1 && len(batch[0].Load.cmds) == 1 {
		batch[0].Load.results[0] = d.client.Do(ctx, batch[0].Load.cmds[0])
		return
	}
	n := 0
	for _, j := range batch {
		n += len(j.Load.cmds)
	}
	// The client may still read the slice after it has returned, if the connection broke or the
	// reply was late: the slice is never reused.
	cmds := make([]redis.Completed, 0, n)
	for _, j := range batch {
		cmds = append(cmds, j.Load.cmds...)
	}
	results := d.client.DoMulti(ctx, cmds...)
	for _, j := range batch {
		results = results[copy(j.Load.results, results):]
	}
}

// pipelineOf returns the pipeline for a call. In a cluster, the client does not let scripts without
// keys share one with others.
func (d *Driver) pipelineOf(call *driver.Call) *nodePipeline {
	if !d.cluster || len(call.Keys) == 0 {
		return d.only
	}
	return d.pipelines.To(d.slots.owner(slotOf(call.Keys[0])))
}
