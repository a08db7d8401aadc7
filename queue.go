package mortise

import "github.com/mortise-go/mortise/internal/hub"

// queue is the line of goroutines of one client that wait for one name. Only
// its head asks Redis; the others cost Redis nothing. It exists while somebody
// waits.
//
// Everything here is guarded by Client.mu.
type queue struct {
	head, tail *waiter
	listener   *hub.Listener // opened by the first head that was refused
}

// waiter is one goroutine in a queue.
type waiter struct {
	owner      *owner
	wake       chan struct{} // capacity 1: look again
	prev, next *waiter
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// claim reports whether nobody in this process holds name, waits for it or
// asks for it. Then the caller may ask Redis without queueing, and must call
// unclaim afterwards; all others queue behind it.
func (c *Client) claim(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, asking := c.asking[name]; asking || c.queues[name] != nil || c.held[name] != nil {
		return false
	}
	c.asking[name] = struct{}{}
	return true
}

func (c *Client) unclaim(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, name)
	if q := c.queues[name]; q != nil {
		q.head.signal()
	}
}

// join adds a goroutine to the queue for name: at the end, or in front of all
// who came while it asked.
func (c *Client) join(name string, o *owner, front bool) *waiter {
	w := &waiter{owner: o, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	switch {
	case q == nil:
		q = &queue{head: w, tail: w}
		c.queues[name] = q
	case front:
		w.next, q.head.prev = q.head, w
		q.head = w
	default:
		w.prev, q.tail.next = q.tail, w
		q.tail = w
	}
	return w
}

// leave removes w from the queue for name. If w was the head, the next one is
// woken to take its place.
func (c *Client) leave(name string, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	wasHead := q.head == w
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	switch {
	case q.head == nil:
		delete(c.queues, name)
		if q.listener != nil {
			q.listener.Close()
		}
	case wasHead:
		q.head.signal()
	}
}

// turnOf reports whether w is the head of its queue, so that it may ask Redis,
// and whether there is no sense in asking because somebody in this process
// holds the lock or is about to.
func (c *Client) turnOf(name string, w *waiter) (head, local bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, asking := c.asking[name]
	return c.queues[name].head == w, asking || c.held[name] != nil
}

// listen opens the subscription of the queue for name, unless it is open.
func (c *Client) listen(name, channel string, kind hub.Kind) *hub.Listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q.listener == nil {
		q.listener = c.hub.Listen(channel, kind)
	}
	return q.listener
}

// granted notes that l is held now. Those who wait for the same lock on behalf
// of the same owner are woken: they can re-enter. It reports false if the
// client was closed meanwhile.
//
// A lease of this client that was thought to be held is not: Redis has given
// the lock to another one.
func (c *Client) granted(l *lease) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	former := c.held[l.name]
	l.mu.Lock()
	if l.ended == nil { // else it was lost meanwhile, and would never be removed
		c.held[l.name] = l
	}
	l.mu.Unlock()
	if q := c.queues[l.name]; q != nil {
		for w := q.head; w != nil; w = w.next {
			if w.owner == l.owner {
				w.signal()
			}
		}
	}
	c.mu.Unlock()
	if former != nil {
		former.end(&LostError{Reason: LostTaken})
	}
	return true
}

// freed notes that l is held no more, and lets the first who waits in this
// process ask for the lock. This is where a lease will be passed on without
// Redis.
func (c *Client) freed(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[l.name] == l {
		delete(c.held, l.name)
	}
	if q := c.queues[l.name]; q != nil {
		q.head.signal()
	}
}
