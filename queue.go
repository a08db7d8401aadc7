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

// join adds a goroutine at the end of the queue for name.
func (c *Client) join(name string, o *owner) *waiter {
	w := &waiter{owner: o, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		q = &queue{}
		c.queues[name] = q
	}
	if w.prev = q.tail; w.prev == nil {
		q.head = w
	} else {
		w.prev.next = w
	}
	q.tail = w
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
// and whether a lease of this client is known to be in the way.
func (c *Client) turnOf(name string, w *waiter) (head, local bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[name].head == w, c.held[name] != nil
}

// idle reports whether nobody in this process holds name or waits for it.
func (c *Client) idle(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[name] == nil && c.held[name] == nil
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
func (c *Client) granted(l *lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.held[l.name] = l
	if q := c.queues[l.name]; q != nil {
		for w := q.head; w != nil; w = w.next {
			if w.owner == l.owner {
				w.signal()
			}
		}
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
