package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

// Each holder has a larger token than all before. The resource refuses a token
// older than the newest one it has seen; see package fencing.
func ExampleFencedLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	lock := client.FencedLock("account:7")

	for range 2 {
		hold, ctx, err := lock.Lock(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("write with token", hold.Token(), ctx.Err())
		hold.Unlock()
	}
	fmt.Println(lock.CurrentToken(context.Background()))
	// Output:
	// write with token 1 <nil>
	// write with token 2 <nil>
	// 2 <nil>
}

// A SpinLock uses no notifications; it is for work that takes a few milliseconds.
func ExampleSpinLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	lock := client.SpinLock("counter").WithBackoff(mortise.ConstantBackoff(5 * time.Millisecond))
	err := lock.Do(context.Background(), func(context.Context) error {
		fmt.Println("counted")
		return nil
	})
	fmt.Println(err)
	// Output:
	// counted
	// <nil>
}

// It locks several accounts at once, in whatever order they are listed.
func ExampleGroupLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	hold, _, err := client.GroupLock("accounts", "alice", "bob").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = client.GroupLock("accounts", "bob", "carol").TryLock(ctx)
	fmt.Println("bob is free:", err == nil)
	other, _, err := client.GroupLock("accounts", "carol", "dave").TryLock(ctx)
	fmt.Println("carol and dave are free:", err == nil)
	fmt.Println(other.Unlock(), hold.Unlock())
	// Output:
	// bob is free: false
	// carol and dave are free: true
	// <nil> <nil>
}

// The first request gets the lock first, whichever process it comes from.
func ExampleFairLock() {
	server := memredis.New() // in production: your Redis
	defer server.Close()
	ctx := context.Background()

	var clients []*mortise.Client // as if in three processes
	for range 3 {
		client := mortise.New(server.Driver(), nil)
		defer client.Close()
		clients = append(clients, client)
	}
	desk := clients[0].FairLock("desk")
	hold, _, err := desk.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			err := client.FairLock("desk").Do(ctx, func(context.Context) error {
				fmt.Println("client", i, "is served")
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		for queued := 0; queued <= i; { // until it stands in the queue
			queue, err := desk.Queue(ctx)
			if err != nil {
				fmt.Println(err)
				return
			}
			queued = len(queue)
		}
	}
	if err := hold.Unlock(); err != nil {
		fmt.Println(err)
	}
	all.Wait()
	// Output:
	// client 0 is served
	// client 1 is served
	// client 2 is served
}

// Two readers hold the lock at the same time, which keeps writers out. Then a writer
// writes, and becomes a reader of what it wrote, without a gap in which another writer
// could change it.
func ExampleRWLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	config, ctx := client.RWLock("config"), context.Background()

	one, _, err := config.Read().Lock(ctx)
	two, _, err2 := config.Read().Lock(ctx)
	fmt.Println("two readers:", err, err2)
	_, _, err = config.Write().TryLock(ctx)
	fmt.Println("a writer has to wait:", errors.Is(err, mortise.ErrLocked))
	one.Unlock()
	two.Unlock()

	owner := mortise.WithOwner(ctx) // for holds that overlap
	writer, _, err := config.Write().Lock(owner)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader, _, err := config.Read().Lock(owner)
	fmt.Println("the writer reads too:", err)
	writer.Unlock()
	_, _, err = config.Write().TryLock(owner)
	fmt.Println("a reader cannot become a writer:", errors.Is(err, mortise.ErrReentry))
	reader.Unlock()
	// Output:
	// two readers: <nil> <nil>
	// a writer has to wait: true
	// the writer reads too: <nil>
	// a reader cannot become a writer: true
}

