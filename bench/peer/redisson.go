package peer

import (
	"time"

	"github.com/mortise-go/mortise/bench/redisson"
)

var redissonLock = inJava("Redisson", "RLock of getLock")

var redissonFair = inJava("Redisson fair", "RLock of getFairLock")

var redissonRW = sides(inJava("Redisson RReadWriteLock", "both locks of getReadWriteLock"))

var redissonSemaphore = permits(inJava("Redisson RSemaphore", "acquire and release of getSemaphore"))

var redissonPermits = permits(inJava("Redisson RPermitExpirableSemaphore",
	"acquire with a lease of 30 s, which it cannot renew, and release of getPermitExpirableSemaphore"))

func sides(s *System) *System   { s.Sides = true; return s }
func permits(s *System) *System { s.Permits = true; return s }

// inJava returns a system of Redisson's, with its defaults.
func inJava(name, lock string) *System {
	return &System{
		Name:    name,
		Version: redisson.Version,
		Settings: lock + "; its defaults: 30 s, renewed every 10 s; a JVM for each process (" + redisson.Flags() +
			"), warmed up with 6,000 locks or for 10 s, and with 2 s of each load",
		Rounds:    2, // a JVM takes long to warm up
		Ready:     90 * time.Second,
		Warmup:    2 * time.Second,
		Worker:    redisson.Worker,
		Available: redisson.Build,
	}
}

// Fleets of which half are programs in Java.
var (
	besideRedisson     = mixed("mortise beside Redisson", mortiseRueidis, redissonLock)
	fairBesideRedisson = mixed("mortise fair beside Redisson fair", fairRueidis, redissonFair)
)

// mixed returns a system that runs in every first process, with that of Java in every second one.
func mixed(name string, ours, java *System) *System {
	return &System{
		Name: name, Module: module, Settings: ours.Name + " in every first process, " + java.Name + " in every second one",
		Open: ours.Open, Beside: java.Name,
		Rounds: java.Rounds, Ready: java.Ready, Warmup: java.Warmup, Available: java.Available,
	}
}
