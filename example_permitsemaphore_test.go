package mortise_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Three licences for all processes. Who takes some gives them back, or dies, and
// then they come back by themselves.
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
