package lease

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// janitor releases leases in doubt that no request wants any more: a copy of a script
// that acquires can still be in a buffer on its way. One goroutine serves the whole
// client, and more run only while they ask Redis. So even if many requests are cancelled
// at once, each attempt in doubt costs only a few words of memory.
type janitor struct {
	client *Client
	wake   chan struct{} // capacity 1: the earliest stray has changed, or a worker is free

	mu      sync.Mutex // guards the fields below; locked before Client.Mu
	due     strays
	workers int  // number of goroutines that ask Redis
	running bool // its own goroutine runs, and reads wake
}

// janitorWorkers bounds how many releases are under way at once, and janitorTry how long
// one takes: a server that does not answer must not delay those of other servers.
const (
	janitorWorkers = 32
	janitorTry     = 2 * time.Second
)

// stray is a lease that no request wants, and that may be in Redis or get there.
type stray struct {
	of    releaser
	id    string
	start time.Time
	lease time.Duration // how long after start it is looked for
	next  time.Time     // when the next look is due
	pause time.Duration // after that look
}

// releaser releases strays.
type releaser interface {
	Release(ctx context.Context, id string) (bool, error)
}

// strays is a heap of strays, the earliest first.
type strays []*stray

func (s strays) Len() int           { return len(s) }
func (s strays) Less(i, j int) bool { return s[i].next.Before(s[j].next) }
func (s strays) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *strays) Push(x any)        { *s = append(*s, x.(*stray)) }

func (s *strays) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return x
}

// abandon makes sure that the lease id on p does not stay in Redis, although an attempt to
// acquire it may have succeeded, or may yet succeed. It sends releases at growing
// intervals, in the background, for as long as a lease lasts; it does not cover copies
// that arrive later. When the client is closed, it sends one more.
func (j *janitor) abandon(p releaser, id string, lease time.Duration) {
	j.abandonAfter(p, id, lease, 0)
}

// strayPause is how long after the first look for a stray the second one is.
const strayPause = 25 * time.Millisecond

// abandonAfter is abandon with the first release after that time.
func (j *janitor) abandonAfter(p releaser, id string, lease, after time.Duration) {
	now := time.Now()
	x := &stray{of: p, id: id, start: now, lease: lease, next: now.Add(after), pause: max(4*after, strayPause)}
	if !j.add(x) {
		_, _ = p.Release(j.client.lingerer, id) // Close leaves a moment for this
	}
}

// add puts x among the strays, and starts the janitor's goroutine if it does not run. It
// reports false if the goroutine does not run and the client is closed.
func (j *janitor) add(x *stray) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.running: // it looks again before it ends
		j.signal()
	case j.client.Background(j.clean):
		j.running = true
	default:
		return false
	}
	heap.Push(&j.due, x)
	return true
}

func (j *janitor) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// clean is the janitor's goroutine. It ends when there is nothing left to do.
func (j *janitor) clean(context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := j.client.done
	for {
		next, more := j.startWorkers()
		if !more {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-j.wake:
		case <-done:
			done = nil // everything is due now
		}
	}
}

// startWorkers starts workers for the strays that are due, and returns when the next ones are.
// It reports false if there are no strays any more.
func (j *janitor) startWorkers() (next time.Time, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now, closed := time.Now(), j.closed()
	for len(j.due) > 0 && (j.workers < janitorWorkers || closed) { // at Close no stray waits for another
		if !closed && j.due[0].next.After(now) {
			return j.due[0].next, true
		}
		x := heap.Pop(&j.due).(*stray)
		j.workers++
		j.client.Spawn(func(ctx context.Context) { j.work(ctx, x) })
	}
	j.running = len(j.due) > 0 || j.workers > 0
	return now.Add(time.Hour), j.running
}

// closed reports whether the client is closed, so that no stray is looked for more than once
// more.
func (j *janitor) closed() bool {
	select {
	case <-j.client.done:
		return true
	default:
		return false
	}
}

// work releases x, and then the strays that have become due.
func (j *janitor) work(ctx context.Context, x *stray) {
	for x != nil {
		last := j.closed() || time.Since(x.start) > x.lease
		try, cancel := context.WithTimeout(ctx, janitorTry)
		_, _ = x.of.Release(try, x.id) // finding one copy does not end the search: there may be several
		cancel()
		x = j.putBack(x, last)
	}
}

// putBack puts x back, unless that was the last look for it, and returns the next stray
// that is due, or nil.
func (j *janitor) putBack(x *stray, last bool) *stray {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if last {
		if k, ok := x.of.(*Lock); ok {
			defer j.client.Emit(outcome.Event{Type: outcome.EventResolved, Lock: k.Name(), Kind: k.traits.Kind, Owner: x.id})
		}
	} else {
		x.next = now.Add(x.pause)
		x.pause = min(4*x.pause, max(x.lease/4, time.Millisecond))
		heap.Push(&j.due, x)
	}
	if len(j.due) > 0 && (j.closed() || !j.due[0].next.After(now)) {
		return heap.Pop(&j.due).(*stray)
	}
	j.workers--
	j.signal()
	return nil
}

// Abandon makes sure that the lease id on p does not stay in Redis; see [janitor.abandon].
func (c *Client) Abandon(p releaser, id string, lease time.Duration) { c.janitor.abandon(p, id, lease) }

// AbandonSoon is abandon for a lease whose attempt is on its way: the first look is later.
func (c *Client) AbandonSoon(p releaser, id string, lease time.Duration) {
	c.janitor.abandonAfter(p, id, lease, strayPause)
}
