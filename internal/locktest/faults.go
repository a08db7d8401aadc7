package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Faults is a driver that counts calls and can be told to misbehave.
type Faults struct {
	driver.Driver

	mu     sync.Mutex // guards the fields below
	calls  map[string]int
	ended  map[string]int
	before func(ctx context.Context, name string) error // if it fails, the script does not run
	after  func(ctx context.Context, name string) error // the script has run, but its reply is replaced

	late     time.Duration // an acquisition gets no reply, and runs only after this time
	InFlight sync.WaitGroup
}

var ErrCut = &driver.Error{Class: driver.Unknown, Err: errors.New("connection cut by the test")}

func (f *Faults) Set(before, after func(ctx context.Context, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *Faults) DeliverLate(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = d
}

func (f *Faults) Count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// Answered counts the calls of a script that Redis has answered.
func (f *Faults) Answered(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[name]
}

// Total counts the calls of all scripts that have to do with locks. Those that only read them are
// sent from time to time, however many locks there are: Told counts them.
func (f *Faults) Total() (n int) { return f.sum(false) }

// Told counts the calls of scripts that read and write the records of clients and histories.
func (f *Faults) Told() (n int) { return f.sum(true) }

func (f *Faults) sum(telling bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, c := range f.calls {
		if tells := strings.HasPrefix(name, "client_") || strings.HasPrefix(name, "history_"); tells == telling {
			n += c
		}
	}
	return n
}

func (f *Faults) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := f.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (f *Faults) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	name := calls[0].Script.Name()
	f.mu.Lock()
	if f.calls == nil {
		f.calls, f.ended = make(map[string]int), make(map[string]int)
	}
	f.calls[name] += len(calls)
	before, after, late := f.before, f.after, f.late
	f.mu.Unlock()
	if late > 0 && strings.HasSuffix(name, "_acquire") {
		f.InFlight.Go(func() {
			time.Sleep(late)
			f.Driver.Batch(context.Background(), calls)
		})
		before = Hang
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

// Scan implements [driver.Scanner]. To the faults it is a script called scan.
func (f *Faults) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, "scan"); err != nil {
			return err
		}
	}
	return f.Driver.(driver.Scanner).Scan(ctx, match, fn)
}

// LoseReplies returns a fault that loses the next n replies of a script.
func LoseReplies(script string, n int) func(context.Context, string) error {
	var mu sync.Mutex
	return func(_ context.Context, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if name != script || n == 0 {
			return nil
		}
		n--
		return ErrCut
	}
}

// Hang is a fault: no reply until ctx ends, or a driver gives up.
func Hang(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return driver.ContextError(ctx, driver.Unknown)
	case <-time.After(driver.Longest):
		return &driver.Error{Class: driver.Unknown, Err: errors.New("no reply")}
	}
}
