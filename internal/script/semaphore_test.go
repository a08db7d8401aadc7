package script_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// takes has the operation under test take permits.
func takes(n int) setup {
	return func(t *testing.T, w *world) {
		ok, _, err := script.SemaphoreAcquire(t.Context(), w, job, trial, n, "", "")
		if !ok || err != nil {
			t.Fatalf("got %v, %v, want true", ok, err)
		}
	}
}

func TestSemaphoreUndo(t *testing.T) {
	undo := func(doubt bool) func(ctx context.Context, d driver.Driver) string {
		return func(ctx context.Context, d driver.Driver) string {
			_, err := script.SemaphoreUndo(ctx, d, job, trial, 3, "me", doubt, script.Classic)
			return said(err)
		}
	}
	me := func(n int) setup { return func(t *testing.T, w *world) { claimFor(t, w, "me", n) } }
	t.Run("in doubt", func(t *testing.T) {
		numbers(t, permitNews, undo(true), []numberRow{
			{name: "it had taken some", setup: counts("5").then(takes(3)), after: "string 5", ttl: none, received: []string{"5"}},
			{name: "it had taken some of many", setup: limited("5").then(takes(3)), after: "string 5", ttl: 10 * time.Minute, received: []string{"5"}},
			{name: "some are missing since", setup: counts("5").then(takes(3)).then(counts("-4")), after: "string -1", ttl: none, received: []string{"-1"}},
			{name: "deleted since", setup: counts("5").then(takes(3)).then(func(t *testing.T, w *world) { w.must(t, "DEL", job) }), after: "nothing", ttl: absent},
			{name: "no number since", setup: counts("5").then(takes(3)).then(counts("x")), after: "string x", ttl: none},
			{name: "it had not", setup: counts("5"), after: "string 5", ttl: none},
			{name: "it had claimed", setup: counts("2").then(me(3)), after: "string 2", ttl: none},
			{name: "it had claimed before another", setup: counts("2").then(me(3)).then(claiming(1)), after: "string 2", ttl: none, claims: "waiter0:1", received: []string{"2"}},
			{name: "it had claimed before another, and is refused", setup: counts("0").then(me(3)).then(claiming(1)), after: "string 0", ttl: none, claims: "waiter0:1"},
			{name: "no semaphore", setup: nothing, after: "nothing", ttl: absent},
			{name: "lock", setup: held(lease, java, "1"), after: "hash " + java + "=1", ttl: lease},
		})
	})
	t.Run("no doubt", func(t *testing.T) {
		numbers(t, permitNews, undo(false), []numberRow{
			{name: "it had claimed", setup: counts("2").then(me(3)), after: "string 2", ttl: none},
			{name: "it had claimed before another", setup: counts("2").then(me(3)).then(claiming(1)), after: "string 2", ttl: none, claims: "waiter0:1", received: []string{"2"}},
			{name: "no semaphore", setup: nothing, after: "nothing", ttl: absent},
		})
	})
}

// tries drives the operations of several waiters on the key job.
type tries struct {
	*world
	t *testing.T
}

func (s tries) acquire(id string, n int, waiter string, want bool) {
	s.t.Helper()
	ok, why, err := script.SemaphoreAcquire(s.t.Context(), s, job, first(id), n, waiter, "")
	if err != nil || ok != want {
		s.t.Errorf("%s acquires %d: %v (%d available, %d of them for others), %v, want %v", id, n, ok, why.Available, why.Left, err, want)
	}
}

func (s tries) undo(id string, n int, waiter string, want bool) {
	s.t.Helper()
	undone, err := script.SemaphoreUndo(s.t.Context(), s, job, first(id), n, waiter, true, script.Classic)
	if err != nil || undone != want {
		s.t.Errorf("the undoing of %s: %v, %v, want %v", id, undone, err, want)
	}
}

func (s tries) release(id string, n int) {
	s.t.Helper()
	if _, became, err := script.SemaphoreRelease(s.t.Context(), s, job, first(id), n, script.Classic, "", 0); err != nil || became == script.NotHeld {
		s.t.Errorf("%s releases %d: %v, %v, want true", id, n, became, err)
	}
}

