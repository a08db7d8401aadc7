package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// queued is a run of goroutines that wait for a lock that is never free.
type queued struct {
	cancel  context.CancelFunc
	ended   chan struct{} // closed when all goroutines have ended
	left    atomic.Int64  // goroutines that have not ended
	footing footing
	n       int
	each    *Footprint
	began   time.Time
	before  usage

	over     atomic.Bool
	acquired atomic.Int64
	failures atomic.Int64
	failure  atomic.Pointer[string]
}

// startQueued makes spec.N goroutines wait for one lock, which another process or client must
// hold. Unless the lock is Shared, each waits for its own.
func startQueued(ctx context.Context, locker Locker, spec Spec) *queued {
	q := &queued{n: spec.N, ended: make(chan struct{})}
	ctx, q.cancel = context.WithCancel(ctx)
	keys := make([]string, spec.N)
	for i := range keys {
		keys[i] = spec.key(i)
	}
	q.footing = standing()
	q.left.Store(int64(spec.N))
	var ready sync.WaitGroup
	ready.Add(spec.N)
	for _, key := range keys {
		go func() {
			ready.Done()
			q.wait(ctx, locker, key)
			if q.left.Add(-1) == 0 {
				close(q.ended)
			}
		}()
	}
	ready.Wait()
	return q
}

func (q *queued) wait(ctx context.Context, locker Locker, key string) {
	for ctx.Err() == nil {
		hold, err := locker.Lock(ctx, key)
		switch {
		case err == nil:
			q.acquired.Add(1)
			err = hold.Unlock()
		case q.over.Load():
			return
		}
		if err != nil {
			q.failed(err)
		}
	}
}

func (q *queued) failed(err error) {
	q.failures.Add(1)
	text := err.Error()
	q.failure.CompareAndSwap(nil, &text)
}

// Begin implements [Running].
func (q *queued) Begin() {
	q.each = q.footing.each(q.n)
	q.before, q.began = used(), time.Now()
}

// End implements [Running].
func (q *queued) End(grace time.Duration) *Result {
	r := &Result{Seconds: time.Since(q.began).Seconds(), Each: q.each}
	q.before.since(r)
	r.Each.Acquired = int(q.acquired.Load())
	r.Failures = q.failures.Load()
	if text := q.failure.Load(); text != nil {
		r.Failure = *text
	}
	q.over.Store(true)
	q.cancel()
	select {
	case <-q.ended:
	case <-time.After(grace):
	}
	r.Hung = int(q.left.Load())
	return r
}
