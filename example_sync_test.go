package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := barrier.Await(ctx)
	fmt.Println(err)
	workers.Wait()
	var broken *mortise.BrokenError
	if errors.As(other, &broken) {
		fmt.Println("broken, because one", broken.Reason)
	}
	// Output:
	// all three have come
	// mortise: await "phase": context deadline exceeded
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
