package mortisetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

// A call without faults gets its reply at once, with the errors that a driver has.
func TestCall(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		took(t, 0, func() {
			if n, err := add(t.Context(), l, "n"); n != 1 || err != nil {
				t.Errorf("%d, %v, want 1", n, err)
			}
		})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := add(ended, l, "n")
		wantClass(t, err, driver.NotSent)
		_ = l.Close()
		_, err = add(t.Context(), l, "n")
		wantClass(t, err, driver.Closed)
		want(t, s, `"1"`, "GET", "n")
		if n := l.Calls("semaphore_add"); n != 1 {
			t.Errorf("%d calls were counted, want 1", n)
		}
		wantHits(t, s.Hits(), nil)
	})
}

// Each part of a call can be lost, and the client learns that at once, or never.
func TestLosses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault mortisetest.Fault
		class driver.Class
		after time.Duration
		ran   string
		hits  map[mortisetest.Hit]int
	}{
		"request": {mortisetest.Fault{Lose: mortisetest.Request}, driver.Unknown, 0, `nil`,
			map[mortisetest.Hit]int{mortisetest.RequestLost: 1}},
		"reply": {mortisetest.Fault{Lose: mortisetest.Reply}, driver.Unknown, 0, `"1"`,
			map[mortisetest.Hit]int{mortisetest.ReplyLost: 1}},
		"connection": {mortisetest.Fault{Lose: mortisetest.Connection}, driver.NotSent, 0, `nil`,
			map[mortisetest.Hit]int{mortisetest.NotConnected: 1}},
		"request, silently": {mortisetest.Fault{Lose: mortisetest.Request, Silent: true}, driver.Unknown, 3 * time.Second, `nil`,
			map[mortisetest.Hit]int{mortisetest.RequestLost: 1}},
		"reply, silently": {mortisetest.Fault{Lose: mortisetest.Reply, Silent: true}, driver.Unknown, 3 * time.Second, `"1"`,
			map[mortisetest.Hit]int{mortisetest.ReplyLost: 1}},
		"refused": {mortisetest.Fault{Refuse: mortisetest.OutOfMemory}, driver.Passing, 0, `nil`,
			map[mortisetest.Hit]int{mortisetest.Refused: 1}},
		"refused, late": {mortisetest.Fault{Refuse: mortisetest.NoPermission, Before: time.Second, After: time.Second}, driver.Denied, 2 * time.Second, `nil`,
			map[mortisetest.Hit]int{mortisetest.Refused: 1, mortisetest.Slow: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
				l.Next("semaphore_add", 1, test.fault)
				took(t, test.after, func() {
					_, err := add(t.Context(), l, "n")
					wantClass(t, err, test.class)
				})
				want(t, s, test.ran, "GET", "n")
				wantHits(t, s.Hits(), test.hits)
				mustAdd(t, l, "n") // only the next call was to suffer
			})
		})
	}
}

// A slow call takes as long as it says, there and back.
func TestSlowCall(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		l.Next("", 1, mortisetest.Fault{Before: time.Second, After: 2*time.Second - 1})
		time.AfterFunc(time.Second-1, func() { want(t, s, "nil", "GET", "n") })
		time.AfterFunc(time.Second+1, func() { want(t, s, `"1"`, "GET", "n") })
		took(t, 3*time.Second-1, func() { mustAdd(t, l, "n") })
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{mortisetest.Slow: 1})
	})
}

