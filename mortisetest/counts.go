package mortisetest

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise"
)

// call is one call whose effect, if it has one, comes at one moment between its beginning and
// its end.
type call struct {
	client, family, name string
	op                   string // the method
	n                    int    // its argument
	got                  int    // its result
	begin, done          instant
	over                 bool // it has returned
	err                  error
	lease                time.Duration // for which it may have its effect after it has failed

	parties  int
	left     *call // of a member of a double barrier: its Leave
	dark     instant
	value    string // of a term
	doubtful bool   // it failed, but may have had its effect
}

func (h *History) call(client, family, name, op string, n int) *call {
	return h.record(call{client: client, family: family, name: name, op: op, n: n})
}

// record is call for one of which more is known.
func (h *History) record(c call) *call {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.begin, c.done, c.dark, c.lease = h.now(), never, never, h.Lease
	h.calls = append(h.calls, &c)
	return &c
}

func (h *History) returned(c *call, got int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends(c, got, err)
}

// gaveUp is returned for a call that may have had its effect, or may have it yet, whatever error it
// has returned.
func (h *History) gaveUp(c *call, got int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends(c, got, err)
	c.doubtful = err != nil && !errors.Is(err, mortise.ErrInvalid)
}

// ends is returned with h.mu held.
func (h *History) ends(c *call, got int, err error) {
	c.done, c.over, c.got, c.err, c.doubtful = h.now(), true, got, err, inDoubt(err)
}

// last is the last instant at which the call may have had its effect.
func (c *call) last() instant {
	switch {
	case !c.over:
		return never
	case c.doubtful:
		return c.done.later(c.lease)
	}
	return c.done
}

// Latch is a [mortise.CountDownLatch] whose calls, of one client, a history records.
type Latch struct {
	h      *History
	client string
	latch  *mortise.CountDownLatch
}

// Latch returns l as client uses it. The latch must be set by way of the history, too.
func (h *History) Latch(client string, l *mortise.CountDownLatch) *Latch { return &Latch{h, client, l} }

func (l *Latch) call(op string, n int) *call {
	return l.h.call(l.client, "latch", l.latch.Name(), op, n)
}

// TrySetCount calls the method of that name, and records it.
func (l *Latch) TrySetCount(ctx context.Context, n int) (bool, error) {
	c := l.call("TrySetCount", n)
	set, err := l.latch.TrySetCount(ctx, n)
	l.h.returned(c, truth(set), err)
	return set, err
}

// CountDown calls the method of that name, and records it.
func (l *Latch) CountDown(ctx context.Context) error {
	c := l.call("CountDown", 1)
	err := l.latch.CountDown(ctx)
	l.h.returned(c, 0, err)
	return err
}

// Wait calls the method of that name, and records it.
func (l *Latch) Wait(ctx context.Context) error {
	c := l.call("Wait", 0)
	err := l.latch.Wait(ctx)
	l.h.returned(c, 0, err)
	return err
}

// Count calls the method of that name, and records it.
func (l *Latch) Count(ctx context.Context) (int, error) {
	c := l.call("Count", 0)
	n, err := l.latch.Count(ctx)
	l.h.returned(c, n, err)
	return n, err
}

// Semaphore is a [mortise.Semaphore] whose calls, of one client, a history records.
type Semaphore struct {
	h      *History
	client string
	sem    *mortise.Semaphore
}

// Semaphore returns s as client uses it. Its permits must be set by way of the history, too.
func (h *History) Semaphore(client string, s *mortise.Semaphore) *Semaphore {
	return &Semaphore{h, client, s}
}

func (s *Semaphore) call(op string, n int) *call {
	return s.h.call(s.client, "semaphore", s.sem.Name(), op, n)
}

// TrySetPermits calls the method of that name, and records it.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	c := s.call("TrySetPermits", n)
	set, err := s.sem.TrySetPermits(ctx, n)
	s.h.returned(c, truth(set), err)
	return set, err
}

