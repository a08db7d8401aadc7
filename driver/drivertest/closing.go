package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// closing: Close ends what the driver started, also when it is blocked.
func (s suite) closing(t *testing.T) {
	server := redistest.Single(t)
	t.Run("idle", func(t *testing.T) {
		d := s.open(t, at(server))
		s.closeAndCount(t, d)
	})
	t.Run("in use", func(t *testing.T) {
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
		s.closeAndCount(t, d)
		eventuallySubscribers(t, server, "close:99", 0)
	})
	t.Run("with an open subscriber", func(t *testing.T) {
		d := s.open(t, at(server))
		d.Subscriber(newRecorder()).Subscribe("left", false)
		eventuallySubscribers(t, server, "left", 1)
		s.closeAndCount(t, d)
		eventuallySubscribers(t, server, "left", 0)
	})
	t.Run("blocked", func(t *testing.T) {
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
		promptly(t, "Close of a blocked subscriber", func() {
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
		})
		s.closeAndCount(t, d)
		// It may have been stopped before it sent anything.
		wantClass(t, <-failed, driver.Unknown, driver.NotSent)
	})
	t.Run("server gone", func(t *testing.T) {
		p := redistest.NewProxy(t, server.Addr())
		d := s.open(t, Target{Mode: Single, Addrs: []string{p.Addr()}})
		p.Refuse()
		p.CutAll()
		d.Subscriber(newRecorder()).Subscribe("gone", false)
		s.closeAndCount(t, d)
	})
}

// closeAndCount closes d, and counts the goroutines that its code began.
func (s suite) closeAndCount(t *testing.T, d driver.Driver) {
	t.Helper()
	promptly(t, "Close", func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	_, err := d.Eval(t.Context(), callIncr("closed"))
	wantClass(t, err, driver.NotSent)
	wantClass(t, d.Batch(t.Context(), []driver.Call{callIncr("closed")})[0].Err, driver.NotSent)
	// A goroutine whose last act woke Close may take a moment to vanish.
	redistest.Eventually(t, "no goroutine of the driver left", func() error {
		if stacks := driverGoroutines(); len(stacks) > 0 {
			return fmt.Errorf("%d are:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
		}
		return nil
	})
}

// driverGoroutines returns the stacks of goroutines that run or were created
// by code of a driver, leaving out the suite itself.
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
