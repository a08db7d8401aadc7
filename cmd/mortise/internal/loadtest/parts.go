package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/internal/workload"
)

// How the time is divided. The rest is for connecting and for cleaning up.
const (
	shareRoundTrip = 0.05
	shareLoad      = 0.15 // of each load
	warmupPart     = 0.2  // of a load's time
)

// parts returns the measurements, in order.
func (t *loadTest) parts() []func(context.Context, *client) error {
	return []func(context.Context, *client) error{t.alone, t.manyKeys, t.oneKey, t.between, t.held, t.waiting}
}

func loadTime(d time.Duration) time.Duration { return time.Duration(float64(d) * shareLoad) }

func warmupOf(load time.Duration) time.Duration { return time.Duration(float64(load) * warmupPart) }

// cycle is a load of goroutines that acquire and release locks.
func (t *loadTest) cycle(name string, goroutines int, shared bool, clients ...*client) load {
	d := loadTime(t.Duration)
	warmup := warmupOf(d)
	return load{
		spec:    workload.Spec{Kind: workload.Cycle, N: goroutines, Key: t.Prefix + name, Shared: shared},
		clients: clients, warmup: warmup, window: d - warmup,
	}
}

// greet measures a round trip, and announces the test.
func (t *loadTest) greet(ctx context.Context, c *client) error {
	trips, err := t.roundTrips(ctx, c, time.Duration(float64(t.Duration)*shareRoundTrip))
	if err != nil {
		return err
	}
	t.seen.RoundTrip = spread(trips)
	most := float64(t.Concurrency) / trips.Quantile(0.5).Seconds()
	t.Say("this takes about %v on %s. Its keys begin with %s, and are deleted at the end.\n"+
		"At most %s at a time, over %d connections: with a round trip of %s, that is no more\n"+
		"than %s commands a second. At most %s locks are held. Ctrl-C ends it and leaves nothing behind.",
		t.Duration, t.seen.Server, t.Prefix, asking(t.Concurrency), 2*contenders, ms(t.seen.RoundTrip.Half), count(most), count(MaxHeld))
	t.Print("%-34s %s; 99 %% within %s", "a round trip", ms(t.seen.RoundTrip.Half), ms(t.seen.RoundTrip.Most))
	return nil
}

func (t *loadTest) alone(ctx context.Context, c *client) error {
	o, err := t.put(ctx, t.cycle("alone", 1, false, c))
	if err != nil {
		return err
	}
	t.seen.Alone = cycleOf(o)
	t.Print("%-34s %s locked and unlocked a second, %s commands each", "one lock, one goroutine", count(t.seen.Alone.Rate), figure(t.seen.Alone.Commands))
	return nil
}

func (t *loadTest) manyKeys(ctx context.Context, c *client) error {
	before, why := t.ask(ctx, c)
	start := time.Now()
	o, err := t.put(ctx, t.cycle("own", t.Concurrency, false, c))
	if err != nil {
		return err
	}
	t.seen.Own = cycleOf(o)
	t.Print("%-34s %s a second, %s commands each", things(t.Concurrency, "lock")+", "+things(t.Concurrency, "goroutine"), count(t.seen.Own.Rate), figure(t.seen.Own.Commands))
	if why == "" {
		var after told
		if after, why = t.ask(ctx, c); why == "" {
			t.seen.Cost = after.since(before, time.Since(start))
		}
	}
	t.seen.NoCost = why
	return nil
}

func (t *loadTest) oneKey(ctx context.Context, c *client) error {
	o, err := t.put(ctx, t.cycle("one", t.Concurrency, true, c))
	if err != nil {
		return err
	}
	t.seen.One = contendedOf(o, 1)
	t.contended("one lock, "+things(t.Concurrency, "goroutine"), t.seen.One)
	return nil
}

// between makes several clients contend for one lock, as processes would.
func (t *loadTest) between(ctx context.Context, first *client) error {
	clients := []*client{first}
	for len(clients) < contenders {
		c, err := t.connect(ctx, mortise.Options{TTL: lockLease})
		if err != nil {
			return err
		}
		defer c.leave()
		clients = append(clients, c)
	}
	l := t.cycle("between", max(1, t.Concurrency/contenders), true, clients...)
	o, err := t.put(ctx, l)
	if err != nil {
		return err
	}
	t.seen.Between = contendedOf(o, len(l.clients))
	t.contended(fmt.Sprintf("one lock, %d clients × %s", contenders, things(l.spec.N, "goroutine")), t.seen.Between)
	return nil
}

func (t *loadTest) contended(what string, v Contended) {
	t.Print("%-34s %s hand-overs to another a second, %s commands each;\n%-34s longest wait %s, Jain's index %.2f",
		what, count(v.HandOvers), figure(v.Commands), "", ms(v.Lock.Longest), v.Jain)
}

// held makes a client renew many locks, with a lease that is short enough to measure it.
func (t *loadTest) held(ctx context.Context, _ *client) error {
	l := t.cycle("held", 1, false)
	l.window, l.warmup = l.window+l.warmup, 0
	l.spec.Kind, l.spec.Takers = workload.Keep, t.Concurrency
	l.spec.N = int(max(100, min(MaxHeld, t.seen.Own.Rate*l.window.Seconds())))
	lease := max(lockLease/2, 20*fromMillis(t.seen.RoundTrip.Most))
	l.window = max(l.window, lease/2) // a renewal and a half
	c, err := t.connect(ctx, mortise.Options{TTL: lease})
	if err != nil {
		return err
	}
	defer c.leave()
	l.clients = []*client{c}
	o, err := t.put(ctx, l)
	if err != nil {
		return err
	}
	v := Held{Locks: l.spec.N, Lease: lease.Milliseconds(), Renewed: ratio(float64(o.batched), float64(o.batches))}
	v.Rate = ratio(float64(v.Locks)/(lease.Seconds()/3), v.Renewed) // the window is not a whole number of renewals
	t.seen.Held = v
	t.Print("%-34s %s commands a second renew them, with a lease of %v", count(float64(l.spec.N))+" locks held", figure(v.Rate), duration.Round(lease))
	return nil
}

// waiting makes many goroutines wait for a lock that another client holds.
func (t *loadTest) waiting(ctx context.Context, c *client) (err error) {
	d, err := t.Open(ctx) // its commands do not count
	if err != nil {
		return err
	}
	other := mortise.New(d, &mortise.Options{TTL: lockLease})
	defer func() { _ = other.Close() }()
	l := t.cycle("waiting", Waiters, true, c)
	l.spec.Kind = workload.Queued
	hold, _, err := other.Lock(l.spec.Key).Lock(ctx) // nothing depends on its context
	if err != nil {
		return err
	}
	defer hold.Unlock()
	o, err := t.put(ctx, l)
	if err != nil {
		return err
	}
	t.seen.Waiting = Waiting{Waiters: Waiters, Rate: o.PerSecond(o.sent)}
	t.Print("%-34s %s commands a second, by all of them together", count(Waiters)+" wait for a held lock", figure(t.seen.Waiting.Rate))
	return nil
}
