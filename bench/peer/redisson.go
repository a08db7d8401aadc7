package peer

import (
	"time"

	"github.com/mortise-go/mortise/bench/redisson"
)

var redissonLock = inJava("Redisson", "RLock of getLock")

var redissonFair = inJava("Redisson fair", "RLock of getFairLock")

// inJava returns a system of Redisson's, with its defaults.
func inJava(name, lock string) *System {
	return &System{
		Name:    name,
		Version: redisson.Version,
		Settings: lock + "; its defaults: 30 s, renewed every 10 s; a JVM for each process (" + redisson.Flags() +
			"), warmed up with 6 000 locks or for 10 s, and with 2 s of each load",
		Rounds:    2, // a JVM takes long to warm up
		Ready:     90 * time.Second,
		Warmup:    2 * time.Second,
		Worker:    redisson.Worker,
		Available: redisson.Build,
	}
}
