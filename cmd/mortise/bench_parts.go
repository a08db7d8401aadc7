package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/workload"
)

// How the time is divided. What is left is for connecting and for going.
const (
	shareRoundTrip = 0.05
	shareLoad      = 0.15 // of each load
	warmupPart     = 0.2  // of a load's time
)

// How much there is of what --concurrency does not bound.
const (
	benchClients = 4    // that want one lock
	benchHeld    = 1000 // locks held; fewer where taking them would take long
	benchWaiters = 200  // goroutines that wait for one lock
)

// run measures everything and says what it means.
func (b *bench) run(ctx context.Context) error {
	if strings.HasPrefix(strings.ToLower(b.url()), "mem:") {
		return usageError("Start one to try it on, in another terminal: mortise server", "mem:// is a server that ends with this command; there is nothing to learn from it")
	}
	b.prefix += rand.Text()[:8] + ":"
	client, err := b.connect(ctx, mortise.Options{Lease: benchLease})
	if err != nil {
		return err
	}
	defer leave(client.Client)
	b.seen = benchView{Server: connect.Redact(b.url()), Prefix: b.prefix, Concurrency: b.concurrency}
	if err := b.greet(ctx, client); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *benchClient) error{b.alone, b.manyKeys, b.oneKey, b.between, b.held, b.waiting} {
		if err := part(ctx, client); err != nil {
			return err
		}
	}
	return b.conclude()
}

// cycle is a load of goroutines that take and release locks.
func (b *bench) cycle(name string, goroutines int, shared bool, clients ...*benchClient) load {
	d := time.Duration(float64(b.time) * shareLoad)
	warmup := time.Duration(float64(d) * warmupPart)
	return load{
		spec:    workload.Spec{Kind: workload.Cycle, N: goroutines, Key: b.prefix + name, Shared: shared},
		clients: clients, warmup: warmup, window: d - warmup,
	}
}

// greet measures a round trip, and says what comes.
func (b *bench) greet(ctx context.Context, c *benchClient) error {
	trips, err := b.roundTrips(ctx, c, time.Duration(float64(b.time)*shareRoundTrip))
	if err != nil {
		return err
	}
	b.seen.RoundTrip = spread(trips)
	most := float64(b.concurrency) / trips.Quantile(0.5).Seconds()
	b.say("this takes about %v on %s. Its keys begin with %s, and are gone at the end.\n"+
		"At most %d goroutines ask at a time, over %d connections: with a round trip of %s, that is no more\n"+
		"than %s commands a second. At most %s locks are held. Ctrl-C ends it, and nothing stays behind.",
		b.time, b.seen.Server, b.prefix, b.concurrency, 2*benchClients, ms(b.seen.RoundTrip.Half), count(most), count(benchHeld))
	b.print("%-34s %s; 99 %% within %s", "a round trip", ms(b.seen.RoundTrip.Half), ms(b.seen.RoundTrip.Most))
	return nil
}

func (b *bench) alone(ctx context.Context, c *benchClient) error {
	o, err := b.put(ctx, b.cycle("alone", 1, false, c))
	if err != nil {
		return err
	}
	b.seen.Alone = cycleOf(o)
	b.print("%-34s %s locked and unlocked a second, %s commands each", "one lock, one goroutine", count(b.seen.Alone.Rate), figure(b.seen.Alone.Commands))
	return nil
}

func (b *bench) manyKeys(ctx context.Context, c *benchClient) error {
	before, why := b.ask(ctx, c)
	start := time.Now()
	o, err := b.put(ctx, b.cycle("own", b.concurrency, false, c))
	if err != nil {
		return err
	}
	b.seen.Own = cycleOf(o)
	b.print("%-34s %s a second, %s commands each", fmt.Sprintf("%d locks, %d goroutines", b.concurrency, b.concurrency), count(b.seen.Own.Rate), figure(b.seen.Own.Commands))
	if why == "" {
		var after told
		if after, why = b.ask(ctx, c); why == "" {
			b.seen.Cost = after.since(before, time.Since(start))
		}
	}
	b.seen.NoCost = why
	return nil
}

