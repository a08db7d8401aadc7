// Package peer makes systems of locks comparable: mortise, those it is
// compared with, and the limits of what is possible.
package peer

import (
	"context"
	"io"
	"os/exec"
	"time"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// System is something that locks.
type System struct {
	Name     string        // as it is shown and asked for
	Module   string        // the Go module that it comes from, for its version
	Version  func() string // of what is no Go module in it
	Settings string        // with which it is used, for the report
	Limit    bool          // it is no lock that anybody could use, but what one could reach

	// Sends names the commands that its clients send themselves, besides
	// those that every client does. The rest is what scripts call.
	Sends []string

	// Server starts what it needs, with pin on one CPU; nil for Redis.
	Server func(pin bool) (rig.Server, error)
	// Open connects it, in a worker of this program.
	Open rig.Open
	// Worker runs a worker of another program, instead of Open.
	Worker func() *exec.Cmd
	// Ready is how much longer its workers may take to open than those of this
	// program.
	Ready time.Duration
	// Warmup is how long a load lasts before it is measured, if that is longer
	// than the load's own.
	Warmup time.Duration
	// Rounds is in how many rounds it takes part, 0: in all.
	Rounds int
	// Available tells what is missing for it to run here; nil if it always can.
	Available func() error
}

// lockFunc is a locker made of a function.
type lockFunc func(ctx context.Context, key string) (workload.Hold, error)

func (f lockFunc) Lock(ctx context.Context, key string) (workload.Hold, error) { return f(ctx, key) }

// closing returns what closes c. A worker that is done with its client does not
// mind how that ends.
func closing(c io.Closer) func() { return func() { _ = c.Close() } }

// Systems returns all systems. Those that take part in a workload are run in
// this order, rotated.
func Systems() []*System {
	return []*System{
		rawRueidis, rawGoredis, rawRedisson,
		inProcess, ownerChanged, queueGranted, passingGranted,
		redsyncSystem, redislockSystem, redislockFast, rueidislockSystem,
		etcdSystem, etcdInMemory,
		redissonLock, redissonFair,
		mortiseRueidis, mortiseGoredis, fairRueidis,
	}
}

// Find returns the system called name, or nil.
func Find(name string) *System {
	for _, s := range Systems() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
