package report

import "time"

// column is one column of a table: a figure, and its format.
type column struct {
	title  string
	of     figure
	show   func(float64) string
	spread bool // lowest and highest are shown as well
	ratio  bool // to the limit
}

// The figures of tables, charts and goals.
func perSecond(f *Figures) float64   { return f.PerSecond }
func handOvers(f *Figures) float64   { return f.HandOvers }
func utilisation(f *Figures) float64 { return f.Utilisation }
func sent(f *Figures) float64        { return f.Sent }
func inner(f *Figures) float64       { return f.Inner }
func sentRate(f *Figures) float64    { return f.SentRate }
func allocs(f *Figures) float64      { return f.Allocs }
func jain(f *Figures) float64        { return f.Jain }
func jainAcross(f *Figures) float64  { return f.JainAcross }
func across(f *Figures) float64      { return f.Across }
func starved(f *Figures) float64     { return float64(f.Starved) }
func reads(f *Figures) float64       { return f.PerSecond - f.Writes }
func writes(f *Figures) float64      { return f.Writes }
func writeMax(f *Figures) float64    { return float64(f.WriteMax) }
func secondShare(f *Figures) float64 { return f.SecondShare }
func inside(f *Figures) float64      { return f.Inside }
func waitMax(f *Figures) float64     { return float64(f.WaitMax) }
func bytesEach(f *Figures) float64   { return f.BytesEach }
func routinesPer(f *Figures) float64 { return f.RoutinesPer }
func serverBytes(f *Figures) float64 { return f.ServerBytes }
func busiest(f *Figures) float64     { return f.Busiest }
func clientCPU(f *Figures) float64   { return f.ClientCPU }
func serverCPU(f *Figures) float64   { return f.ServerCPU }
func clientEach(f *Figures) float64  { return f.ClientEach }
func serverEach(f *Figures) float64  { return f.ServerEach }
func overlaps(f *Figures) float64    { return float64(f.Overlaps) }

func writeP50(f *Figures) float64  { return float64(f.WriteP50) }
func waitP50(f *Figures) float64   { return float64(f.WaitP50) }
func waitP99(f *Figures) float64   { return float64(f.WaitP99) }
func eitherP50(f *Figures) float64 { return float64(max(f.WaitP50, f.WriteP50)) } // where all read, or all write
func eitherP99(f *Figures) float64 { return float64(max(f.WaitP99, f.WriteP99)) }
func gapP50(f *Figures) float64    { return float64(f.GapP50) }
func acrossP50(f *Figures) float64 { return float64(f.AcrossP50) }
func lost(f *Figures) float64      { return float64(f.Lost) }
func acquired(f *Figures) float64  { return float64(f.Acquired) }

// withoutPing returns what clients send per second for the sake of locks: they send the rest on
// every connection, with or without locks.
func withoutPing(f *Figures) float64 {
	if f.Seconds == 0 {
		return 0
	}
	return f.SentRate - float64(f.Commands["ping"])/f.Seconds
}

// duration formats nanoseconds.
func duration(ns float64) string { return span(time.Duration(ns)) }

// index formats Jain's index.
func index(x float64) string {
	if x > 0.99 {
		return fixed(x, 4) // many systems are nearly fair
	}
	return fixed(x, 3)
}

// told formats a figure that is never really 0: 0 means unknown. A JVM does not count its
// allocations, and etcd has no scripts.
func told(x float64) string {
	if x == 0 {
		return "–"
	}
	return trim(x)
}

