package mortisetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// rebuild works for ten seconds, and stops when its context ends.
func rebuild(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// naiveTurn works under the lock, but with the context of before: it does not end when the lock is lost.
func naiveTurn(ctx context.Context, lock *mortise.Lock, work func(context.Context) error) error {
	return lock.Do(ctx, func(context.Context) error { return work(ctx) })
}

// turn works with the context that Do gives it.
func turn(ctx context.Context, lock *mortise.Lock, work func(context.Context) error) error {
	return lock.Do(ctx, work)
}

// underChaos has two processes take turns, ten each, while their connections break at random, and
// returns the history of their work: not of the holders of the lock, but of the clients at work. What breaks when depends
// on the seed.
func underChaos(seed uint64, turn func(context.Context, *mortise.Lock, func(context.Context) error) error) *mortisetest.History {
	server := mortisetest.NewServer()
	defer server.Close()
	history := mortisetest.NewHistory()
	ctx := context.Background()

	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			link := server.Link()
			link.Chaos(2*seed+uint64(i), mortisetest.Rates{Partition: 0.2, Outage: 10 * time.Second})
			client := mortise.New(link, &mortise.Options{TTL: 5 * time.Second})
			defer client.Close()
			for range 10 {
				_ = turn(ctx, client.Lock("index"), func(ctx context.Context) error {
					work := history.Claim(ctx, fmt.Sprint("worker ", i), mortisetest.Object{Sort: mortisetest.Exclusive, Name: "index", Kind: "work"}, false)
					_, stop, _ := work.Granted(context.Background(), 0) // it lasts until stop is called
					defer stop()
					return rebuild(ctx)
				}) // what fails is tried again in the next turn
			}
		})
	}
	all.Wait()
	if n := server.Hits()[mortisetest.WasPartitioned]; n < 10 {
		fmt.Println("only", n, "partitions: that shows nothing")
	}
	return history
}

// broken returns what the first seed breaks: not each of them cuts a worker off in the middle of its work.
func broken(turn func(context.Context, *mortise.Lock, func(context.Context) error) error) error {
	for seed := range uint64(10) {
		if err := underChaos(seed, turn).Err(); err != nil { // a test calls Check(t), which tells the story
			return err
		}
	}
	return nil
}

// Chaos breaks the network at random, and a History finds out whether two processes were ever at
// work at once. Each turn takes ten seconds, and yet the example runs in an instant: it is in a bubble of
// [testing/synctest], as a test is with its own t.
//
// The mistake that it finds is a common one: the work under the lock has the wrong context.
func Example_chaosAndHistory() {
	synctest.Test(new(testing.T), func(*testing.T) {
		title, _, _ := strings.Cut(broken(naiveTurn).Error(), "\n")
		fmt.Println("naive:", title)

		fmt.Println("mended:", broken(turn))
	})
	// Output:
	// naive: lock "index": more holders at the same time than it admits
	// mended: <nil>
}
