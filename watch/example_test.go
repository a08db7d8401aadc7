package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
	"github.com/mortise-go/mortise/watch"
)

// A program that tells what happens to one lock, until the lock is released.
func ExampleWatcher_Run() {
	server := memredis.New() // a program has connect.Open(ctx, "redis://…") in place of server.Driver()
	defer server.Close()
	client := mortise.New(server.Driver(), &mortise.Options{Identity: mortise.Identity{Host: "api-7", App: "deploy"}})
	defer client.Close()
	hold, _, err := client.Lock("deploy").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	seen := errors.New("the lock was released")
	w := watch.New(server.Driver(), &watch.Options{
		Pattern: "deploy",
		Event: func(e *watch.Event) { // in the goroutine of Run
			switch e.Type {
			case watch.Held, watch.Acquired:
				fmt.Println(e.Lock, "is held")
				_ = hold.Unlock()
			case watch.Released:
				fmt.Println(e.Lock, "is released")
				stop(seen)
			}
		},
		Note: func(n *watch.Note) { log.Println(n) }, // that Redis cannot be read, for example
	})
	defer w.Close()
	if err := w.Run(ctx); !errors.Is(err, seen) {
		log.Fatal(err)
	}
	// Output:
	// deploy is held
	// deploy is released
}