// columns are the columns of each workload's table. The first is the main figure.
var columns = map[string][]column{
	"W1":   uncontended,
	"free": uncontended,
	"W2": {
		{title: "pairs/s", of: perSecond, show: count, spread: true},
		{title: "× limit", of: perSecond, show: ratio, ratio: true, spread: true},
		{title: "wait p50", of: waitP50, show: duration},
		{title: "p99", of: waitP99, show: duration},
		{title: "starved", of: starved, show: trim},
		{title: "commands per pair", of: sent, show: told},
		{title: "allocations", of: allocs, show: told},
		{title: "client CPU per pair", of: clientEach, show: micros},
		{title: "server CPU", of: serverEach, show: micros},
	},
	"W3": contention(gapP50),
	"W4": contention(acrossP50,
		column{title: "to other processes/s", of: across, show: count},
		column{title: "Jain over processes", of: jainAcross, show: index},
	),
	"fair": contention(acrossP50),
	"W8": {
		{title: "reads/s", of: reads, show: count, spread: true},
		{title: "writes/s", of: writes, show: count, spread: true},
		{title: "a writer's longest wait", of: writeMax, show: duration, spread: true},
		{title: "p50", of: writeP50, show: duration},
		{title: "a reader's longest wait", of: waitMax, show: duration, spread: true},
		{title: "p50", of: waitP50, show: duration},
		{title: "Jain of readers", of: jain, show: index},
		{title: "starved", of: starved, show: trim},
		{title: "utilisation", of: utilisation, show: trim},
		{title: "inside at a time", of: inside, show: trim},
		{title: "commands", of: sent, show: told},
		{title: "inner calls", of: inner, show: told},
		{title: "allocations", of: allocs, show: told},
		{title: "client CPU", of: clientEach, show: micros},
		{title: "server CPU", of: serverEach, show: micros},
		{title: "overlaps", of: overlaps, show: trim},
	},
	"W9": {
		{title: "acquisitions/s", of: perSecond, show: count, spread: true},
		{title: "× limit", of: perSecond, show: ratio, ratio: true, spread: true},
		{title: "commands", of: sent, show: told},
		{title: "inner calls", of: inner, show: told},
		{title: "wait p50", of: waitP50, show: duration},
		{title: "longest wait", of: waitMax, show: duration, spread: true},
		{title: "Jain", of: jain, show: index},
		{title: "Jain over processes", of: jainAcross, show: index},
		{title: "starved", of: starved, show: trim},
		{title: "inside at a time", of: inside, show: trim},
		{title: "allocations", of: allocs, show: told},
		{title: "client CPU", of: clientEach, show: micros},
		{title: "server CPU", of: serverEach, show: micros},
		{title: "overlaps", of: overlaps, show: trim},
	},
	"W5": {
		{title: "commands/s", of: sentRate, show: count, spread: true},
		{title: "bytes per lock", of: bytesEach, show: count, spread: true},
		{title: "goroutines per lock", of: routinesPer, show: trim},
		{title: "client CPU, cores", of: clientCPU, show: trim},
		{title: "server CPU", of: serverCPU, show: trim},
		{title: "locks lost", of: lost, show: trim},
	},
	"W6": {
		{title: "commands/s", of: sentRate, show: count, spread: true},
		{title: "bytes per waiter", of: bytesEach, show: count, spread: true},
		{title: "goroutines per waiter", of: routinesPer, show: trim},
		{title: "client CPU, cores", of: clientCPU, show: trim},
		{title: "server CPU", of: serverCPU, show: trim},
		{title: "let in", of: acquired, show: trim},
	},
	"mixed": {
		{title: "hand-overs to others/s", of: handOvers, show: count, spread: true},
		{title: "to other processes/s", of: across, show: count},
		{title: "Redisson's share ÷ even", of: secondShare, show: told, spread: true},
		{title: "commands", of: sent, show: told},
		{title: "worst wait", of: waitMax, show: duration, spread: true},
		{title: "Jain", of: jain, show: index},
		{title: "Jain over processes", of: jainAcross, show: index},
		{title: "starved", of: starved, show: trim},
		{title: "overlaps", of: overlaps, show: trim},
	},
	"scale/shards": {
		{title: "commands per pair", of: sent, show: told},
		{title: "inner calls", of: inner, show: told},
		{title: "server CPU per pair", of: serverEach, show: micros, spread: true},
		{title: "× limit", of: serverEach, show: ratio, ratio: true},
		{title: "busiest shard's part", of: busiest, show: told},
		{title: "client CPU per pair", of: clientEach, show: micros},
		{title: "allocations", of: allocs, show: told},
		{title: "starved", of: starved, show: trim},
		{title: "pairs/s here", of: perSecond, show: count},
	},
	"scale/held": {
		{title: "commands/s", of: sentRate, show: count, spread: true},
		{title: "without PING", of: withoutPing, show: count},
		{title: "bytes per lock in the clients", of: bytesEach, show: count},
		{title: "in Redis", of: serverBytes, show: count},
		{title: "goroutines per lock", of: routinesPer, show: trim},
		{title: "CPU of all clients, cores", of: clientCPU, show: trim},
		{title: "server CPU", of: serverCPU, show: trim},
		{title: "locks lost", of: lost, show: trim},
	},
	"scale/clients": {
		{title: "commands/s", of: sentRate, show: count, spread: true},
		{title: "bytes per client", of: bytesEach, show: count},
		{title: "in Redis", of: serverBytes, show: count},
		{title: "goroutines per client", of: routinesPer, show: trim},
		{title: "CPU of all clients, cores", of: clientCPU, show: trim},
		{title: "server CPU", of: serverCPU, show: trim},
		{title: "let in", of: acquired, show: trim},
	},
	"W7": {
		{title: "utilisation", of: utilisation, show: trim, spread: true},
		{title: "× limit", of: utilisation, show: ratio, ratio: true},
		{title: "hand-overs to others/s", of: handOvers, show: count, spread: true},
		{title: "worst wait", of: waitMax, show: duration, spread: true},
		{title: "Jain", of: jain, show: index},
		{title: "starved", of: starved, show: trim},
		{title: "commands", of: sent, show: told},
		{title: "gap p50", of: acrossP50, show: duration},
		{title: "overlaps", of: overlaps, show: trim},
	},
}