// A delayed copy arrives after its acquisition was given up, or after its permits were
// returned.
func TestLateCopyOfASemaphoreAcquisition(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := tries{w, t}
		counts("5")(t, w)
		s.undo("a", 3, "", false) // no copy of it has arrived so far
		s.acquire("a", 3, "", false)
		s.acquire("a", 3, "a", false)
		w.wantDump(t, job, "string 5")
		if got := w.claimed(t); got != "" {
			t.Errorf("a waiter that gave up claims %q, want %q", got, "")
		}

		s.acquire("b", 3, "", true)
		s.undo("b", 3, "", true)
		s.acquire("b", 3, "", false)
		s.undo("b", 3, "", true) // the same reply as before
		w.wantDump(t, job, "string 5")

		s.acquire("c", 3, "", true)
		s.release("d", 3)
		s.acquire("c", 3, "", true) // the same reply as before
		s.release("d", 3)
		w.wantDump(t, job, "string 5")
	})
}

// A waiter for many permits is served before later waiters, and they are served
// before requests that do not wait; but no request waits for a waiter that it cannot
// delay.
func TestClaimsAreServedInOrder(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := tries{w, t}
		counts("2")(t, w)
		s.acquire("many", 4, "many", false)
		s.acquire("one", 1, "one", false)
		s.acquire("passing", 1, "", false)
		s.release("r1", 1) // 3
		s.acquire("one", 1, "one", false)
		s.acquire("passing", 1, "", false)
		s.release("r2", 2)                 // 5
		s.acquire("one", 1, "one", true)   // leaves 4 for the first
		s.acquire("passing", 1, "", false) // 4 are for the first
		s.acquire("many", 4, "many", true) // none are left
		s.acquire("many", 4, "many", true) // a repeat
		s.acquire("one", 1, "one", true)   // a repeat
		s.acquire("passing", 1, "", false)
		s.release("r3", 1)
		s.acquire("passing", 1, "", true)
		w.wantDump(t, job, "string 0")
		if got := w.claimed(t); got != "" {
			t.Errorf("%q are claimed still, want %q", got, "")
		}
	})
}

// The claim of a dead waiter ends by itself, while others keep theirs.
func TestClaimsOfTheDeadEnd(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := tries{w, t}
		counts("2")(t, w)
		s.acquire("dead", 4, "dead", false)
		s.acquire("one", 2, "one", false)
		// Its time is over, or is one that no clock can have set.
		for _, until := range []string{"1000", "99999999999999"} {
			w.must(t, "HSET", claims, "dead", "1 4 "+until)
			w.must(t, "HDEL", claims, "another")
			s.acquire("another", 3, "another", false)
			s.acquire("passing", 1, "", false)
			if got := w.claimed(t); got != "one:2 another:3" {
				t.Errorf("%q are claimed, want those of the living", got)
			}
		}
		// Content that is not a claim counts for nothing.
		w.must(t, "HSET", claims, "odd", "x", "odder", "1 2", "oddest", "-1 -1 -1")
		s.acquire("one", 2, "one", true)
		w.must(t, "DEL", claims)
		s.acquire("another", 3, "another", false)
		w.lapse(t, claims)
		counts("1")(t, w)
		s.acquire("passing", 1, "", true)
	})
}

// A copy that arrives after its lane has been used again changes nothing, whatever the
// outcome of its operation.
func TestLateCopiesOfALane(t *testing.T) {
	server := single(t)
	for name, test := range numberCalls {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				w.must(t, "SET", keyspace.Operation(job, op), "42 1")
				sub := w.listen(t, test.on, false)
				_, _ = test.call(t.Context(), w, script.Classic)
				w.wantDump(t, job, test.before)
				w.wantDump(t, keyspace.Operation(job, op), "string 42 1")
				sub.want(t)
			})
		})
	}
}

// An expired record is no record.
func TestRecordsEnd(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := tries{w, t}
		counts("5")(t, w)
		for _, do := range []func(){func() { s.acquire("a", 3, "", true) }, func() { s.release("a", 1) }} {
			do()
			w.lapse(t, keyspace.Operation(job, "a"))
		}
		w.wantDump(t, job, "string 3")
		if n := w.must(t, "DBSIZE").Int(); n != 1 {
			t.Errorf("%d keys are there, want the semaphore alone", n)
		}
	})
}

// The scripts themselves count correctly, however many run at the same time.
func TestSemaphoreScriptsKeepTheNumber(t *testing.T) {
	const takers, rounds, permits = 4, 25, 5
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		counts(fmt.Sprint(permits))(t, w)
		inside := make(chan struct{}, takers*3)
		done := make(chan struct{}, takers)
		for i := range takers {
			d := deafAtTimes{w.connect(t), new(int)}
			n := 1 + i%3
			go func() {
				defer func() { done <- struct{}{} }()
				for round := range rounds {
					id := fmt.Sprint(i, ":", round)
					for {
						ok, _, err := script.SemaphoreAcquire(context.Background(), d, job, first(id), n, fmt.Sprint("waiter", i), "")
						if err != nil && driver.ClassOf(err) != driver.Unknown {
							t.Error(err)
							return
						}
						if ok {
							break
						}
					}
					for range n {
						inside <- struct{}{}
					}
					if have := len(inside); have > permits {
						t.Errorf("%d permits are out, want %d at most", have, permits)
					}
					for range n {
						<-inside
					}
					for {
						if _, became, err := script.SemaphoreRelease(context.Background(), d, job, first(id+":back"), n, script.Classic, "", 0); became != script.NotHeld && err == nil {
							break
						}
					}
				}
			}()
		}
		for range takers {
			<-done
		}
		w.wantDump(t, job, fmt.Sprint("string ", permits))
	})
}

