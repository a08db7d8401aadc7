package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// atMostOnce loses replies after the script has run, and counts the runs. Client libraries that
// resend by default count two.
func (s suite) atMostOnce(t *testing.T, server *redistest.Server) {
	tests := []struct {
		name    string
		flush   bool // the server does not know the script: EVALSHA, then EVAL
		request int  // the request whose reply is lost
	}{{"evalsha", false, 1}, {"eval", true, 2}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, d := s.through(t, server, 0)
			key := "once:" + tt.name
			eval(t, d, incr, []string{key + ":first"})
			if tt.flush {
				server.Must(t, "SCRIPT", "FLUSH")
			}
			lost := p.LoseReply(key, tt.request)
			_, err := d.Eval(t.Context(), callIncr(key))
			wantClass(t, err, driver.Unknown)
			<-lost
			recovers(t, d, key+":later")
			if got := server.Int(t, "GET", key); got != 1 {
				t.Errorf("the script ran %d times, want 1", got)
			}
		})
	}
	t.Run("batch", func(t *testing.T) {
		p, d := s.through(t, server, 0)
		eval(t, d, incr, []string{"once:batch:first"})
		var calls []driver.Call
		for i := range 50 {
			calls = append(calls, callIncr(fmt.Sprint("once:batch:", i)))
		}
		lost := p.LoseReply("once:batch:25", 1)
		results := d.Batch(t.Context(), calls)
		<-lost
		recovers(t, d, "once:batch:later")
		for i, r := range results {
			runs := server.Int(t, "GET", calls[i].Keys[0])
			switch {
			case r.Err == nil && runs == 1:
			case r.Err != nil && driver.ClassOf(r.Err) == driver.Unknown && runs <= 1:
			default:
				t.Errorf("call %d: %v, and it ran %d times", i, r.Err, runs)
			}
		}
		wantClass(t, results[25].Err, driver.Unknown)
	})
}

// endedCalls: a call returns when its context ends, whatever the network does.
func (s suite) endedCalls(t *testing.T, server *redistest.Server) {
	t.Run("deadline", func(t *testing.T) { s.deadline(t, server) })
	t.Run("cancel", func(t *testing.T) { s.cancel(t, server) })
	t.Run("cancel a crowd", func(t *testing.T) {
		p, d := s.through(t, server, patient)
		eval(t, d, incr, []string{"time:first"})
		p.Stall(redistest.Requests, redistest.Replies)
		s.crowd(t, d, true)
		p.CutAll() // otherwise Close would wait for the client's timeout
	})
	t.Run("cancel while connecting", func(t *testing.T) {
		p, d := s.through(t, server, patient)
		eval(t, d, incr, []string{"time:first"})
		p.Stall(redistest.Requests, redistest.Replies)
		p.CutAll() // new connections are accepted, and then stay silent
		s.crowd(t, d, false)
		p.CutAll()
	})
}

func (s suite) deadline(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, patient)
	eval(t, d, incr, []string{"time:first"})
	for name, begin := range map[string]func(left time.Duration) (context.Context, func()){
		"of a context": func(left time.Duration) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			return ctx, cancel
		},
		"and nothing else": func(left time.Duration) (context.Context, func()) {
			ctx := driver.Until(time.Now().Add(left))
			return ctx, ctx.Stop
		},
	} {
		left := 100 * time.Millisecond
		for sent := false; !sent; left *= 2 { // on a busy machine it may be over before the call is sent
			sent = s.deadlineAfter(t, p, d, server, "a call with a deadline "+name, left, begin)
		}
	}
}

// deadlineAfter makes a call that is not answered, and reports whether it was sent.
func (s suite) deadlineAfter(t *testing.T, p *redistest.Proxy, d driver.Driver, server *redistest.Server, what string,
	left time.Duration, begin func(left time.Duration) (context.Context, func()),
) (sent bool) {
	t.Helper()
	p.Stall(redistest.Replies)
	key := fmt.Sprint("time:", what, ":", left)
	s.promptly(t, what, func() {
		ctx, end := begin(left)
		defer end()
		_, err := d.Eval(ctx, callIncr(key))
		if sent = err == nil || driver.ClassOf(err) != driver.NotSent || left > patience/2; sent {
			wantEnded(t, err, context.DeadlineExceeded)
		}
	})
	p.Flow()
	recovers(t, d, "time:later")
	if got := server.Int(t, "GET", key); got > 1 || got > 0 && !sent {
		t.Errorf("the abandoned script ran %d times, want 1 at most, and none if it was not sent", got)
	}
	return sent
}

