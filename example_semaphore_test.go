package mortise_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// No more than two at a time, over all processes.
func ExampleSemaphore() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	converters := client.Semaphore("converters")
	if _, err := converters.TrySetPermits(ctx, 2); err != nil { // whoever comes first sets them
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

// One waits until three others have done their part.
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