// deafAtTimes is a driver that loses every third reply.
type deafAtTimes struct {
	driver.Driver
	calls *int
}

func (d deafAtTimes) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if *d.calls++; *d.calls%3 == 0 {
		return lossy{d.Driver}.Eval(ctx, call)
	}
	return d.Driver.Eval(ctx, call)
}

// numberCall is a script of a number, with what it needs to succeed.
type numberCall struct {
	rights   []string
	setup    setup
	before   string // the content of the key
	ttl      time.Duration
	received string // on channel
	on       string
	call     func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error)
}

var numberCalls = map[string]numberCall{
	"read": {[]string{"getrange"}, counts("5"), "string 5", none, "", permitNews, func(ctx context.Context, d driver.Driver, _ script.Publish) (bool, error) {
		n, err := script.NumberRead(ctx, d, job)
		return n == 5, err
	}},
	"set": {[]string{"getrange", "get", "set"}, nothing, "nothing", absent, "7", permitNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		return script.NumberSet(ctx, d, job, trial, 7, permitNews, "7", p)
	}},
	"delete": {[]string{"getrange", "set", "del"}, counts("5"), "string 5", none, "1", latchNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		return script.NumberDelete(ctx, d, job, trial, latchNews, "1", p)
	}},
	"acquire": {[]string{"getrange", "time", "hlen", "set", "decrby"}, counts("5"), "string 5", none, "", permitNews, func(ctx context.Context, d driver.Driver, _ script.Publish) (bool, error) {
		ok, _, err := script.SemaphoreAcquire(ctx, d, job, trial, 2, "", "")
		return ok, err
	}},
	"acquire, having waited": {[]string{"getrange", "time", "hlen", "hgetall", "hdel", "set", "decrby"}, counts("1").then(func(t *testing.T, w *world) { claimFor(t, w, "me", 2) }).then(counts("5")),
		"string 5", none, "", permitNews, func(ctx context.Context, d driver.Driver, _ script.Publish) (bool, error) {
			ok, _, err := script.SemaphoreAcquire(ctx, d, job, trial, 2, "me", "")
			return ok, err
		}},
	"claim": {[]string{"getrange", "time", "hlen", "hset", "pexpire"}, counts("1"), "string 1", none, "", permitNews, func(ctx context.Context, d driver.Driver, _ script.Publish) (bool, error) {
		_, why, err := script.SemaphoreAcquire(ctx, d, job, trial, 2, "me", "")
		return why.Available == 1, err
	}},
	"undo": {[]string{"getrange", "time", "hlen", "hdel", "set", "incrby"}, counts("5").then(takes(3)), "string 2", none, "5", permitNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		return script.SemaphoreUndo(ctx, d, job, trial, 3, "me", true, p)
	}},
	"release": {[]string{"getrange", "set", "time", "incrby"}, counts("5"), "string 5", none, "7", permitNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		_, became, err := script.SemaphoreRelease(ctx, d, job, trial, 2, p, "", 0)
		done := became != script.NotHeld
		return done, err
	}},
	"add": {[]string{"getrange", "set"}, counts("5"), "string 5", none, "7", permitNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		_, done, err := script.SemaphoreAdd(ctx, d, job, trial, 2, p)
		return done, err
	}},
	"drain": {[]string{"getrange", "set"}, counts("5"), "string 5", none, "", permitNews, func(ctx context.Context, d driver.Driver, _ script.Publish) (bool, error) {
		n, err := script.SemaphoreDrain(ctx, d, job, trial)
		return n == 5, err
	}},
	"count down": {[]string{"getrange", "set", "decr"}, counts("5"), "string 5", none, "", latchNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		_, done, err := script.LatchCountDown(ctx, d, job, trial, p)
		return done, err
	}},
	"count down to zero": {[]string{"getrange", "set", "del"}, counts("1"), "string 1", none, "0", latchNews, func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		_, done, err := script.LatchCountDown(ctx, d, job, trial, p)
		return done, err
	}},
}
