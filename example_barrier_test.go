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

// Three workers, which could be in three processes, wait for each other. When
// one gives up, the others are told.
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

	// One waits, and a second one gives up.
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
				fmt.Println(err) // the work of the other may not be done
			}
		})
	}
	workers.Wait()
	// Output:
	// both are inside: true
	// both are inside: true
}
