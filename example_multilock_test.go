package mortise_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Money moves between two accounts, under the locks of both. Whoever moves it
// the other way names them in the other order; they never wait for each other.
func ExampleNewMultiLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	both := mortise.NewMultiLock(client.Lock("account:2"), client.Lock("account:1"))
	err := both.Do(context.Background(), func(ctx context.Context) error {
		_, _, err := client.Lock("account:1").TryLock(context.Background()) // as anybody else
		fmt.Println(errors.Is(err, mortise.ErrLocked))
		return ctx.Err() // ctx ends when either lock is lost, with a cause that names it
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// Three servers that know nothing of each other; two are enough.
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

	// Somebody has the lock on one server, and dies.
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
	_, _, err = lock.TryLock(ctx) // as anybody else
	fmt.Println(hold.Valid(), errors.Is(err, mortise.ErrLocked))
	fmt.Println(hold.Unlock())
	// Output:
	// true true
	// <nil>
}
