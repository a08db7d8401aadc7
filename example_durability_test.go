package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// A lock that must survive a failover asks for replicas. The embedded Redis of
// this example has none.
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
