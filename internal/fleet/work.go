package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// begin starts all that the fleet does.
func (f *Fleet) begin() {
	f.stages = map[Scene]*stage{
		StuckDeploy: newStage(f.actor("api-7", string(StuckDeploy)), 25*sec, f.stuckDeploy),
		Deadlock:    newStage(f.actor("billing-1", string(Deadlock)), 20*sec, f.deadlock),
		Redisson:    newStage(f.actor("worker-1", string(Redisson)), 15*sec, f.redisson),
	}
	for _, s := range f.stages {
		f.all.Go(func() { s.run(f.ctx) })
	}
	for i := range edges {
		f.edge(&edges[i])
	}
	f.loop("worker-1", legacy, behindRedisson)
	for _, host := range []string{"worker-1", "worker-2", "worker-3"} {
		f.loop(host, "orders", order)
		f.loop(host, rollup, meet)
	}
	for _, sender := range []string{"mail-1", "mail-1 b", "mail-2", "mail-2 b", "mail-3", "mail-3 b"} {
		host := sender[:len("mail-1")]
		f.loop(host, sender, sendInTurn)
		f.loop(host, smtp+sender, connections)
	}
	for _, host := range []string{"shop-1", "shop-2"} {
		f.loop(host, catalog, read)
		f.loop(host, catalog+" b", read)
		f.loop(host, reindex, together)
		f.loop(host, seats, reserve)
	}
	for _, host := range []string{"render-1", "render-2"} {
		f.loop(host, gpu, render)
		f.loop(host, gpu+" b", render)
	}
	for _, host := range []string{"sched-1", "sched-2"} {
		f.loop(host, scheduler, lead)
		f.loop(host, nightly, run)
	}
	for _, name := range oddNames {
		f.loop("büro-3", name, holdLong(name))
	}
	f.loop("billing-1", payments, pay)
	f.loop("billing-2", payments, pay)
	f.loop("worker-2", "transfer", transfer)
	f.loop("worker-3", counter, count)
	f.loop("worker-1", catalog, write)
	f.loop("shop-1", parts, importParts)
}

