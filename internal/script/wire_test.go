package script_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
)

var errLost = errors.New("the test lost the reply")

// wire is the smallest possible driver: one connection, one call after the
// other. On the embedded Redis the driver that applications use runs the scripts.
type wire struct {
	mu       sync.Mutex // held while the connection is used
	net      net.Conn
	r        *bufio.Reader
	embedded driver.Driver // nil if the connection runs scripts
}

func newWire(c net.Conn, embedded driver.Driver) *wire {
	return &wire{net: c, r: bufio.NewReader(c), embedded: embedded}
}

// do runs one command.
func (w *wire) do(args ...string) (driver.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.net.Write(resp.Append(nil, args...)); err != nil {
		return driver.Value{}, err
	}
	return resp.Read(w.r)
}

// must is do for commands that must succeed.
func (w *wire) must(t *testing.T, args ...string) driver.Value {
	t.Helper()
	v, err := w.do(args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return v
}

// receive reads what Redis sends unasked.
func (w *wire) receive() (driver.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return resp.Read(w.r)
}

func (w *wire) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := w.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (w *wire) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	if w.embedded != nil {
		return w.embedded.Batch(ctx, calls)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		for _, source := range []bool{false, true} {
			var v driver.Value
			_, err := w.net.Write(appendEval(nil, call, source))
			if err == nil {
				v, err = resp.Read(w.r)
			}
			results[i] = driver.Result{Value: v, Err: classified(err)}
			if err == nil || driver.ClassOf(results[i].Err) != driver.NoScript {
				break
			}
		}
	}
	return results
}

// appendEval appends a script call to b, by digest or by source.
func appendEval(b []byte, call driver.Call, source bool) []byte {
	args := []string{"EVALSHA", call.Script.SHA(), strconv.Itoa(len(call.Keys))}
	if source {
		args[0], args[1] = "EVAL", call.Script.Source()
	}
	return resp.Append(b, slices.Concat(args, call.Keys, call.Args)...)
}

func classified(err error) error {
	var reply resp.ReplyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reply):
		return driver.ReplyError(reply, string(reply))
	}
	return &driver.Error{Class: driver.Unknown, Err: err}
}

func (w *wire) Shard(string) string { return "" }

func (w *wire) Topology(context.Context) (driver.Topology, error) { return driver.Topology{}, nil }

func (w *wire) Subscriber(driver.Sink) driver.Subscriber {
	panic("scripts do not subscribe")
}

func (w *wire) Close() error { return w.net.Close() }
