package workload

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// cycle is a run of goroutines that acquire and release locks.
type cycle struct {
	spec   Spec
	gate   *Gate
	epoch  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when all goroutines have ended
	actors []*cyclist
	phase  atomic.Int32

	began  time.Time
	before usage
	busy   uint64 // what the gate had counted when the window began
}

const (
	warming int32 = iota
	counting
	over
)

// cyclist is one goroutine. Its counts are its own until it has ended; but a goroutine that hangs
// never ends, so mu guards them.
type cyclist struct {
	*cycle
	id     uint64
	role   role
	key    string
	locker Locker

	waiting atomic.Int64 // since when, by the epoch; 0: not waiting
	done    atomic.Bool

	mu        sync.Mutex // guards the fields below
	count     int64
	handOvers int64
	across    int64
	overlaps  int64
	failures  int64
	failure   error
	since     time.Duration // when it last acquired
	inside    time.Duration
	waits     Histogram
	gaps      Histogram
	acrossGap Histogram
}

// startCycle starts the goroutines. Permits are set before that.
func startCycle(ctx context.Context, locker Locker, spec Spec, gate *Gate) (*cycle, error) {
	if gate == nil {
		gate = &Gate{}
	}
	sides, err := spec.sides(locker)
	if err == nil {
		err = spec.permit(ctx, locker)
	}
	if err != nil {
		return nil, err
	}
	c := &cycle{spec: spec, gate: gate, epoch: spec.epoch, ended: make(chan struct{})}
	if c.epoch.IsZero() {
		c.epoch = epoch()
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	var running, ready sync.WaitGroup
	for i := range spec.N {
		a := &cyclist{cycle: c, id: actor(spec.Process, i), role: spec.role(i), key: spec.key(i)}
		a.locker = sides[a.role]
		if n, ok := a.locker.(Namer); ok {
			a.locker = n.Of(a.key)
		}
		c.actors = append(c.actors, a)
		ready.Add(1)
		running.Go(func() {
			ready.Done()
			a.loop()
			a.done.Store(true)
		})
	}
	ready.Wait()
	go func() {
		running.Wait()
		close(c.ended)
	}()
	return c, nil
}

// key is the name of the lock of goroutine i.
func (s *Spec) key(i int) string {
	if s.Shared {
		return s.Key
	}
	return s.Key + ":" + strconv.Itoa(s.Process) + ":" + strconv.Itoa(i)
}

func (c *cycle) now() time.Duration { return time.Since(c.epoch) }

func (a *cyclist) loop() {
	for a.phase.Load() != over && a.ctx.Err() == nil {
		hold := a.take()
		if hold == nil {
			return
		}
		if a.spec.Inside > 0 {
			time.Sleep(a.spec.Inside)
		}
		a.drop(hold)
	}
}

// take retries until it holds the lock; it returns nil when the run is over.
func (a *cyclist) take() Hold {
	start := a.now()
	a.waiting.Store(int64(start))
	for {
		hold, err := a.locker.Lock(a.ctx, a.key)
		if err == nil {
			a.entered(start)
			return hold
		}
		if a.phase.Load() == over || a.ctx.Err() != nil {
			return nil
		}
		a.failed(err)
	}
}

func (a *cyclist) entered(start time.Duration) {
	now := a.now()
	var e entry
	if a.spec.Shared {
		e = a.gate.pass(a.role, a.id, a.spec.Permits, now)
	}
	a.waiting.Store(0)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = now
	if e.overlap {
		a.overlaps++
	}
	if a.phase.Load() != counting {
		return
	}
	a.count++
	a.waits.Add(now - start)
	switch {
	case e.from == 0 || e.from == a.id:
	case sameProcess(e.from, a.id):
		a.handOvers++
		a.gaps.Add(e.gap)
	default:
		a.handOvers++
		a.across++
		a.acrossGap.Add(e.gap)
	}
}

func (a *cyclist) drop(hold Hold) {
	now := a.now()
	if a.spec.Shared {
		a.gate.quit(a.role, a.id, now)
	}
	a.mu.Lock()
	if a.phase.Load() == counting {
		a.inside += now - max(a.since, a.began.Sub(a.epoch))
	}
	a.mu.Unlock()
	if err := hold.Unlock(); err != nil {
		a.failed(err)
	}
}

func (a *cyclist) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures++
	if a.failure == nil {
		a.failure = err
	}
}

// Begin implements [Running].
func (c *cycle) Begin() {
	c.before = used()
	c.began = time.Now()
	c.busy = c.gate.busy(c.now())
	c.phase.Store(counting)
}

// End implements [Running].
func (c *cycle) End(grace time.Duration) *Result {
	r := &Result{Seconds: time.Since(c.began).Seconds()}
	c.phase.Store(over)
	end := c.now()
	r.Busy = busyFor(c.busy, c.gate.busy(end)).Seconds()
	c.before.since(r)
	for _, a := range c.actors {
		// A goroutine that is still waiting counts too: it has waited at least until now.
		if since := time.Duration(a.waiting.Load()); since > 0 && since < end {
			r.waits(a.role).Add(end - since)
		}
	}
	c.cancel()
	select {
	case <-c.ended:
	case <-time.After(grace):
	}
	for _, a := range c.actors {
		a.report(r)
	}
	return r
}

// report adds a's counts to r.
func (a *cyclist) report(r *Result) {
	if !a.done.Load() {
		r.Hung++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.role == writing {
		r.Writers = append(r.Writers, a.count)
	} else {
		r.Counts = append(r.Counts, a.count)
	}
	r.HandOvers += a.handOvers
	r.Across += a.across
	r.Overlaps += a.overlaps
	r.Failures += a.failures
	if r.Failure == "" && a.failure != nil {
		r.Failure = a.failure.Error()
	}
	r.Inside += a.inside.Seconds()
	r.waits(a.role).Merge(&a.waits)
	r.Gaps.Merge(&a.gaps)
	r.AcrossGap.Merge(&a.acrossGap)
}
