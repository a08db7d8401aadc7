package connect

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// lines are the open connections of a driver.
type lines struct {
	mu   sync.Mutex // guards open
	open map[*mortal]struct{}
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

// hangUp closes the connections that were open before.
func (l *lines) hangUp(before time.Time) {
	l.mu.Lock()
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
	if err != nil && isDemoted(err) {
		d.lines.hangUp(start)
	}
	return v, err
}

// Batch implements driver.Driver.
func (d *behindOneAddress) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	start := time.Now()
	results := d.connected.Batch(ctx, calls)
	for _, r := range results {
		if r.Err != nil && isDemoted(r.Err) {
			d.lines.hangUp(start)
			break
		}
	}
	return results
}

// isDemoted reports whether a server has refused a write because it is a replica.
func isDemoted(err error) bool {
	var reply *driver.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Reply, "READONLY ")
}
