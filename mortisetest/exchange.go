package mortisetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// trip is one call on its way to the server and back.
type trip struct {
	link    *Link
	fault   Fault
	timeout time.Duration
	cut     <-chan struct{} // when the connection breaks
	direct  bool            // nothing is in the way
	left    atomic.Bool     // the client does not wait any more
}

// exchange makes a call: serve runs it at the server.
func exchange[T any](ctx context.Context, l *Link, script string, serve func() T) (reply T, err error) {
	t, err := l.depart(ctx, script)
	if err != nil {
		return reply, err
	}
	f := t.fault
	switch {
	case t.direct && f == Fault{}:
		return serve(), nil
	case f.Lose == Connection:
		l.hit(NotConnected)
		return reply, &driver.Error{Class: driver.NotSent, Err: errNoLink}
	case f.Lose == Request:
		l.hit(RequestLost)
		return reply, t.silence(ctx)
	}
	got := make(chan result[T], 1)
	if t.direct && f.Before == 0 && f.Lose == Reply {
		arrive(t, serve, got)
		return reply, t.silence(ctx)
	}
	l.server.roads.send(func() { arrive(t, serve, got) })
	if f.Lose == Reply && !f.Silent {
		return reply, t.silence(ctx)
	}
	return await(ctx, t, got)
}

type result[T any] struct {
	reply T
	err   error
}

// depart draws the fate of a call.
func (l *Link) depart(ctx context.Context, script string) (*trip, error) {
	if ctx.Err() != nil {
		return nil, driver.ContextError(ctx, driver.NotSent)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, &driver.Error{Class: driver.Closed, Err: errClosed}
	}
	l.calls[script]++
	t := &trip{link: l, fault: l.fault(script), timeout: l.timeout, cut: l.cut}
	t.direct = l.partitioned == 0 && l.frozen == nil
	if t.fault.Before > 0 || t.fault.After > 0 {
		l.hits[Slow]++
	}
	return t, nil
}

// silence returns what the client learns of a call that gets no reply, when it learns it.
func (t *trip) silence(ctx context.Context) error {
	t.left.Store(!t.fault.Silent)
	if !t.fault.Silent {
		return unknown(errBroken)
	}
	_, err := await(ctx, t, make(chan result[struct{}]))
	return err
}

// await waits for a reply, for as long as a client does.
func await[T any](ctx context.Context, t *trip, got <-chan result[T]) (reply T, err error) {
	timer := time.NewTimer(t.timeout)
	defer timer.Stop()
	select {
	case r := <-got:
		return r.reply, r.err
	case <-ctx.Done():
		err = driver.ContextError(ctx, driver.Unknown)
	case <-timer.C:
		err = unknown(errTimeout)
	case <-t.cut:
		err = unknown(errBroken)
	}
	select {
	case r := <-got: // at the same instant
		return r.reply, r.err
	default:
		t.left.Store(true)
		return reply, err
	}
}

// arrive brings the request to the server, and the reply back.
func arrive[T any](t *trip, serve func() T, got chan<- result[T]) {
	l := t.link
	if !t.carry(t.fault.Before) {
		l.hit(RequestLost)
		return
	}
	var r result[T]
	late := t.left.Load()
	if t.fault.Refuse != "" {
		l.hit(Refused)
		r.err = refused(t.fault.Refuse)
	} else {
		r.reply = serve()
	}
	if late {
		l.hit(RanLate)
	}
	if t.fault.Lose == Reply || !t.carry(t.fault.After) || t.left.Load() {
		l.hit(ReplyLost)
		return
	}
	got <- r
}

// carry takes d, and longer while the link is frozen. It reports false if what it carries is lost.
func (t *trip) carry(d time.Duration) bool {
	l := t.link
	if !l.server.roads.sleep(d) {
		return false
	}
	for {
		l.mu.Lock()
		lost, frozen := l.partitioned != 0, l.frozen
		l.mu.Unlock()
		if lost || frozen == nil {
			return !lost
		}
		select {
		case <-frozen:
		case <-l.server.roads.closed:
			return false
		}
	}
}