// A script runs after its client has given up, because of its context, its timeout or a broken
// connection, and even after the client was closed.
func TestLateCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault mortisetest.Fault
		limit time.Duration
		after time.Duration
		cause error
	}{
		"context":    {mortisetest.Fault{Before: 5 * time.Second}, time.Second, time.Second, context.DeadlineExceeded},
		"timeout":    {mortisetest.Fault{Before: 5 * time.Second}, time.Hour, 3 * time.Second, nil},
		"connection": {mortisetest.Fault{Before: 5 * time.Second, Lose: mortisetest.Reply}, time.Hour, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
				l.Next("semaphore_add", 1, test.fault)
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				took(t, test.after, func() {
					_, err := add(ctx, l, "n")
					wantClass(t, err, driver.Unknown)
					if test.cause != nil && !errors.Is(err, test.cause) {
						t.Errorf("error %v, want one that matches %v", err, test.cause)
					}
				})
				_ = l.Close()
				want(t, s, "nil", "GET", "n")
				took(t, 5*time.Second-test.after, s.Settle)
				want(t, s, `"1"`, "GET", "n")
				wantHits(t, s.Hits(), map[mortisetest.Hit]int{mortisetest.Slow: 1, mortisetest.RanLate: 1, mortisetest.ReplyLost: 1})
			})
		})
	}
}

// What is under way when the server closes is lost, and nothing waits for it.
func TestCloseLosesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		l := s.Link()
		l.Next("semaphore_add", 1, mortisetest.Fault{Before: time.Hour, Lose: mortisetest.Reply})
		_, err := add(t.Context(), l, "n")
		wantClass(t, err, driver.Unknown)
		took(t, 0, s.Close)
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{mortisetest.Slow: 1, mortisetest.RequestLost: 1})
		took(t, 0, s.Close)
	})
}

// Next counts the calls of one script, OnCall sees them all, and Next goes first.
func TestPlans(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		l.Next("semaphore_drain", 1, mortisetest.Fault{Lose: mortisetest.Request})
		mustAdd(t, l, "n")
		l.Next("semaphore_add", 2, mortisetest.Fault{Lose: mortisetest.Request})
		l.Next("", 1, mortisetest.Fault{Lose: mortisetest.Connection})
		var seen []string
		l.OnCall(func(script string) mortisetest.Fault {
			seen = append(seen, script)
			return mortisetest.Fault{Refuse: mortisetest.Busy}
		})
		for _, class := range []driver.Class{driver.Unknown, driver.Unknown, driver.NotSent, driver.Passing} {
			_, err := add(t.Context(), l, "n")
			wantClass(t, err, class)
		}
		err := l.Scan(t.Context(), "*", nil)
		wantClass(t, err, driver.Passing)
		if len(seen) != 2 || seen[0] != "semaphore_add" || seen[1] != "SCAN" {
			t.Errorf("OnCall saw %q, want semaphore_add and SCAN", seen)
		}
		l.Calm()
		mustAdd(t, l, "n")
		want(t, s, `"2"`, "GET", "n")
	})
}

// A batch shares its fate, and its scripts run one by one.
func TestBatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		calls := []driver.Call{{Script: incr, Keys: []string{"a"}}, {Script: incr, Keys: []string{"b"}}}
		l.Next("semaphore_add", 1, mortisetest.Fault{Lose: mortisetest.Reply})
		for _, r := range l.Batch(t.Context(), calls) {
			wantClass(t, r.Err, driver.Unknown)
		}
		for _, r := range l.EvalWait(t.Context(), calls, driver.Wait{Replicas: 1}) {
			if r.Err != nil || r.Value.Int() != 2 || r.Acks != 0 {
				t.Errorf("%+v, want 2, without replicas", r)
			}
		}
		var keys []string
		if err := l.Scan(t.Context(), "*", func(page []string) error { keys = append(keys, page...); return nil }); err != nil || len(keys) != 2 {
			t.Errorf("keys %q, %v, want two", keys, err)
		}
	})
}

