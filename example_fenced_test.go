package mortise_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Every holder has a larger token than all before. The resource refuses who
// comes with an older one than it has seen; see package fencing.
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

// A lock without messages, for work that takes a few milliseconds.
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

// Several accounts at once, in whatever order they are named.
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