// Money moves between two accounts, under the locks of both. A transfer in the other
// direction lists them in the other order; the two never deadlock.
func ExampleNewMultiLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	both := mortise.NewMultiLock(client.Lock("account:2"), client.Lock("account:1"))
	err := both.Do(context.Background(), func(ctx context.Context) error {
		_, _, err := client.Lock("account:1").TryLock(context.Background()) // as any other owner
		fmt.Println(errors.Is(err, mortise.ErrLocked))
		return context.Cause(ctx) // ctx ends when either lock is lost, with a cause that names it
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Of three independent servers, two are enough.
func ExampleNewRedlock() {
	var clients []*mortise.Client
	for range 3 {
		server := memredis.New()
		defer server.Close()
		client := mortise.New(server.Driver(), nil)
		defer client.Close()
		clients = append(clients, client)
	}
	ctx := context.Background()

	// A process acquires the lock on one server, and dies.
	if _, _, err := clients[0].Lock("report").Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	lock := mortise.NewRedlock("report", clients...)
	hold, _, err := lock.TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = lock.TryLock(ctx) // as any other owner
	fmt.Println(hold.Valid(), errors.Is(err, mortise.ErrLocked))
	fmt.Println(hold.Unlock())
	// Output:
	// true true
	// <nil>
}

// A lock that must survive a failover requires acknowledgements of replicas. The
// embedded Redis of this example has none.
func ExampleDurability() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	lock := client.Lock("payment:42").With(mortise.LockOptions{
		Durability: mortise.Durability{Acks: 1, Timeout: 500 * time.Millisecond},
	})
	err := lock.Do(context.Background(), func(context.Context) error {
		fmt.Println("paid")
		return nil
	})
	var short *mortise.NotDurableError
	if errors.As(err, &short) {
		fmt.Printf("%d of %d replicas have the lock, so it was given back\n", short.Acknowledged, short.Wanted)
	}
	// Output:
	// 0 of 1 replicas have the lock, so it was given back
}

// At most two tasks run at a time, over all processes.
func ExampleSemaphore() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	converters := client.Semaphore("converters")
	if _, err := converters.TrySetPermits(ctx, 2); err != nil { // the first process sets them
		fmt.Println(err)
		return
	}
	err := converters.Do(ctx, 1, func(ctx context.Context) error { // waits until ctx ends
		left, err := converters.Available(ctx)
		fmt.Println("converting;", left, "more could do so")
		return err
	})
	fmt.Println(err)

	err = converters.TryAcquire(ctx, 3)
	fmt.Println(errors.Is(err, mortise.ErrNoPermits))
	// Output:
	// converting; 1 more could do so
	// <nil>
	// true
}

// TrySetPermits does not change a number that is set. A program that is deployed with
// another limit changes it once.
func ExampleSemaphore_TrySetPermits() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()
	converters := client.Semaphore("converters")

	err := converters.TryAcquire(ctx, 1)
	fmt.Println("never set:", errors.Is(err, mortise.ErrNotSet))

	for _, limit := range []int{2, 3} {
		set, err := converters.TrySetPermits(ctx, limit)
		fmt.Println("set to", limit, set, err)
	}
	fmt.Println(converters.AddPermits(ctx, 3-2)) // an operator, or a migration
	fmt.Println(converters.Available(ctx))
	// Output:
	// never set: true
	// set to 2 true <nil>
	// set to 3 false <nil>
	// <nil>
	// 3 <nil>
}

// SetPermits changes the limit of a semaphore in use. No holder loses a permit.
func ExamplePermitSemaphore_SetPermits() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	licences, ctx := client.PermitSemaphore("licences"), context.Background()

	_, _, err := licences.TryAcquire(ctx)
	fmt.Println("never set:", errors.Is(err, mortise.ErrNotSet))

	for _, limit := range []int{3, 5} {
		set, err := licences.TrySetPermits(ctx, limit)
		fmt.Println("set to", limit, set, err)
	}
	err = licences.Do(ctx, func(ctx context.Context) error {
		if err := licences.SetPermits(ctx, 5); err != nil {
			return err
		}
		available, err := licences.Available(ctx)
		fmt.Println("available:", available, "and one is held")
		return err
	})
	fmt.Println(err)
	// Output:
	// never set: true
	// set to 3 true <nil>
	// set to 5 false <nil>
	// available: 4 and one is held
	// <nil>
}

// One goroutine waits until three others have done their part.
func ExampleCountDownLatch() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	loaded := client.CountDownLatch("loaded:2026-11-21")
	if _, err := loaded.TrySetCount(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		go func() {
			if err := loaded.CountDown(ctx); err != nil {
				fmt.Println(err)
			}
		}()
	}
	fmt.Println(loaded.Wait(ctx))
	left, err := loaded.Count(ctx)
	fmt.Println(left, err)
	// Output:
	// <nil>
	// 0 <nil>
}