// uncontended are the columns of a workload in which nobody waits.
var uncontended = []column{
	{title: "pairs/s", of: perSecond, show: count, spread: true},
	{title: "× limit", of: perSecond, show: ratio, ratio: true, spread: true},
	{title: "wait p50", of: eitherP50, show: duration},
	{title: "p99", of: eitherP99, show: duration},
	{title: "commands per pair", of: sent, show: told},
	{title: "inner calls", of: inner, show: told},
	{title: "allocations", of: allocs, show: told},
	{title: "client CPU per pair", of: clientEach, show: micros},
	{title: "server CPU", of: serverEach, show: micros},
}

// contention returns the columns of a workload in which goroutines contend.
func contention(gap figure, more ...column) []column {
	return append([]column{
		{title: "hand-overs to others/s", of: handOvers, show: count, spread: true},
		{title: "× limit", of: handOvers, show: ratio, ratio: true, spread: true},
		{title: "acquisitions/s", of: perSecond, show: count},
		{title: "commands", of: sent, show: told},
		{title: "inner calls", of: inner, show: told},
		{title: "gap p50", of: gap, show: duration},
		{title: "worst wait", of: waitMax, show: duration, spread: true},
		{title: "Jain", of: jain, show: index},
		{title: "starved", of: starved, show: trim},
		{title: "allocations", of: allocs, show: told},
		{title: "client CPU", of: clientEach, show: micros},
		{title: "server CPU", of: serverEach, show: micros},
		{title: "overlaps", of: overlaps, show: trim},
	}, more...)
}

