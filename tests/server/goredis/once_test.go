package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
)

var incr = driver.NewScript("incr", `return redis.call('INCR', KEYS[1])`)

func callIncr(key string) driver.Call { return driver.Call{Script: incr, Keys: []string{key}} }

// wrap returns a driver on client that is closed before it, both by t.
func wrap(t *testing.T, client redis.UniversalClient) *goredis.Driver {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	d := goredis.Wrap(client)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func wantClass(t *testing.T, err error, want driver.Class) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one of class %v", want)
	} else if got := driver.ClassOf(err); got != want {
		t.Errorf("%q has class %v, want %v", err, got, want)
	}
}

// TestClusterSendsOnce loses a reply of a master that is reached through a
// proxy, of a client that is told to try again as often as it can.
func TestClusterSendsOnce(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 0)
	owner := c.Masters[1]
	proxy := redistest.NewProxy(t, owner.Addr())
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:        c.Addrs(),
		MaxRetries:   5,
		MaxRedirects: 8,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == owner.Addr() {
				addr = proxy.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	d := wrap(t, client)
	lonely, first := c.KeyOn(t, owner, "lonely:"), c.KeyOn(t, owner, "first:")
	if _, err := d.Eval(t.Context(), callIncr(first)); err != nil {
		t.Fatal(err)
	}

	lost := proxy.LoseReply(lonely, 1)
	_, err := d.Eval(t.Context(), callIncr(lonely))
	wantClass(t, err, driver.Unknown)
	<-lost
	if got := owner.Int(t, "GET", lonely); got != 1 {
		t.Errorf("the script of a single call ran %d times, want 1", got)
	}

	var calls []driver.Call
	for i := range 100 { // on all masters
		calls = append(calls, callIncr(fmt.Sprint("batch:", i)))
	}
	struck := c.KeyOn(t, owner, "struck:")
	calls = append(calls, callIncr(struck))
	lost = proxy.LoseReply(struck, 1)
	results := d.Batch(t.Context(), calls)
	<-lost
	wantClass(t, results[100].Err, driver.Unknown)
	spared := 0
	for i, r := range results {
		m := c.Owner(t, calls[i].Keys[0])
		runs := m.Int(t, "GET", calls[i].Keys[0])
		if r.Err == nil && m != owner {
			spared++
		}
		if m != owner && r.Err != nil {
			t.Errorf("call %d on a healthy node: %v", i, r.Err)
		}
		if runs > 1 || r.Err == nil && runs != 1 {
			t.Errorf("call %d: %v, and it ran %d times", i, r.Err, runs)
		}
	}
	if spared == 0 {
		t.Error("the batch had no call on another node")
	}
}

// TestCallThatWaitsForAConnectionIsNotSent ends the context of a call while
// the only connection of the pool is in use. Nothing of it may be sent later.
func TestCallThatWaitsForAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 1, PipelinePoolSize: -1, PoolTimeout: time.Hour})
	d := wrap(t, client)
	if _, err := d.Eval(t.Context(), callIncr("first")); err != nil {
		t.Fatal(err)
	}
	for i, wait := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := d.Eval(ctx, callIncr("waits")); return err },
		func(ctx context.Context) error { return d.Batch(ctx, []driver.Call{callIncr("waits")})[0].Err },
	} {
		proxy.Stall(redistest.Replies)
		blocked := make(chan error, 1)
		key := fmt.Sprint("blocks:", i)
		go func() { _, err := d.Eval(context.Background(), callIncr(key)); blocked <- err }()
		redistest.Eventually(t, "the connection in use", func() error {
			if server.Int(t, "EXISTS", key) == 0 {
				return errors.New("it is not")
			}
			return nil
		})

		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		pending := client.PoolStats().PendingRequests
		go func() { waiting <- wait(ctx) }()
		redistest.Eventually(t, "a call that waits", func() error {
			if client.PoolStats().PendingRequests <= pending {
				return errors.New("none does")
			}
			return nil
		})
		cancel()
		wantClass(t, <-waiting, driver.NotSent)
		proxy.Flow()
		if err := <-blocked; err != nil {
			t.Error(err)
		}
		if _, err := d.Eval(t.Context(), callIncr("later")); err != nil {
			t.Error(err)
		}
	}
	if got := server.Int(t, "EXISTS", "waits"); got != 0 {
		t.Error("a script ran after its caller had been told that it was not sent")
	}
}

