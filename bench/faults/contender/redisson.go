package contender

import "github.com/mortise-go/mortise/bench/redisson"

var redissonSystem = &System{
	Name:    "Redisson",
	Version: func() (string, error) { return redisson.Version(), nil },
	Setting: "getLock, getFencedLock or getFairLock with lock(); lockWatchdogTimeout for the lease, else its defaults (renewed every third " +
		"of it); useMasterSlaveServers where there are replicas, so that checkLockSyncedSlaves, on by default, applies; " +
		"isHeldByThread in a loop, every third of the lease",
	Key:          itself,
	Tells:        ByLoop,
	Check:        "isHeldByThread, which asks Redis",
	Subscribes:   true,
	Reenters:     true,
	Fenced:       true,
	Fair:         true,
	Acknowledges: true,
	Command:      redisson.Contender,
	Build:        redisson.Build,
}
