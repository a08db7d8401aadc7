package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// lines are the open connections of a driver.
type lines struct {
	mu     sync.Mutex // guards the fields below
	open   map[*mortal]struct{}
	hungUp time.Time // when connections were last closed because their server is a replica
	reply  string    // by which it has said so
}

func (l *lines) add(m *mortal) *mortal {
	m.lines, m.since = l, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[*mortal]struct{})
	}
	l.open[m] = struct{}{}
	return m
}

func (l *lines) remove(m *mortal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, m)
}

// hangUp closes the connections that were open before, because of that reply.
func (l *lines) hangUp(before time.Time, reply string) {
	l.mu.Lock()
	l.hungUp, l.reply = time.Now(), reply
	var old []*mortal
	for m := range l.open {
		if m.since.Before(before) {
			old = append(old, m)
		}
	}
	l.mu.Unlock()
	for _, m := range old {
		_ = m.Close() // it is given up
	}
}

// explain returns err, of a call that began at start, with the reason if its connection may have been closed by hangUp.
func (l *lines) explain(start time.Time, err error) error {
	class := driver.ClassOf(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	closed := errors.Is(err, net.ErrClosed) && !l.hungUp.IsZero() // a client may take a closed connection for an open one
	if class != driver.Unknown && class != driver.NotSent || !closed && !l.hungUp.After(start) {
		return err
	}
	return &driver.Error{Class: class, Reply: l.reply, Err: fmt.Errorf("the connection was given up, because its server is a replica: %w", err)}
}

// behindOneAddress is a driver for a server whose address may lead to another one: a proxy, or a service that has moved its
// name. The former master may keep its connections open, and refuses all writes on them. The client would stay
// with it, so they are closed here. What is under way on them is not sent again: its outcome is unknown.
type behindOneAddress struct {
	*connected
	lines *lines
}

// Eval implements driver.Driver.
func (d *behindOneAddress) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	start := time.Now()
	v, err := d.connected.Eval(ctx, call)
	if err != nil {
		err = d.left(start, err)
	}
	return v, err
}

// Batch implements driver.Driver.
func (d *behindOneAddress) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	start := time.Now()
	results := d.connected.Batch(ctx, calls)
	for i := range results {
		if r := &results[i]; r.Err != nil {
			r.Err = d.left(start, r.Err)
		}
	}
	return results
}

// left leaves a server that has refused a write because it is a replica. It returns the error of a call that began at start, with
// the reason if the connection was left meanwhile.
func (d *behindOneAddress) left(start time.Time, err error) error {
	var refused *driver.Error
	if errors.As(err, &refused) && strings.HasPrefix(refused.Reply, "READONLY ") {
		d.lines.hangUp(start, refused.Reply)
		return err
	}
	return d.lines.explain(start, err)
}