// A partition loses calls, replies and messages; subscriptions are made anew when it heals.
func TestPartition(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		sub, heard := listen(t, l, "a")
		l.Next("semaphore_add", 1, mortisetest.Fault{After: 2 * time.Second})
		time.AfterFunc(time.Second, l.Partition)
		took(t, 3*time.Second, func() {
			_, err := add(t.Context(), l, "n") // it ran, and its reply is lost
			wantClass(t, err, driver.Unknown)
		})
		took(t, 3*time.Second, func() {
			_, err := add(t.Context(), l, "n")
			wantClass(t, err, driver.Unknown)
		})
		s.Publish("a", "lost")
		sub.Subscribe("b", false)
		heard.want(t)
		want(t, s, `["a" 1 "b" 0]`, "PUBSUB", "NUMSUB", "a", "b") // it does not know yet
		l.Heal()
		heard.want(t, "+a", "+b")
		s.Publish("b", "heard")
		heard.want(t, "b:heard")
		mustAdd(t, l, "n")
		want(t, s, `"2"`, "GET", "n")
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{
			mortisetest.WasPartitioned: 1, mortisetest.RequestLost: 1, mortisetest.ReplyLost: 1,
			mortisetest.Slow: 1, mortisetest.MessageLost: 1,
		})
	})
}

// A freeze holds everything back, and loses nothing.
func TestFreeze(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		sub, heard := listen(t, l, "a")
		l.Freeze()
		took(t, 3*time.Second, func() {
			_, err := add(t.Context(), l, "n")
			wantClass(t, err, driver.Unknown)
		})
		s.Publish("a", "1")
		sub.Subscribe("b", false)
		s.Publish("a", "2")
		heard.want(t)
		want(t, s, `nil`, "GET", "n")
		want(t, s, `["a" 1 "b" 0]`, "PUBSUB", "NUMSUB", "a", "b")
		time.AfterFunc(time.Second, l.Thaw)
		took(t, time.Second, func() { mustAdd(t, l, "n") }) // waited, and got its reply
		heard.want(t, "a:1", "a:2", "+b")
		want(t, s, `"2"`, "GET", "n")
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{
			mortisetest.WasFrozen: 1, mortisetest.RanLate: 1, mortisetest.ReplyLost: 1,
		})
	})
}

// Cut ends calls in flight, and has subscriptions made anew after a pause.
func TestCut(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		sub, heard := listen(t, l, "a", "b")
		l.Next("semaphore_add", 1, mortisetest.Fault{After: 2 * time.Second})
		time.AfterFunc(time.Second, func() { l.Cut(time.Minute) })
		took(t, time.Second, func() {
			_, err := add(t.Context(), l, "n")
			wantClass(t, err, driver.Unknown)
		})
		mustAdd(t, l, "n") // a new connection
		synctest.Wait()    // the server has read the end of the old one
		want(t, s, `["a" 0]`, "PUBSUB", "NUMSUB", "a")
		s.Publish("a", "lost")
		sub.Unsubscribe("a", false)
		sub.Subscribe("c", false)
		time.Sleep(time.Minute - 1)
		heard.want(t)
		time.Sleep(time.Nanosecond)
		heard.want(t, "+b", "+c")
		s.Publish("c", "heard")
		heard.want(t, "c:heard")
		l.Cut(time.Minute)
		_ = sub.Close()
		s.Settle()
		heard.want(t)
		want(t, s, `"2"`, "GET", "n")
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{mortisetest.WasCut: 2, mortisetest.Slow: 1, mortisetest.ReplyLost: 1})
	})
}

// A client that is cut off, or frozen, opens no new connection.
func TestCutOfAClientThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		_, heard := listen(t, l, "a")
		for _, away := range []struct{ begin, end func() }{{l.Partition, l.Heal}, {l.Freeze, l.Thaw}, {l.Partition, l.Calm}, {l.Freeze, l.Calm}} {
			away.begin()
			l.Cut(0)
			s.FailOver(0)
			heard.want(t)
			want(t, s, `["a" 0]`, "PUBSUB", "NUMSUB", "a")
			away.end()
			synctest.Wait()
			want(t, s, `["a" 1]`, "PUBSUB", "NUMSUB", "a")
			heard.want(t, "+a")
			mustAdd(t, l, "n")
		}
	})
}

// The client's timeout ends a call whose context lasts.
func TestTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		l.SetTimeout(time.Minute)
		l.Next("", 1, mortisetest.Fault{Lose: mortisetest.Reply, Silent: true})
		took(t, time.Minute, func() {
			_, err := add(context.Background(), l, "n")
			wantClass(t, err, driver.Unknown)
		})
	})
}