func (s suite) cancel(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, patient)
	warmUp(t, p, d)
	why := errors.New("the caller went away")
	ways := map[string]func(context.Context, driver.Call) error{
		"eval":  func(ctx context.Context, call driver.Call) error { _, err := d.Eval(ctx, call); return err },
		"batch": func(ctx context.Context, call driver.Call) error { return d.Batch(ctx, []driver.Call{call})[0].Err },
	}
	for way, call := range ways { // one at a time: a client may make the second wait for the first
		for _, far := range []bool{false, true} { // with a far deadline, and without
			ctx, cancel := context.WithCancelCause(t.Context())
			if far {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, time.Hour)
				defer end()
			}
			key := fmt.Sprint("time:cancel:", way, ":", far)
			p.Stall(redistest.Replies)
			done := make(chan error, 1)
			go func() { done <- call(ctx, callIncr(key)) }()
			redistest.Eventually(t, "the script ran", func() error {
				if n := server.Int(t, "GET", key); n != 1 {
					return fmt.Errorf("%d times", n)
				}
				return nil
			})
			s.promptly(t, "a cancelled "+way, func() {
				cancel(why)
				wantEnded(t, <-done, why)
			})
			p.Flow()
			recovers(t, d, "time:later")
		}
	}
}

func (s suite) ioTimeout(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, time.Second)
	eval(t, d, incr, []string{"time:first"})
	p.Stall(redistest.Replies)
	start := time.Now()
	_, err := d.Eval(context.Background(), callIncr("time:io")) // the test's context would end with the test
	wantClass(t, err, driver.Unknown)
	s.within("a call without a deadline, with an I/O timeout of 1 s", time.Since(start), 20*time.Second)
}

// warmUp makes a client open the connections that it needs for several concurrent calls: it cannot
// open any through a stalled proxy.
func warmUp(t *testing.T, p *redistest.Proxy, d driver.Driver) {
	t.Helper()
	p.Delay(20 * time.Millisecond) // so that the calls overlap
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			if _, err := d.Eval(t.Context(), callIncr("warm")); err != nil {
				t.Error(err)
			}
		})
		calls.Go(func() { // some clients have connections of their own for pipelines
			if err := d.Batch(t.Context(), []driver.Call{callIncr("warm")})[0].Err; err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	p.Delay(0)
	for range 64 { // a client may choose one of several connections at random, and share it meanwhile
		eval(t, d, incr, []string{"warm"})
	}
}

// crowd cancels more concurrent calls than client libraries keep in flight. If connections are
// open, the context must end all of them; if they have been cut, some may fail because of that.
func (s suite) crowd(t *testing.T, d driver.Driver, open bool) {
	const calls = 1500
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var started, ended sync.WaitGroup
	for i := range calls {
		started.Add(1)
		ended.Go(func() {
			started.Done()
			_, err := d.Eval(ctx, callIncr(fmt.Sprint("crowd:", i)))
			// Some have not even started when the context ends.
			if err == nil || open && !errors.Is(err, context.Canceled) {
				t.Errorf("call %d: %v, want the context's error", i, err)
			} else if c := driver.ClassOf(err); c != driver.Unknown && c != driver.NotSent {
				t.Errorf("call %d: %v has class %v", i, err, c)
			}
		})
	}
	started.Wait()
	s.promptly(t, "a crowd of cancelled calls", func() { cancel(); ended.Wait() })
}

func wantEnded(t *testing.T, err, want error) {
	t.Helper()
	if err == nil || driver.ClassOf(err) != driver.Unknown || !errors.Is(err, want) {
		t.Errorf("got %v, want class unknown and %q", err, want)
	}
}

// unreachable: no connection, so nothing was sent.
func (s suite) unreachable(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, 0)
	eval(t, d, incr, []string{"unreachable:first"})
	connections := p.Connections()
	p.Refuse()
	p.CutAll()
	s.promptly(t, "twenty calls to an unreachable server", func() {
		settle(t, d, "unreachable", connections, driver.NotSent)
	})
	for i := range 20 {
		wantAbsent(t, server, fmt.Sprint("unreachable:", i))
	}
	p.Accept(t)
	recovers(t, d, "unreachable:later")
}
