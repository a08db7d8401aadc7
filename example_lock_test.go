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
		return ctx.Err() // ctx ends when either lock is lost, with a cause that names it
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