// about explains, for each workload, its limit and its table.
var about = map[string]string{
	"W1": "The cost of an uncontended lock: two messages to Redis and back. The limit is *raw/rueidis*: a minimal " +
		"acquire script and a minimal release script, one directly after the other. Allocations and CPU are per pair of acquire and release. " +
		"So that a few per cent can be told from what else the machine does, the runs are short, mortise and its limits take turns twenty " +
		"times, the others three times, and a ratio is that of two runs of one turn.",
	"free": "What a read/write lock or a permit costs that nobody else wants: as W1, and with the same limit, since alone nobody has to tell readers, " +
		"writers and permits from one another.",
	"W2": "The speed of one process with many locks at once. The limit is *raw/rueidis*, which sends concurrent requests of " +
		"goroutines as one pipeline; go-redis uses a connection for each.",
	"W3": "Hand-overs to *others* count: to another goroutine than the previous holder. Acquisitions alone " +
		"reward starvation, since a system in which a releaser acquires the lock again at once looks fast. The limit is a queue of " +
		"goroutines that pass the lock on inside the process, and use Redis once in 64 times; *limit: owner changed* is the limit for " +
		"systems that record every owner in Redis. Commands, inner calls, allocations and CPU are per acquisition.",
	"W4": "As W3, but between processes. The limit is a queue in Redis: the release script makes its first member the " +
		"owner and notifies it, without regard to dead members. A gap is the time from a holder's unlock to the lock of a goroutine " +
		"of another process. *limit: in the process and granted* passes the lock on within each process as well.",
	"W5": "The cost of held locks. Renewal in batches of 100, once in 10 s, comes to 100 commands/s for 100,000 locks. " +
		"Libraries without renewal are left out. Bytes are of heap and stacks in the client, without the names of the locks.",
	"W6": "The cost of waiting. Bytes are of heap and stacks, including that of the waiting goroutine; a waiter in Go costs at least " +
		"a goroutine, about 2.5 kB. Commands are those of waiters and holder together, including the PING that rueidis sends " +
		"each second on each connection. " +
		"*Let in* counts waiters that got the lock nevertheless: without renewal, its lease may end.",
	"W7": "A lock for which processes always wait, and which they hold for 1 ms (a sleep, which takes as long as the system makes it). " +
		"Utilisation is the part of the time in which the lock was held. The limit is that of W4.",
	"W8": "Readers and one writer acquire a read/write lock again and again, and hold it for 1 ms (a sleep). Nothing in the locks orders " +
		"readers and writers, so the writer's waits matter as much as the rates. Utilisation is the part of the time in which anybody held " +
		"the lock; *inside at a time* is how many held it on average. Commands, inner calls, allocations and CPU are per acquisition, of either side. " +
		"An overlap is a writer that was not alone. A writer that never has its turn has waited for as long as the run lasted. In several processes, each has its part of the readers, and the first one the writer.",
	"W9": "Goroutines take a permit of a semaphore again and again, and hold it for 0.1 ms (a sleep). The limit is a list of waiters in Redis: a release " +
		"gives its permit to the first one, without regard to dead waiters. *Polling* is what a semaphore without a queue does. A release that wakes " +
		"all waiters shows in the commands per acquisition. Permits of Semaphore and RSemaphore have no lease; those of PermitSemaphore " +
		"and RPermitExpirableSemaphore have one. An overlap is a permit more than there are.",
	"mixed": "Half of the processes lock with mortise and half with Redisson. If all goroutines and threads got the lock equally often, " +
		"Redisson's share ÷ even would be 1. Redisson's threads ask again when the lock is released, and mortise's wait for a turn.",
	"scale/shards": "Locks of different names share nothing, so shards should add up: a pair must not take more commands or CPU on a cluster, " +
		"and the busiest shard should have no more than its part of the work. All shards and the clients are on one machine, so the pairs " +
		"per second say nothing about a cluster of several.",
	"scale/held": "Each process has one client, and a tenth of the locks. Bytes in Redis are what its used_memory grew by, with the names.",
	"scale/clients": "The clients are in one process, and share the connections: bytes are those of mortise, without a Redis client's " +
		"connection to each. A process of its own would have two connections: for commands and for messages. " +
		"Commands are those of all clients; bytes in Redis are what its used_memory grew by, " +
		"with the turns of waiting clients and, unless they are hidden, their records.",
	"fair": "The cost of a fair lock must not depend on how many wait for it.",
}