// Acquire calls the method of that name, and records it.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	c := s.call("Acquire", n)
	err := s.sem.Acquire(ctx, n)
	s.h.returned(c, 0, err)
	return err
}

// Release calls the method of that name, and records it.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	c := s.call("Release", n)
	err := s.sem.Release(ctx, n)
	s.h.returned(c, 0, err)
	return err
}

// AddPermits calls the method of that name, and records it.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	c := s.call("AddPermits", n)
	err := s.sem.AddPermits(ctx, n)
	s.h.returned(c, 0, err)
	return err
}

// Drain calls the method of that name, and records it. It must not take more than is left.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	c := s.call("Drain", 0)
	n, err := s.sem.Drain(ctx)
	s.h.returned(c, n, err)
	return n, err
}

// Available calls the method of that name, and records it. It must not be more than is left; it
// may be less, because a request that gave up may have taken permits that it gives back.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	c := s.call("Available", 0)
	n, err := s.sem.Available(ctx)
	s.h.returned(c, n, err)
	return n, err
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SetPermits tells the history how many permits there are of the [mortise.PermitSemaphore]
// called name, from now on. Without it their number is not checked.
func (h *History) SetPermits(name string, n int) {
	c := h.call("", string(Permits), name, "SetPermits", n)
	h.returned(c, 1, nil)
}

// Barrier is a [mortise.Barrier] whose calls, of one client, a history records.
type Barrier struct {
	h       *History
	client  string
	barrier *mortise.Barrier
	parties int
}

// Barrier returns b, a barrier for that many parties, as client uses it.
func (h *History) Barrier(client string, b *mortise.Barrier, parties int) *Barrier {
	return &Barrier{h, client, b, parties}
}

// Await calls the method of that name, and records it.
func (b *Barrier) Await(ctx context.Context) (int, error) {
	c := b.h.record(call{client: b.client, family: "barrier", name: b.barrier.Name(), op: "Await", parties: b.parties})
	n, err := b.barrier.Await(ctx)
	b.h.gaveUp(c, n, err) // it may have arrived before
	return n, err
}

// DoubleBarrier is a [mortise.DoubleBarrier] whose calls, of one client, a history records.
type DoubleBarrier struct {
	h       *History
	client  string
	barrier *mortise.DoubleBarrier
	parties int
}

// DoubleBarrier returns b, a double barrier for that many parties, as client uses it.
func (h *History) DoubleBarrier(client string, b *mortise.DoubleBarrier, parties int) *DoubleBarrier {
	return &DoubleBarrier{h, client, b, parties}
}

// Member is a party inside a double barrier that a history records.
type Member struct {
	*mortise.Member
	h     *History
	enter *call
	held  context.Context
	stop  func() bool
}

// Enter calls the method of that name, and records it.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Member, context.Context, error) {
	c := b.h.record(call{client: b.client, family: "double barrier", name: b.barrier.Name(), op: "Enter", parties: b.parties})
	m, held, err := b.barrier.Enter(ctx)
	b.h.gaveUp(c, 0, err)
	if err != nil {
		return nil, held, err
	}
	stop := context.AfterFunc(held, func() { b.h.gone(c, held) })
	return &Member{m, b.h, c, held, stop}, held, nil
}

// gone records that the context of a member has ended with its loss.
func (h *History) gone(c *call, held context.Context) {
	cause := context.Cause(held)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.dark == never && (errors.Is(cause, mortise.ErrLost) || errors.Is(cause, mortise.ErrClosed)) {
		c.dark = h.since(time.Now())
	}
}

// Leave calls the method of that name, and records it.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	if m.held.Err() != nil {
		m.h.gone(m.enter, m.held)
	}
	c := m.h.call(m.enter.client, "double barrier", m.enter.name, "Leave", 0)
	m.h.mu.Lock()
	if m.enter.left == nil {
		m.enter.left = c
	}
	m.h.mu.Unlock()
	err := m.Member.Leave(ctx)
	m.h.returned(c, 0, err)
	return err
}
