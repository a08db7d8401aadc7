// Package loadtest measures what locks cost on a server, and explains the figures in sentences.
//
// mortise bench calls it: [Run] puts the loads of internal/workload on the server one after
// another, counts the commands that its own clients send, writes each figure when it is known, and
// returns a [Report], which --json shows as it is. All keys have one prefix. They are gone when Run
// returns, however it ends, and expire within ten seconds if the process is killed.
package loadtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/driver"
)

// The accepted ranges.
const (
	MinDuration, MaxDuration       = 5 * time.Second, 10 * time.Minute
	MinConcurrency, MaxConcurrency = contenders, 1024
)

// The amounts that the concurrency does not bound.
const (
	contenders = 4    // clients that contend for one lock
	MaxHeld    = 1000 // locks held; fewer if acquiring them would take long
	Waiters    = 200  // goroutines that wait for one lock
)

// lockLease is how long a lock stays if the load test is killed.
const lockLease = 10 * time.Second

// Config configures a load test.
type Config struct {
	Server      string // for display, without a password
	Open        func(ctx context.Context) (driver.Driver, error)
	Duration    time.Duration // of the whole test, approximately
	Concurrency int           // goroutines that use locks at a time
	Prefix      string        // of all keys; a random part follows

	Say   func(format string, args ...any) // announces the load
	Print func(format string, args ...any) // writes a line of the result
}

// RoundTripError says why a script that does nothing got no reply from a server that had accepted
// the connection.
type RoundTripError struct{ Err error }

func (e *RoundTripError) Error() string { return e.Err.Error() }

func (e *RoundTripError) Unwrap() error { return e.Err }

// NoLockError says that a load of locks did not acquire a single one.
type NoLockError struct{ Within time.Duration }

func (e *NoLockError) Error() string {
	return fmt.Sprintf("no lock could be taken within %v", duration.Round(e.Within))
}

// Window returns how long each load is measured in a load test that takes d.
func Window(d time.Duration) time.Duration {
	load := loadTime(d)
	return load - warmupOf(load)
}

// loadTest is a load test: its configuration, and its results so far.
type loadTest struct {
	Config
	sent counter
	seen Report
}

// Run measures everything and explains it. It returns the report even if two goroutines held one
// lock at the same time; see [Report.Overlaps].
func Run(ctx context.Context, c Config) (*Report, error) {
	t := &loadTest{Config: c}
	t.Prefix += rand.Text()[:8] + ":"
	client, err := t.connect(ctx, mortise.Options{TTL: lockLease})
	if err != nil {
		return nil, err
	}
	defer client.leave()
	t.seen = Report{Server: t.Server, Prefix: t.Prefix, Concurrency: t.Concurrency}
	if err := t.greet(ctx, client); err != nil {
		return nil, err
	}
	for _, part := range t.parts() {
		if err := part(ctx, client); err != nil {
			return nil, err
		}
	}
	t.conclude()
	return &t.seen, nil
}
