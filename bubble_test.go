package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A closed cluster client of rueidis still waits out a refresh that it
		// planned, and the grace it gives to connections that it replaced.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}

// bubble runs f in virtual time, with an embedded Redis inside. The bubble
// itself fails the test if a goroutine is left when f returns.
func bubble(t *testing.T, f func(t *testing.T, s *memredis.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		f(t, s)
	})
}

// open returns a client on s that is closed when the test ends, and its
// driver, with which faults can be injected.
func open(t *testing.T, s *memredis.Server, options *mortise.Options) (*mortise.Client, *faults) {
	t.Helper()
	f := &faults{Driver: s.Driver()}
	c := mortise.New(f, options)
	t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
	return c, f
}

// faults is a driver that can be told to misbehave, and that counts.
type faults struct {
	driver.Driver

	mu     sync.Mutex // guards what follows
	calls  map[string]int
	ended  map[string]int
	before func(ctx context.Context, name string) error // the script does not run if it fails
	after  func(ctx context.Context, name string) error // the script has run, but its reply is replaced

	late     time.Duration // an acquisition gets no reply, and runs only after this time
	inFlight sync.WaitGroup
}

var errCut = &driver.Error{Class: driver.Unknown, Err: errors.New("connection cut by the test")}

func (f *faults) set(before, after func(ctx context.Context, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faults) deliverLate(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = d
}

func (f *faults) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// answered counts the calls of a script that Redis has answered.
func (f *faults) answered(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[name]
}

func (f *faults) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		n += c
	}
	return n
}

func (f *faults) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := f.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (f *faults) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	name := calls[0].Script.Name()
	f.mu.Lock()
	if f.calls == nil {
		f.calls, f.ended = make(map[string]int), make(map[string]int)
	}
	f.calls[name] += len(calls)
	before, after, late := f.before, f.after, f.late
	f.mu.Unlock()
	if late > 0 && strings.HasSuffix(name, "_acquire") {
		f.inFlight.Go(func() {
			time.Sleep(late)
			f.Driver.Batch(context.Background(), calls)
		})
		before = hang
	}
	fail := func(results []driver.Result, err error) []driver.Result {
		for i := range results {
			results[i] = driver.Result{Err: err}
		}
		return results
	}
	if before != nil {
		if err := before(ctx, name); err != nil {
			return fail(make([]driver.Result, len(calls)), err)
		}
	}
	results := f.Driver.Batch(ctx, calls)
	f.mu.Lock()
	f.ended[name] += len(calls)
	f.mu.Unlock()
	if after != nil {
		if err := after(ctx, name); err != nil {
			return fail(results, err)
		}
	}
	return results
}

// loseReplies returns a fault that loses the next n replies of a script.
func loseReplies(script string, n int) func(context.Context, string) error {
	var mu sync.Mutex
	return func(_ context.Context, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if name != script || n == 0 {
			return nil
		}
		n--
		return errCut
	}
}

// loss is a fault: so many replies to a script, or requests to run it, are lost.
type loss struct {
	n    int
	what string // "replies" or "requests"
}

var losses = []loss{{1, "replies"}, {2, "replies"}, {3, "replies"}, {1, "requests"}, {2, "requests"}, {3, "requests"}}

func (l loss) String() string { return fmt.Sprintf("%d lost %s", l.n, l.what) }

// set has f lose the next replies or requests of the script.
func (l loss) set(f *faults, script string) {
	if l.what == "replies" {
		f.set(nil, loseReplies(script, l.n))
	} else {
		f.set(loseReplies(script, l.n), nil)
	}
}

// hang is a fault: no answer until ctx ends.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return driver.ContextError(ctx, driver.Unknown)
}

// mustLock takes a lock that the test expects to get.
func mustLock(t *testing.T, k *mortise.Lock, ctx context.Context) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

func mustUnlock(t *testing.T, h *mortise.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// wantState checks what lies in Redis: the owner and its count, or nothing.
func wantState(t *testing.T, k *mortise.Lock, owner string, count int) {
	t.Helper()
	s, err := k.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		if s.Locked {
			t.Errorf("the lock is held by %v, want free", s.Holders)
		}
		return
	}
	if len(s.Holders) != 1 || s.Holders[0] != (mortise.Holder{Owner: owner, Count: count}) {
		t.Errorf("the lock is held by %v, want %s with count %d", s.Holders, owner, count)
	}
}
