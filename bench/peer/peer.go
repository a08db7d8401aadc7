// Package peer makes systems of locks comparable: mortise, other systems, and the limits of what is
// possible.
package peer

import (
	"context"
	"io"
	"os/exec"
	"time"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// System is a system of locks.
type System struct {
	Name     string        // for display and selection
	Module   string        // its Go module, for the version
	Version  func() string // of its parts that are not Go modules
	Settings string        // its configuration, for the report
	Limit    bool          // not a usable lock, but a limit for locks

	Sides   bool // its locks are read/write locks
	Permits bool // they are semaphores

	// Sends names the commands that its clients send, in addition to those that every client sends.
	// Scripts call the rest.
	Sends []string

	// Server starts its server, with pin on one CPU; nil for Redis.
	Server func(pin bool) (rig.Server, error)
	// Open connects it, in a worker of this program.
	Open rig.Open
	// Worker runs a worker of another program, instead of Open.
	Worker func() *exec.Cmd
	// Beside is the name of the system that runs in every second process.
	Beside string
	// Ready is how much longer its workers may take to open than those of this program.
	Ready time.Duration
	// Warmup is the time before the measurement, if it is longer than the load's own.
	Warmup time.Duration
	// Rounds is the number of rounds in which it takes part, 0: all.
	Rounds int
	// Available reports what is missing for it to run here; nil if it always can.
	Available func() error
}

// lockFunc is a locker made of a function.
type lockFunc func(ctx context.Context, key string) (workload.Hold, error)

func (f lockFunc) Lock(ctx context.Context, key string) (workload.Hold, error) { return f(ctx, key) }

// closing returns a function that closes c. A worker at its end does not need the error.
func closing(c io.Closer) func() { return func() { _ = c.Close() } }

// Systems returns all systems. The systems of a workload are run in this order, rotated.
func Systems() []*System {
	return []*System{
		rawRueidis, rawGoredis, rawRedisson,
		inProcess, ownerChanged, queueGranted, passingGranted, permitsGranted,
		redsyncSystem, redislockSystem, redislockFast, rueidislockSystem,
		etcdSystem, etcdInMemory,
		redissonLock, redissonFair, redissonRW, polling, redissonSemaphore, redissonPermits,
		mortiseRueidis, mortiseGoredis, fairRueidis,
		rwRueidis, rwGoredis, semaphoreRueidis, semaphoreGoredis, permitsRueidis,
		hidden, observed, logged, recorded,
		clientEach, clientEachHidden,
		besideRedisson, fairBesideRedisson,
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