// taker is a lock of any kind.
type taker interface {
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// take holds a lock for a time, and pauses for another.
func (a *actor) take(ctx context.Context, lock taker, holds, pauses [2]time.Duration) error {
	err := lock.Do(ctx, func(ctx context.Context) error {
		a.works(ctx, holds[0], holds[1])
		return nil
	})
	if err == nil {
		a.works(ctx, pauses[0], pauses[1])
	}
	return err
}

// order works on an order: on one of few, and every other time on the one that all want.
func order(ctx context.Context, a *actor) error {
	name := orders[0]
	if a.dice.IntN(2) == 0 {
		name = orders[a.dice.IntN(len(orders))]
	}
	return a.take(ctx, a.Lock(name), [2]time.Duration{500 * ms, 1500 * ms}, [2]time.Duration{100 * ms, 900 * ms})
}

// sendInTurn sends mail, first come, first served.
func sendInTurn(ctx context.Context, a *actor) error {
	return a.take(ctx, a.FairLock(outbox), [2]time.Duration{1500 * ms, 3 * sec}, [2]time.Duration{50 * ms, 300 * ms})
}

// connections takes some of few connections, as permits that nobody renews.
func connections(ctx context.Context, a *actor) error {
	err := a.Semaphore(smtp).Do(ctx, 1+a.dice.IntN(2), func(ctx context.Context) error {
		a.works(ctx, sec, 3*sec)
		return nil
	})
	a.works(ctx, sec, 4*sec)
	return err
}

// read reads the catalog, beside other readers.
func read(ctx context.Context, a *actor) error {
	return a.take(ctx, a.RWLock(catalog).Read(), [2]time.Duration{2 * sec, 5 * sec}, [2]time.Duration{500 * ms, 2 * sec})
}

// write writes the catalog. Readers can keep it waiting for long, so it waits with a limit.
func write(ctx context.Context, a *actor) error {
	lock := a.RWLock(catalog).Write().With(mortise.LockOptions{Wait: 10 * sec})
	a.works(ctx, 4*sec, 8*sec)
	return a.take(ctx, lock, [2]time.Duration{300 * ms, 800 * ms}, [2]time.Duration{sec, 2 * sec})
}

// render renders with a permit.
func render(ctx context.Context, a *actor) error {
	return a.take(ctx, a.PermitSemaphore(gpu), [2]time.Duration{4 * sec, 9 * sec}, [2]time.Duration{100 * ms, 600 * ms})
}

// pay settles payments with a fencing token.
func pay(ctx context.Context, a *actor) error {
	return a.take(ctx, a.FencedLock(payments), [2]time.Duration{sec, 3 * sec}, [2]time.Duration{200 * ms, 2 * sec})
}

// transfer needs two locks at once.
func transfer(ctx context.Context, a *actor) error {
	both := mortise.NewMultiLock(a.Lock(stockEU), a.Lock(stockUS))
	return a.take(ctx, both, [2]time.Duration{2 * sec, 5 * sec}, [2]time.Duration{2 * sec, 4 * sec})
}

// reserve reserves some of few seats.
func reserve(ctx context.Context, a *actor) error {
	row := []string{"A1", "A2", "A3", "A4"}
	from := a.dice.IntN(len(row) - 1)
	return a.take(ctx, a.GroupLock(seats, row[from:from+2]...), [2]time.Duration{sec, 4 * sec}, [2]time.Duration{sec, 3 * sec})
}

// count holds a lock for moments.
func count(ctx context.Context, a *actor) error {
	return a.take(ctx, a.SpinLock(counter), [2]time.Duration{300 * ms, 700 * ms}, [2]time.Duration{2 * sec, 4 * sec})
}

// run runs a job that at times takes longer than it may.
func run(ctx context.Context, a *actor) error {
	job := a.Lock(nightly).With(mortise.LockOptions{MaxHold: 2 * sec})
	return a.take(ctx, job, [2]time.Duration{600 * ms, 2400 * ms}, [2]time.Duration{3 * sec, 6 * sec})
}

// holdLong returns work that holds a lock for long.
func holdLong(name string) func(context.Context, *actor) error {
	return func(ctx context.Context, a *actor) error {
		return a.take(ctx, a.Lock(name), [2]time.Duration{20 * sec, 60 * sec}, [2]time.Duration{50 * ms, 100 * ms})
	}
}

// lead leads for a term, and says what it does.
func lead(ctx context.Context, a *actor) error {
	term, led, err := a.Election(scheduler).Campaign(ctx, "http://"+a.host+":8080 starting")
	if err != nil {
		return err
	}
	if pause(led, 2*sec) {
		a.fleet.note(term.Proclaim(led, "http://"+a.host+":8080 ready"))
		a.works(led, 10*sec, 20*sec)
	}
	err = term.Resign()
	a.works(ctx, 200*ms, sec)
	return err
}

// meet waits at a barrier for the other workers.
func meet(ctx context.Context, a *actor) error {
	a.works(ctx, 2*sec, 8*sec)
	_, err := a.Barrier(rollup, 3).Await(ctx)
	return err
}

// together begins and ends a piece of work with another one.
func together(ctx context.Context, a *actor) error {
	a.works(ctx, sec, 6*sec)
	m, inside, err := a.DoubleBarrier(reindex, 2).Enter(ctx)
	if err != nil {
		return err
	}
	a.works(inside, 3*sec, 6*sec)
	return m.Leave(ctx)
}

// importParts waits until others have done all parts of an import.
func importParts(ctx context.Context, a *actor) error {
	latch := a.CountDownLatch(parts)
	if _, err := latch.TrySetCount(ctx, partsCount); err != nil {
		return err
	}
	var part sync.WaitGroup
	for _, host := range []string{"worker-1", "worker-2", "worker-3"} {
		w := a.fleet.actor(host, parts)
		part.Go(func() {
			for range partsCount / 3 {
				if w.works(ctx, 2*sec, 5*sec) {
					a.fleet.note(w.CountDownLatch(parts).CountDown(ctx))
				}
			}
		})
	}
	err := latch.Wait(ctx)
	part.Wait()
	a.works(ctx, 2*sec, 4*sec)
	return err
}
