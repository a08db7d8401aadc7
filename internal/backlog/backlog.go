// Package backlog is a queue of things that have changed: each is in it once, at the place of its last change.
package backlog

// Queue is such a queue. Its zero value is empty. Its methods take a constant time on average; a caller guards it.
type Queue[T comparable] struct {
	changes uint64
	last    map[T]uint64 // of what is in the queue: the number of its last change
	order   []change[T]  // an entry whose number is not the last one is stale
}

type change[T comparable] struct {
	of     T
	number uint64
}

// Add puts a thing at the end, and takes it away from where it was.
func (q *Queue[T]) Add(of T) {
	if q.last == nil {
		q.last = make(map[T]uint64)
	}
	q.changes++
	q.last[of] = q.changes
	if len(q.order) > 2*len(q.last)+16 {
		q.tidy()
	}
	q.order = append(q.order, change[T]{of, q.changes})
}

// tidy drops the stale entries.
func (q *Queue[T]) tidy() {
	kept := make([]change[T], 0, len(q.last))
	for _, c := range q.order {
		if q.last[c.of] == c.number {
			kept = append(kept, c)
		}
	}
	q.order = kept
}

// Next takes the first thing. It reports false if the queue is empty.
func (q *Queue[T]) Next() (first T, ok bool) {
	for len(q.order) > 0 {
		c := q.order[0]
		q.order = q.order[1:]
		if q.last[c.of] == c.number {
			delete(q.last, c.of)
			return c.of, true
		}
	}
	q.order = nil
	return first, false
}

// Len returns how many things are in the queue.
func (q *Queue[T]) Len() int { return len(q.last) }

// Clear empties the queue.
func (q *Queue[T]) Clear() { *q = Queue[T]{} }
