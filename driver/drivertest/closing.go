package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// closing: Close ends what the driver started, also when it is blocked.
func (s suite) closing(t *testing.T) {
	server := redistest.Single(t)
	t.Run("idle", func(t *testing.T) {
		d := s.open(t, at(server))
		s.closeAndCount(t, d, generous)
	})
	t.Run("in use", func(t *testing.T) { s.closeInUse(t, server) })
	t.Run("with an open subscriber", func(t *testing.T) { s.closeSubscribed(t, server) })
	t.Run("blocked", func(t *testing.T) { s.closeBlocked(t, server) })
	t.Run("server gone", func(t *testing.T) { s.closeServerGone(t, server) })
}

// closingInTime has one thing more, for which a client may need its timeouts.
func (s suite) closingInTime(t *testing.T) {
	s.closing(t)
	t.Run("connecting", func(t *testing.T) { s.closeConnecting(t, redistest.Single(t)) })
}

func (s suite) closeInUse(t *testing.T, server *redistest.Server) {
	d := s.open(t, at(server))
	eval(t, d, incr, []string{"close"})
	sub := d.Subscriber(newRecorder())
	for i := range 100 {
		sub.Subscribe(fmt.Sprint("close:", i), false)
	}
	eventuallySubscribers(t, server, "close:99", 1)
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	s.closeAndCount(t, d, generous)
	eventuallySubscribers(t, server, "close:99", 0)
}

func (s suite) closeSubscribed(t *testing.T, server *redistest.Server) {
	d := s.open(t, at(server))
	d.Subscriber(newRecorder()).Subscribe("left", false)
	eventuallySubscribers(t, server, "left", 1)
	s.closeAndCount(t, d, generous)
	eventuallySubscribers(t, server, "left", 0)
}

// closeBlocked: nothing that the client sends is answered.
func (s suite) closeBlocked(t *testing.T, server *redistest.Server) {
	p := redistest.NewProxy(t, server.Addr())
	d := s.open(t, Target{Mode: Single, Addrs: []string{p.Addr()}, Timeout: patient})
	eval(t, d, incr, []string{"close"})
	sub := d.Subscriber(newRecorder())
	sub.Subscribe("blocked", false)
	eventuallySubscribers(t, server, "blocked", 1)
	p.Stall(redistest.Requests, redistest.Replies)
	failed := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		_, err := d.Eval(context.Background(), callIncr("close:blocked")) // only Close ends it
		failed <- err
	}()
	<-began
	sub.Subscribe("blocked too", false)
	s.promptly(t, "Close of a blocked subscriber", func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	s.closeAndCount(t, d, generous)
	// It may have been stopped before it was sent.
	wantClass(t, <-failed, driver.Unknown, driver.NotSent, driver.Closed)
}

// closeConnecting: the server accepts connections and stays silent.
func (s suite) closeConnecting(t *testing.T, server *redistest.Server) {
	p := redistest.NewProxy(t, server.Addr())
	d := s.open(t, Target{Mode: Single, Addrs: []string{p.Addr()}})
	p.Stall(redistest.Requests, redistest.Replies)
	p.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _ = d.Eval(ctx, callIncr("close:old")) // it may use the old connection
	_, _ = d.Eval(ctx, callIncr("close:connecting"))
	d.Subscriber(newRecorder()).Subscribe("connecting", false)
	// A client that is opening a connection may have to finish that first.
	s.closeAndCount(t, d, 15*time.Second)
}

func (s suite) closeServerGone(t *testing.T, server *redistest.Server) {
	p := redistest.NewProxy(t, server.Addr())
	d := s.open(t, Target{Mode: Single, Addrs: []string{p.Addr()}})
	p.Refuse()
	p.CutAll()
	d.Subscriber(newRecorder()).Subscribe("gone", false)
	s.closeAndCount(t, d, generous)
}

// underWay: Close does not report scripts as not sent that have run and whose replies are still to
// come.
func (s suite) underWay(t *testing.T) {
	server := redistest.Single(t)
	for round := range 2 {
		p := redistest.NewProxy(t, server.Addr())
		d := s.open(t, Target{Mode: Single, Addrs: []string{p.Addr()}, Timeout: patient})
		var crowd sync.WaitGroup // after it the client has all the connections that it wants
		for range 100 {
			crowd.Go(func() { eval(t, d, incr, []string{"close"}) })
		}
		crowd.Wait()
		p.Stall(redistest.Replies)
		ctx, cancel := context.WithCancel(t.Context())
		const calls = 40
		type outcome struct {
			key string
			err error
		}
		done := make(chan outcome, 2*calls)
		for i := range calls {
			for _, kind := range []string{"eval", "batch"} {
				key := fmt.Sprint("underway:", round, ":", kind, ":", i)
				go func() {
					var err error
					if kind == "eval" {
						_, err = d.Eval(ctx, callIncr(key))
					} else {
						err = d.Batch(ctx, []driver.Call{callIncr(key)})[0].Err
					}
					done <- outcome{key, err}
				}()
			}
		}
		redistest.Eventually(t, "scripts that have run", func() error {
			if n := len(server.Must(t, "KEYS", fmt.Sprint("underway:", round, ":*")).([]any)); n == 0 {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		p.Flow()
		for range 2 * calls {
			o := <-done
			wantClass(t, o.err, driver.Unknown, driver.Closed, driver.NotSent)
			if server.Int(t, "EXISTS", o.key) == 1 {
				wantClass(t, o.err, driver.Unknown)
			}
		}
		cancel()
	}
}

// closeAndCount closes d, and waits until no goroutine is left that d's code started. Bound is for Close.
func (s suite) closeAndCount(t *testing.T, d driver.Driver, bound time.Duration) {
	t.Helper()
	start := time.Now()
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s.within("Close", time.Since(start), bound)
	_, err := d.Eval(t.Context(), callIncr("closed"))
	wantClass(t, err, driver.Closed)
	wantClass(t, d.Batch(t.Context(), []driver.Call{callIncr("closed")})[0].Err, driver.Closed)
	// A goroutine that has just woken Close may take a moment to end.
	closed := time.Now()
	redistest.Eventually(t, "no goroutine of the driver is left", func() error {
		if stacks := driverGoroutines(); len(stacks) > 0 {
			return fmt.Errorf("%d are:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
		}
		return nil
	})
	s.within("the last goroutine after Close", time.Since(closed), 500*time.Millisecond)
}

// driverGoroutines returns the stacks of goroutines that run code of a driver or were created by
// it, leaving out the suite itself.
func driverGoroutines() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		for line := range strings.Lines(stack) {
			if strings.Contains(line, "mortise/driver/") && !strings.Contains(line, "driver/drivertest") &&
				!strings.Contains(line, "Test") && !strings.HasPrefix(line, "\t") {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}