// TestFailedHandshakeIsNotSent: the error is a timeout, as after a script was
// sent, but it was not.
func TestFailedHandshakeIsNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 50 * time.Millisecond})
	d := wrap(t, client)
	proxy.Stall(redistest.Replies)
	_, err := d.Eval(context.Background(), callIncr("handshake"))
	wantClass(t, err, driver.NotSent)
	wantClass(t, d.Batch(context.Background(), []driver.Call{callIncr("handshake")})[0].Err, driver.NotSent)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v passes for the end of the caller's context", err)
	}
	if got := server.Int(t, "EXISTS", "handshake"); got != 0 {
		t.Error("the script ran")
	}
}

// hook is a redis.Hook that puts a function before each command and pipeline.
type hook func(ctx context.Context, cmds []redis.Cmder, next func() error) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

type traceKey struct{}

// TestHooks: tracing sees the caller's values and readable commands, and a
// hook that lets nothing through makes calls fail, not succeed with nil.
func TestHooks(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	swallow, seen := false, make(chan string, 100)
	client.AddHook(hook(func(ctx context.Context, cmds []redis.Cmder, next func() error) error {
		seen <- fmt.Sprint(ctx.Value(traceKey{}), " ", cmds[0].Args())
		if swallow {
			return nil
		}
		return next()
	}))
	d := wrap(t, client)
	if _, err := d.Eval(t.Context(), callIncr("known")); err != nil {
		t.Fatal(err)
	}
	for len(seen) > 0 {
		<-seen
	}
	ctx := context.WithValue(t.Context(), traceKey{}, "trace-1")
	if _, err := d.Eval(ctx, callIncr("hooked")); err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, "trace-1 [evalsha "+incr.SHA()+" 1 hooked]"; got != want {
		t.Errorf("the hook saw %q, want %q", got, want)
	}
	swallow = true
	result := d.Batch(t.Context(), []driver.Call{callIncr("hooked")})[0]
	wantClass(t, result.Err, driver.NotSent)
	_, err := d.Eval(t.Context(), callIncr("hooked"))
	wantClass(t, err, driver.NotSent)
	if got := server.Int(t, "GET", "hooked"); got != 1 {
		t.Errorf("the script ran %d times, want 1", got)
	}
}

// TestLateCallIsNotSent: the caller leaves just before the client writes.
func TestLateCallIsNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	var hold atomic.Bool
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	client.AddHook(hook(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if !hold.Load() || cmds[0].Name() != "evalsha" { // a handshake
			return next()
		}
		held <- struct{}{}
		<-release
		err := next()
		ended <- err
		return err
	}))
	d := wrap(t, detached{client})
	if _, err := d.Eval(t.Context(), callIncr("first")); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := d.Eval(ctx, callIncr("late")); return err },
		func(ctx context.Context) error { return d.Batch(ctx, []driver.Call{callIncr("late")})[0].Err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		hold.Store(true)
		go func() { done <- call(ctx) }()
		<-held
		cancel()
		wantClass(t, <-done, driver.NotSent)
		release <- struct{}{}
		if err := <-ended; err == nil {
			t.Error("the client has sent a script whose caller had been told that it was not")
		}
		hold.Store(false)
		if _, err := d.Eval(t.Context(), callIncr("first")); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}
	if got := server.Int(t, "EXISTS", "late"); got != 0 {
		t.Error("the script ran")
	}
}

// detached is a client that does not notice the end of a context, as if it had
// just looked.
type detached struct{ *redis.Client }

func (c detached) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.Client.Process(context.WithoutCancel(ctx), cmd)
}

func (c detached) Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	return c.Client.Pipelined(context.WithoutCancel(ctx), fn)
}

// TestCloseWaitsForAbandonedCalls: the caller has left, the call has not.
func TestCloseWaitsForAbandonedCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: time.Second})
	ended := make(chan struct{}, 100)
	client.AddHook(hook(func(_ context.Context, _ []redis.Cmder, next func() error) error {
		err := next()
		ended <- struct{}{}
		return err
	}))
	d := wrap(t, client)
	if _, err := d.Eval(t.Context(), callIncr("first")); err != nil {
		t.Fatal(err)
	}
	for len(ended) > 0 {
		<-ended
	}
	proxy.Stall(redistest.Replies)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := d.Eval(ctx, callIncr("abandoned")); done <- err }()
	redistest.Eventually(t, "the script ran", func() error {
		if server.Int(t, "EXISTS", "abandoned") == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	cancel()
	wantClass(t, <-done, driver.Unknown)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Close has returned before the abandoned call")
	}
}
