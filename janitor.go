package mortise

import (
	"container/heap"
	"context"
	"time"
)

// janitor releases leases in doubt that no request wants any more: a copy of a script
// that acquires can still be in a buffer on its way. One goroutine serves the whole
// client, and more run only while they ask Redis. So even if many requests are cancelled
// at once, each attempt in doubt costs only a few words of memory.
//
// Everything here is guarded by Client.mu.
type janitor struct {
	due     strays
	hands   int           // number of goroutines that ask Redis
	running bool          // its own goroutine runs
	wake    chan struct{} // capacity 1: the earliest stray has changed, or a hand is free
}

// janitorHands bounds how many releases are under way at once, and janitorTry how long
// one takes: a server that does not answer must not delay those of other servers.
const (
	janitorHands = 32
	janitorTry   = 2 * time.Second
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
	release(ctx context.Context, id string) (bool, error)
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
func (c *Client) abandon(p releaser, id string, lease time.Duration) {
	c.lookFor(p, id, lease, 0)
}

// strayPause is how long after the first look for a stray the second one is.
const strayPause = 25 * time.Millisecond

// lookFor is abandon with the first look after that time.
func (c *Client) lookFor(p releaser, id string, lease, after time.Duration) {
	now := time.Now()
	x := &stray{of: p, id: id, start: now, lease: lease, next: now.Add(after), pause: max(4*after, strayPause)}
	c.mu.Lock()
	j := &c.janitor
	switch {
	case j.running:
		heap.Push(&j.due, x)
		j.signal()
	case !c.closed:
		heap.Push(&j.due, x)
		if j.wake == nil {
			j.wake = make(chan struct{}, 1)
		}
		j.running = true
		c.spawn(func(context.Context) { c.clean() })
	default:
		c.mu.Unlock()
		_, _ = p.release(c.lingerer, id) // Close leaves a moment for this
		return
	}
	c.mu.Unlock()
}

func (j *janitor) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// clean is the janitor's goroutine. It ends when there is nothing left to do.
func (c *Client) clean() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	done := c.done
	for {
		next, more := c.handOut()
		if !more {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-c.janitor.wake:
		case <-done:
			done = nil // everything is due now
		}
	}
}

// handOut starts hands for the strays that are due, and returns when the next ones are.
// It reports false if there are no strays any more.
func (c *Client) handOut() (next time.Time, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, now := &c.janitor, time.Now()
	next = now.Add(time.Hour)
	for len(j.due) > 0 && (j.hands < janitorHands || c.closed) { // at Close no stray waits for another
		if !c.closed && j.due[0].next.After(now) {
			return j.due[0].next, true
		}
		x := heap.Pop(&j.due).(*stray)
		j.hands++
		c.spawn(func(ctx context.Context) { c.look(ctx, x) })
	}
	j.running = len(j.due) > 0 || j.hands > 0
	return next, j.running
}

// look releases x, and then the strays that have become due.
func (c *Client) look(ctx context.Context, x *stray) {
	for x != nil {
		c.mu.Lock()
		last := c.closed || time.Since(x.start) > x.lease
		c.mu.Unlock()
		try, cancel := context.WithTimeout(ctx, janitorTry)
		_, _ = x.of.release(try, x.id) // finding one copy does not end the search: there may be several
		cancel()
		x = c.looked(x, last)
	}
}

// looked puts x back, unless that was the last look for it, and returns the next stray
// that is due, or nil.
func (c *Client) looked(x *stray, last bool) *stray {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, now := &c.janitor, time.Now()
	if !last {
		x.next = now.Add(x.pause)
		x.pause = min(4*x.pause, max(x.lease/4, time.Millisecond))
		heap.Push(&j.due, x)
	}
	if len(j.due) > 0 && (c.closed || !j.due[0].next.After(now)) {
		return heap.Pop(&j.due).(*stray)
	}
	j.hands--
	j.signal()
	return nil
}
