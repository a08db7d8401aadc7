package main

import (
	"strings"

	"github.com/google/pprof/profile"
)

// layer is where a client's time goes. The order is that of the tables.
type layer string

const (
	sockets   layer = "kernel: read and write"
	threads   layer = "kernel: threads sleep and wake, epoll"
	schedule  layer = "Go: scheduler, channels, netpoll"
	alloc     layer = "Go: allocation, growth of stacks"
	collect   layer = "Go: garbage collection"
	timers    layer = "Go: timers"
	clock     layer = "Go: time.Now"
	mutexes   layer = "Go: mutexes"
	network   layer = "Go: net, in user mode"
	library   layer = "the Redis client library"
	drivers   layer = "mortise: driver, with its pipeline"
	scripts   layer = "mortise: script, keyspace"
	hubs      layer = "mortise: hub"
	watchdogs layer = "mortise: watchdog"
	manager   layer = "mortise: lease, waiting"
	public    layer = "mortise: package mortise"
	benchmark layer = "the benchmark and its limits"
	rest      layer = "not attributed"
)

// order is the order of the layers in a table.
var order = []layer{
	sockets, threads, schedule, alloc, collect, timers, clock, mutexes, network, library,
	drivers, scripts, hubs, watchdogs, manager, public, benchmark, rest,
}

// names tells the layer of a function by the beginning of its name. The first that fits counts. A
// function of no layer, such as memmove, the access to a map, or all of package context, belongs to its caller.
var names = []struct {
	layer  layer
	begins []string
}{
	// Collection before allocation: who allocates may have to help to collect.
	{collect, []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.gcStart", "runtime.gcMark", "runtime.gcDrain",
		"runtime.gcWriteBarrier", "runtime.wbBufFlush", "runtime.bgsweep", "runtime.bgscavenge", "runtime.sweepone",
		"runtime.(*sweepLocked)", "runtime.deductSweepCredit", "runtime._GC",
	}},
	{alloc, []string{
		"runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice", "runtime.(*mcache)",
		"runtime.newstack", "runtime.morestack", "runtime.copystack", "runtime.shrinkstack", "runtime.stackalloc",
	}},
	{clock, []string{"time.Now", "time.now", "time.Since", "time.Until", "time.runtimeN", "runtime.time_now", "runtime._VDSO"}},
	{timers, []string{
		"time.NewTimer", "time.newTimer", "time.AfterFunc", "time.After", "time.(*Timer)", "time.stopTimer", "time.resetTimer",
		"runtime.(*timer", "runtime.timeSleep", "time.Sleep",
	}},
	{threads, []string{
		"runtime.futex", "runtime.usleep", "runtime.osyield", "runtime.tgkill", "runtime.sig", "runtime.clone",
		"internal/runtime/syscall/linux.Epoll", "internal/runtime/syscall.Epoll",
	}},
	{schedule, []string{
		"runtime.schedule", "runtime.findRunnable", "runtime.park_m", "runtime.gopark", "runtime.goready", "runtime.ready",
		"runtime.mcall", "runtime.mstart", "runtime.sysmon", "runtime.wakep", "runtime.startm", "runtime.stopm", "runtime.runq",
		"runtime.execute", "runtime.gogo", "runtime.gosched", "runtime.gosched_m", "runtime.goschedImpl", "runtime.goexit0",
		"runtime.goexit1", "runtime.gdestroy", "runtime.newproc", "runtime.casgstatus", "runtime.netpoll", "internal/poll.runtime_poll",
		"runtime.injectglist", "runtime.entersyscall", "runtime.reentersyscall", "runtime.exitsyscall", "runtime.chansend",
		"runtime.chanrecv", "runtime.closechan", "runtime.selectgo", "runtime.selectnb", "runtime.handoffp", "runtime.retake",
		"runtime.preempt", "runtime.asyncPreempt", "runtime.globrunq", "runtime.resetspinning", "runtime.stealWork",
		"runtime.Gosched", "runtime.pidle", "runtime.acquirep", "runtime.releasep", "runtime.mPark", "runtime.notetsleep",
		"sync.(*Cond)", "sync.(*WaitGroup)", "runtime._System",
	}},
	{mutexes, []string{"sync.(*Mutex)", "sync.(*RWMutex)", "internal/sync.(*Mutex)"}},
	{sockets, []string{"syscall."}},
	{network, []string{"net.", "internal/poll.", "bufio."}},
	{library, []string{"github.com/redis/"}},
	{drivers, []string{mortise + "/driver", mortise + "/internal/pipeline"}},
	{scripts, []string{mortise + "/internal/script", mortise + "/internal/keyspace", mortise + "/internal/fieldhash"}},
	{hubs, []string{mortise + "/internal/hub"}},
	{watchdogs, []string{mortise + "/internal/watchdog"}},
	// The race detector, which tests of this command turn on, has no callers on the stack.
	{benchmark, []string{mortise + "/bench", mortise + "/internal/workload", "main.", "racecall"}},
	{manager, []string{mortise + "/internal/"}},
	{public, []string{mortise + "."}},
}

const mortise = "github.com/mortise-go/mortise"

// layerOf returns the layer of a function, empty if it has none.
func layerOf(function string) layer {
	for _, n := range names {
		for _, begin := range n.begins {
			if strings.HasPrefix(function, begin) {
				return n.layer
			}
		}
	}
	return ""
}

// cost is a part of a profile: the innermost layer that ran, and the code on whose behalf, the same
// if it is that code itself. Where Go has no code above it on the stack, as in its scheduler, by is rest.
type cost struct{ in, by layer }

// costs sums the values of a profile, those at index, by cost.
func costs(p *profile.Profile, index int) map[cost]float64 {
	sums := map[cost]float64{}
	for _, s := range p.Sample {
		sums[attribute(functions(s))] += float64(s.Value[index])
	}
	return sums
}

// functions returns the stack of a sample, leaf first.
func functions(s *profile.Sample) (stack []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				stack = append(stack, line.Function.Name)
			}
		}
	}
	return stack
}

// attribute walks a stack from its leaf.
func attribute(stack []string) cost {
	c := cost{rest, rest}
	for _, f := range stack {
		l := layerOf(f)
		if l == "" {
			continue
		}
		if c.in == rest {
			c.in = l
		}
		if l.acts() {
			c.by = l
			break
		}
	}
	// The kernel's part of a clock is not always seen through.
	if c.in == rest && len(stack) > 0 && strings.HasPrefix(stack[0], "runtime.nanotime") {
		c.in = clock
	}
	return c
}

// acts reports whether l is code that was written for locks or Redis, on whose behalf the kernel and Go work.
func (l layer) acts() bool {
	switch l {
	case library, drivers, scripts, hubs, watchdogs, manager, public, benchmark:
		return true
	}
	return false
}
