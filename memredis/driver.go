package memredis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
)

var errClosed = errors.New("the driver of the embedded Redis is closed")

// embedded is the driver for a Server. A call takes an idle connection, or opens one; a connection
// whose reply was not read is discarded.
type embedded struct {
	server *Server

	mu     sync.Mutex // guards the fields below
	idle   []*conn
	open   map[*conn]struct{}
	closed bool
}

type conn struct {
	net.Conn
	r *bufio.Reader
	w []byte
}

func newEmbedded(s *Server) *embedded {
	return &embedded{server: s, open: make(map[*conn]struct{})}
}

func (d *embedded) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{}, nil
}

func (d *embedded) Shard(string) string { return "" }

func (d *embedded) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := d.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (d *embedded) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	pending := make([]int, len(calls))
	for i := range pending {
		pending[i] = i
	}
	if pending = d.run(ctx, calls, results, pending, false); len(pending) > 0 {
		d.run(ctx, calls, results, pending, true)
	}
	return results
}

// run sends the calls with the indexes pending in one pipeline and fills in their results. It
// returns those whose script the server does not know.
func (d *embedded) run(ctx context.Context, calls []driver.Call, results []driver.Result, pending []int, source bool) (unknown []int) {
	fail := func(pending []int, err error) {
		for _, i := range pending {
			results[i].Err = err
		}
	}
	if ctx.Err() != nil {
		fail(pending, driver.ContextError(ctx, driver.NotSent))
		return nil
	}
	c, err := d.borrow()
	if err != nil {
		fail(pending, unsent(err))
		return nil
	}
	stop := interrupt(ctx, c)
	c.w = c.w[:0]
	for _, i := range pending {
		c.w = resp.AppendEval(c.w, calls[i], source)
	}
	// The server reads a command only after it has written the reply to the one before, and a
	// pipe has no buffer: so writing and reading must be concurrent.
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.Write(c.w) // if it fails, so does the read below
	}()
	for n, i := range pending {
		v, err := resp.Read(c.r)
		var reply resp.ReplyError
		switch {
		case err == nil:
			results[i].Value = v
		case errors.As(err, &reply):
			results[i].Err = driver.ReplyError(reply, reply.Error())
			if driver.ClassOf(results[i].Err) == driver.NoScript {
				results[i].Err = nil
				unknown = append(unknown, i)
			}
		default:
			stop()
			d.discard(c)
			<-written
			fail(pending[n:], d.broken(ctx, err))
			return unknown
		}
	}
	<-written
	if stop() {
		d.giveBack(c)
	} else {
		d.discard(c) // the interruption may still come
	}
	return unknown
}

// interrupt makes reads and writes on c fail when ctx ends, until stop is called. Stop reports
// whether ctx has left the connection alone.
func interrupt(ctx context.Context, c *conn) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}

// broken returns the error for a connection that failed after a call was sent.
func (d *embedded) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return driver.ContextError(ctx, driver.Unknown)
	}
	return &driver.Error{Class: driver.Unknown, Err: err}
}

// unsent returns the error for a call that found no connection.
func unsent(err error) error {
	if errors.Is(err, errClosed) {
		return &driver.Error{Class: driver.Closed, Err: err}
	}
	return &driver.Error{Class: driver.NotSent, Err: err}
}

func (d *embedded) borrow() (*conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	if n := len(d.idle); n > 0 {
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		return c, nil
	}
	nc, err := d.server.Dial()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, r: bufio.NewReader(nc)}
	d.open[c] = struct{}{}
	return c, nil
}

func (d *embedded) giveBack(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.idle = append(d.idle, c)
	}
}

func (d *embedded) discard(c *conn) {
	d.mu.Lock()
	delete(d.open, c)
	d.mu.Unlock()
	_ = c.Close()
}

// Scan implements driver.Scanner.
func (d *embedded) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	if err := ctx.Err(); err != nil {
		return driver.ContextError(ctx, driver.NotSent)
	}
	keys, err := d.keys(ctx, match)
	if err != nil {
		return err
	}
	return fn(keys)
}

// keys reads all matching keys at once: the embedded server holds few.
func (d *embedded) keys(ctx context.Context, match string) ([]string, error) {
	c, err := d.borrow()
	if err != nil {
		return nil, unsent(err)
	}
	stop := interrupt(ctx, c)
	keys, cursor := []string(nil), "0"
	for {
		var page driver.Value
		if _, err = c.Write(resp.Append(nil, "SCAN", cursor, "MATCH", match)); err == nil {
			page, err = resp.Read(c.r)
		}
		if err != nil {
			stop()
			d.discard(c)
			if reply, refused := errors.AsType[resp.ReplyError](err); refused {
				return nil, driver.ReplyError(reply, reply.Error())
			}
			return nil, d.broken(ctx, err)
		}
		for i := range page.At(1).Len() {
			keys = append(keys, page.At(1).At(i).Str())
		}
		if cursor = page.At(0).Str(); cursor == "0" {
			break
		}
	}
	if stop() {
		d.giveBack(c)
	} else {
		d.discard(c)
	}
	return keys, nil
}

// embeddedAddr is the address of the embedded server for Servers and Command.
const embeddedAddr = "mem"

// Servers implements driver.Commander.
func (d *embedded) Servers(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, driver.ContextError(ctx, driver.NotSent)
	}
	return []string{embeddedAddr}, nil
}

// Command implements driver.Commander. The embedded server does not know many commands.
func (d *embedded) Command(ctx context.Context, server string, words ...string) (driver.Value, error) {
	switch {
	case ctx.Err() != nil:
		return driver.Value{}, driver.ContextError(ctx, driver.NotSent)
	case server != embeddedAddr:
		return driver.Value{}, &driver.Error{Class: driver.NotSent, Err: errors.New("there is no such embedded server")}
	}
	c, err := d.borrow()
	if err != nil {
		return driver.Value{}, unsent(err)
	}
	stop := interrupt(ctx, c)
	var v driver.Value
	if _, err = c.Write(resp.Append(nil, words...)); err == nil {
		v, err = resp.Read(c.r)
	}
	reply, refused := errors.AsType[resp.ReplyError](err)
	if stop() && (err == nil || refused) {
		d.giveBack(c)
	} else {
		d.discard(c)
	}
	switch {
	case refused:
		return driver.Value{}, driver.ReplyError(reply, reply.Error())
	case err != nil:
		return driver.Value{}, d.broken(ctx, err)
	}
	return v, nil
}

// EvalWait implements driver.Waiter. There are no replicas to wait for.
func (d *embedded) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	results := make([]driver.Acknowledged, len(calls))
	for i, r := range d.Batch(ctx, calls) {
		results[i].Result = r
		if r.Err == nil && wait.AOF {
			results[i].Err = &driver.Error{Class: driver.Other, Err: errors.New("the embedded Redis has no append-only file")}
		}
	}
	return results
}

func (d *embedded) Subscriber(sink driver.Sink) driver.Subscriber {
	return newSubscriber(d.server, sink)
}

func (d *embedded) Close() error {
	d.mu.Lock()
	open := d.open
	d.open, d.idle, d.closed = nil, nil, true
	d.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	return nil
}