// All processes share three licences. A process gives its licences back; if it dies,
// they come back by themselves.
func ExamplePermitSemaphore() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	licences, ctx := client.PermitSemaphore("licences"), context.Background()

	first, err := licences.TrySetPermits(ctx, 3)
	fmt.Println("there are three now:", first, err)

	two, _, err := licences.With(mortise.PermitOptions{Permits: 2}).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken:", len(two.Permits()))
	_, _, err = licences.With(mortise.PermitOptions{Permits: 2}).TryAcquire(ctx)
	fmt.Println("no two are left:", errors.Is(err, mortise.ErrNoPermits))
	err = licences.Do(ctx, func(ctx context.Context) error {
		available, err := licences.Available(ctx)
		fmt.Println("with the last one taken, available:", available)
		return err
	})
	fmt.Println("given back:", err)

	two.Unlock()
	available, err := licences.Available(ctx)
	fmt.Println("available:", available, err)
	// Output:
	// there are three now: true <nil>
	// taken: 2
	// no two are left: true
	// with the last one taken, available: 0
	// given back: <nil>
	// available: 3 <nil>
}

// Three workers, which could be in three processes, wait for each other. When
// one gives up, the others get an error.
func ExampleBarrier() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		redis := memredis.New()
		defer redis.Close()
		client := mortise.New(redis.Driver(), nil)
		defer client.Close()
		barrier := client.Barrier("phase", 3)

		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				before, err := barrier.Await(context.Background())
				if err != nil {
					fmt.Println(err)
				}
				if before == 2 {
					fmt.Println("all three have come")
				}
			})
		}
		workers.Wait()

		// One party waits, and a second one gives up.
		var other error
		workers.Go(func() { _, other = barrier.Await(context.Background()) })
		_, err := barrier.With(mortise.WaitOptions{Wait: 500 * time.Millisecond}).Await(context.Background())
		fmt.Println("gave up, because others are missing:", errors.Is(err, mortise.ErrMissing))
		workers.Wait()
		var broken *mortise.BrokenError
		if errors.As(other, &broken) {
			fmt.Println("broken, because one", broken.Reason)
		}
	})
	// Output:
	// all three have come
	// gave up, because others are missing: true
	// broken, because one left
}

// Two workers begin together and end together.
func ExampleDoubleBarrier() {
	redis := memredis.New()
	defer redis.Close()
	client := mortise.New(redis.Driver(), nil)
	defer client.Close()

	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			member, ctx, err := client.DoubleBarrier("job", 2).Enter(context.Background())
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("both are inside:", ctx.Err() == nil)
			if err := member.Leave(context.Background()); err != nil {
				fmt.Println(err) // the other worker's work may not be done
			}
		})
	}
	workers.Wait()
	// Output:
	// both are inside: true
	// both are inside: true
}

// A leader publishes its address, and a user of the service follows the leader.
func ExampleElection() {
	redis := memredis.New()
	defer redis.Close()
	ctx := context.Background()

	node := mortise.New(redis.Driver(), nil)
	defer node.Close()
	term, held, err := node.Election("scheduler").Campaign(ctx, "10.0.0.1:80")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("elected for term", term.Token())

	user := mortise.New(redis.Driver(), nil)
	defer user.Close()
	for leader, err := range user.Election("scheduler").Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case leader.Term == 0:
			fmt.Println("nobody leads")
			fmt.Println(context.Cause(held))
			return
		}
		fmt.Println("the leader is at", leader.Value)
		if leader.Value == "10.0.0.1:80" {
			err = term.Proclaim(ctx, "10.0.0.1:443")
		} else {
			err = term.Resign()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// elected for term 1
	// the leader is at 10.0.0.1:80
	// the leader is at 10.0.0.1:443
	// nobody leads
	// released already
}

// The function of Do has only the context; HoldFrom finds the hold, with its token.
func ExampleHoldFrom() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	guard := fencing.NewGuard(server.Driver())
	defer guard.Close()

	err := client.FencedLock("report").Do(context.Background(), func(ctx context.Context) error {
		hold, ok := mortise.HoldFrom(ctx)
		fmt.Println(ok, hold.Name(), hold.Token(), hold.Valid())
		return guard.Set(ctx, "report:text", "all is well", hold.Token())
	})
	fmt.Println(err)
	// Output:
	// true report 1 true
	// <nil>
}
