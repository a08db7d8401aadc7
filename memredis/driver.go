package memredis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
)

// embedded is the driver for a Server. Scripts and commands run in the goroutine that calls; only subscriptions have a
// connection.
type embedded struct {
	server *Server
	closed atomic.Bool
}

func (d *embedded) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{}, nil
}

func (d *embedded) Shard(string) string { return "" }

// usable returns nil if a call may run.
func (d *embedded) usable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return driver.ContextError(ctx, driver.NotSent)
	case d.closed.Load():
		return &driver.Error{Class: driver.Closed, Err: errors.New("the driver of the embedded Redis is closed")}
	case d.server.isClosed():
		return &driver.Error{Class: driver.NotSent, Err: errServerClosed}
	}
	return nil
}

func (d *embedded) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Value{}, err
	}
	// Others run while a call is on its way, and while its reply is, as with a real server.
	runtime.Gosched()
	defer runtime.Gosched()
	return d.server.run(call)
}

func (d *embedded) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = d.Eval(ctx, call)
	}
	return results
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

// Scan implements driver.Scanner. It reads all matching keys at once: the embedded server holds few.
func (d *embedded) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	keys, cursor := []string(nil), "0"
	for {
		page, err := d.command(ctx, "SCAN", cursor, "MATCH", match)
		if err != nil {
			return err
		}
		for i := range page.At(1).Len() {
			keys = append(keys, page.At(1).At(i).Str())
		}
		if cursor = page.At(0).Str(); cursor == "0" {
			return fn(keys)
		}
	}
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
	if server != embeddedAddr {
		return driver.Value{}, &driver.Error{Class: driver.NotSent, Err: errors.New("there is no such embedded server")}
	}
	return d.command(ctx, words...)
}

func (d *embedded) command(ctx context.Context, words ...string) (driver.Value, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Value{}, err
	}
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	defer d.server.clock.forget(peer)
	d.server.mini.Server().Dispatch(peer, words)
	peer.Flush()
	v, err := resp.Read(bufio.NewReader(&reply))
	if err != nil {
		return driver.Value{}, driver.ReplyError(err, err.Error())
	}
	return v, nil
}

func (d *embedded) Subscriber(sink driver.Sink) driver.Subscriber {
	return newSubscriber(d.server, sink)
}

func (d *embedded) Close() error {
	d.closed.Store(true)
	return nil
}
