package mortise_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Who asked first has the lock first, whatever process it is in.
func ExampleFairLock() {
	server := memredis.New() // in production: your Redis
	defer server.Close()
	ctx := context.Background()

	var clients []*mortise.Client // as if of three processes
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