func (b *bench) oneKey(ctx context.Context, c *benchClient) error {
	o, err := b.put(ctx, b.cycle("one", b.concurrency, true, c))
	if err != nil {
		return err
	}
	b.seen.One = contendedOf(o, 1)
	b.contended(fmt.Sprintf("one lock, %d goroutines", b.concurrency), b.seen.One)
	return nil
}

// between has several clients contend for one lock, as processes would.
func (b *bench) between(ctx context.Context, first *benchClient) error {
	clients := []*benchClient{first}
	for len(clients) < benchClients {
		c, err := b.connect(ctx, mortise.Options{Lease: benchLease})
		if err != nil {
			return err
		}
		defer leave(c.Client)
		clients = append(clients, c)
	}
	l := b.cycle("between", max(1, b.concurrency/benchClients), true, clients...)
	o, err := b.put(ctx, l)
	if err != nil {
		return err
	}
	b.seen.Between = contendedOf(o, len(l.clients))
	b.contended(fmt.Sprintf("one lock, %d clients × %d goroutines", benchClients, l.spec.N), b.seen.Between)
	return nil
}

func (b *bench) contended(what string, v contendedView) {
	b.print("%-34s %s hand-overs to another a second, %s commands each;\n%-34s longest wait %s, Jain's index %.2f",
		what, count(v.HandOvers), figure(v.Commands), "", ms(v.Lock.Longest), v.Jain)
}

// held has many locks renewed, with a lease that is short enough to see it.
func (b *bench) held(ctx context.Context, _ *benchClient) error {
	l := b.cycle("held", 1, false)
	l.window, l.warmup = l.window+l.warmup, 0
	l.spec.Kind, l.spec.Takers = workload.Keep, b.concurrency
	l.spec.N = int(max(100, min(benchHeld, b.seen.Own.Rate*l.window.Seconds())))
	lease := max(benchLease/2, 20*fromMillis(b.seen.RoundTrip.Most))
	l.window = max(l.window, lease/2) // a renewal and a half
	c, err := b.connect(ctx, mortise.Options{Lease: lease})
	if err != nil {
		return err
	}
	defer leave(c.Client)
	l.clients = []*benchClient{c}
	o, err := b.put(ctx, l)
	if err != nil {
		return err
	}
	v := heldView{Locks: l.spec.N, Lease: lease.Milliseconds(), Renewed: ratio(float64(o.batched), float64(o.sent))}
	v.Rate = ratio(float64(v.Locks)/(lease.Seconds()/3), v.Renewed) // the window is no whole number of renewals
	b.seen.Held = v
	b.print("%-34s %s commands a second renew them, with a lease of %v", count(float64(l.spec.N))+" locks held", figure(v.Rate), duration.Round(lease))
	return nil
}

// waiting has many goroutines wait for a lock that another client holds.
func (b *bench) waiting(ctx context.Context, c *benchClient) (err error) {
	other, err := b.client(ctx, mortise.Options{Lease: benchLease}) // whose commands do not count
	if err != nil {
		return err
	}
	defer leave(other)
	l := b.cycle("waiting", benchWaiters, true, c)
	l.spec.Kind = workload.Queued
	hold, _, err := other.Lock(l.spec.Key).Lock(ctx) // what it protects is the benchmark's own
	if err != nil {
		return err
	}
	defer hold.Unlock()
	o, err := b.put(ctx, l)
	if err != nil {
		return err
	}
	b.seen.Waiting = waitingView{Waiters: benchWaiters, Rate: o.PerSecond(o.sent)}
	b.print("%-34s %s commands a second, by all of them together", count(benchWaiters)+" wait for a held lock", figure(b.seen.Waiting.Rate))
	return nil
}
