package mortise_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/memredis"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The examples run on the embedded Redis, so that their output is checked.
// Everything else about them is as in production.

func Example() {
	server := memredis.New() // in production: your Redis
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	err := client.Lock("order:42").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("shipping order 42, and nobody else is")
		return nil
	})
	fmt.Println(err)
	// Output:
	// shipping order 42, and nobody else is
	// <nil>
}

func ship(ctx context.Context, order int) error {
	fmt.Println("shipping order", order)
	return context.Cause(ctx)
}

// This uses an existing go-redis client of the application.
func Example_goredis() {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	addr, ctx := server.Addr(), context.Background()

	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	client := mortise.New(goredis.Wrap(rdb), nil)
	defer client.Close()

	err = client.Lock("order:42").Do(ctx, func(ctx context.Context) error {
		return ship(ctx, 42) // ctx ends, with cause ErrLost, before another can have the lock
	})
	fmt.Println(err)
	// Output:
	// shipping order 42
	// <nil>
}

// This needs no Redis client of the application.
func Example_connect() {
	ctx := context.Background()

	d, err := connect.Open(ctx, "mem://") // or redis://, rediss://, unix://, redis-sentinel://, redis+cluster://
	if err != nil {
		fmt.Println(err)
		return
	}
	client := mortise.New(d, nil)
	defer client.Close() // closes d as well

	hold, lctx, err := client.Lock("report").Lock(ctx) // waits until ctx ends; work with lctx
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	fmt.Println("held:", hold.Valid(), lctx.Err())
	// Output: held: true <nil>
}

func ExampleLock_TryLock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	report := func(ctx context.Context, work func()) error {
		hold, lctx, err := client.Lock("report").TryLock(ctx)
		var held *mortise.HeldError
		if errors.As(err, &held) {
			log.Printf("%v has it, and keeps it for another %v unless it renews it", &held.Holder, held.TTL)
			return err
		}
		if err != nil {
			return err // Redis was not reached, for example
		}
		defer hold.Unlock()

		work()
		return lctx.Err()
	}
	err := report(context.Background(), func() {
		fmt.Println("the report")
		err := report(context.Background(), func() { fmt.Println("once more") })
		fmt.Println(errors.Is(err, mortise.ErrLocked))
	})
	fmt.Println(err)
	// Output:
	// the report
	// true
	// <nil>
}

// Three machines whose clocks differ start a job once a night. It runs once.
func ExampleLock_TryDo() {
	server := memredis.New()
	defer server.Close()
	ctx := context.Background()
	runNightly := func(context.Context) error {
		fmt.Println("the work of the night")
		return nil
	}
	for machine := range 3 {
		client := mortise.New(server.Driver(), nil)
		defer client.Close()

		nightly := client.Lock("nightly").With(mortise.LockOptions{MinHold: time.Minute})
		ran, err := nightly.TryDo(ctx, runNightly)
		fmt.Println(machine, ran, err)
	}
	// Output:
	// the work of the night
	// 0 true <nil>
	// 1 false <nil>
	// 2 false <nil>
}

// What is dear to make is made once: the others wait for it, or go on with what they have.
func ExampleLock_Do_cache() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()
	var cache string
	fill := func(context.Context) error {
		fmt.Println("filling it")
		cache = "prices"
		return nil
	}

	filling := client.Lock("cache:prices")
	for range 2 {
		err := filling.Do(ctx, func(ctx context.Context) error {
			if cache != "" {
				return nil // another has filled it meanwhile
			}
			return fill(ctx)
		})
		fmt.Println(cache, err)
	}

	ran, err := filling.TryDo(ctx, fill) // false: another fills it, so serve the old one
	fmt.Println(ran, err)
	// Output:
	// filling it
	// prices <nil>
	// prices <nil>
	// filling it
	// true <nil>
}

// Lead campaigns, leads, and campaigns again after a loss. Here the leader stops by itself after a while.
func ExampleElection_Lead() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()

	err := client.Election("billing").Lead(context.Background(), "http://10.0.0.7:8080", func(ctx context.Context, term *mortise.Term) error {
		fmt.Println("leads in term", term.Token())
		return ctx.Err() // work until ctx ends
	})
	fmt.Println(err)
	// Output:
	// leads in term 1
	// <nil>
}

// A worker is told to stop. It finishes what it has begun, with the context of the hold, which ends only if the lock is lost.
func ExampleHold_Context() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	finish := func(ctx context.Context) error { return ctx.Err() }

	ctx, stop := context.WithCancel(context.Background()) // as that of signal.NotifyContext
	err := client.Lock("queue").Do(ctx, func(lctx context.Context) error {
		stop() // the signal comes
		fmt.Println(lctx.Err())
		hold, _ := mortise.HoldFrom(lctx)
		return finish(hold.Context())
	})
	fmt.Println(err)
	// Output:
	// context canceled
	// <nil>
}

// Taking a lock with the context that an outer Lock returned re-enters.
func ExampleLock_Lock_reentry() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	account := client.Lock("account:7")

	outer, ctx, err := account.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	inner, _, err := account.Lock(ctx) // the same owner: counted
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = account.TryLock(mortise.Detach(ctx)) // a competitor
	fmt.Println("a competitor gets it:", !errors.Is(err, mortise.ErrLocked))

	state, _ := account.Inspect(ctx)
	fmt.Println("held", state.Holders[0].Count, "times, by me:", state.Mine)
	fmt.Println(inner.Unlock(), outer.Unlock())
	// Output:
	// a competitor gets it: false
	// held 2 times, by me: true
	// <nil> <nil>
}

// A fixed lease is never renewed. The context ends shortly before it does.
func ExampleLock_With() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		server := memredis.New()
		defer server.Close()
		client := mortise.New(server.Driver(), nil)
		defer client.Close()

		lock := client.Lock("import").With(mortise.LockOptions{MaxHold: 50 * time.Millisecond})
		hold, ctx, err := lock.Lock(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		<-ctx.Done() // it ends work that takes too long
		fmt.Println(context.Cause(ctx))
		fmt.Println(errors.Is(hold.Unlock(), mortise.ErrLost))
	})
	// Output:
	// mortise: hold "import": the lease was lost: its time is over; stop the work that it protects, others may begin theirs
	// true
}

// WithOwner is for holds of one owner that overlap instead of nesting.
func ExampleWithOwner() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	lock := client.Lock("job")

	ctx := mortise.WithOwner(context.Background())
	first, _, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, _, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Unlock(), second.Valid(), second.Unlock())
	// Output: <nil> true <nil>
}

func ExampleLock_ForceUnlock() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	hold, held, err := client.Lock("job").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	by, err := client.Lock("job").ForceUnlock(ctx)
	fmt.Println(by.Owner == hold.Owner(), err)
	<-held.Done() // the holder is told
	fmt.Println(context.Cause(held))
	// Output:
	// true <nil>
	// mortise: hold "job": the lease was lost: it was freed by force, its key was deleted, or Redis has restarted without it; stop the work that it protects, others may begin theirs
}

func ExampleClient_Locks() {
	server := memredis.New()
	defer server.Close()
	client := mortise.New(server.Driver(), nil)
	defer client.Close()
	ctx := context.Background()

	for _, name := range []string{"order:1", "order:2", "invoice:1"} {
		hold, _, err := client.Lock(name).Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer hold.Unlock()
	}
	for state, err := range client.Locks(ctx, "order:*") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(state.Name, state.Kind, len(state.Holders))
	}
	// Unordered output:
	// order:1 lock 1
	// order:2 lock 1
}

// The order of the cases matters: a wait that the caller's context has ended also matches
// what was waited for.
func Example_errors() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		server := memredis.New()
		defer server.Close()
		client := mortise.New(server.Driver(), nil)
		defer client.Close()
		lock := client.Lock("order:42").With(mortise.LockOptions{Wait: 500 * time.Millisecond})

		attempt := func(ctx context.Context, work func(ctx context.Context) error) string {
			err := lock.Do(ctx, work)
			switch {
			case err == nil:
				return "done"
			case errors.Is(err, mortise.ErrLost):
				return "lost: the work may be incomplete, and another owner may have the lock"
			case errors.Is(err, mortise.ErrRevoked):
				return "asked to release it: the work is incomplete"
			case ctx.Err() != nil: // the context of the caller, not the one that the work got
				return "cancelled"
			case errors.Is(err, mortise.ErrLocked):
				return "busy"
			case errors.Is(err, mortise.ErrUnreachable):
				return "down"
			}
			return err.Error() // the work failed, or Redis refused a right, for example
		}

		ctx := context.Background()
		fmt.Println(attempt(ctx, func(lctx context.Context) error {
			cancelled, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			fmt.Println(attempt(ctx, func(context.Context) error { return nil })) // competes: not with lctx
			fmt.Println(attempt(cancelled, func(context.Context) error { return nil }))
			return context.Cause(lctx)
		}))
		fmt.Println(attempt(ctx, func(lctx context.Context) error {
			if _, err := lock.ForceUnlock(ctx); err != nil {
				return err
			}
			<-lctx.Done()
			return context.Cause(lctx)
		}))
		fmt.Println(attempt(ctx, func(lctx context.Context) error {
			time.Sleep(time.Second) // until others see who has it
			if _, err := client.Ask(ctx, "order:42", "maintenance"); err != nil {
				return err
			}
			<-lctx.Done()
			return context.Cause(lctx)
		}))
		server.Close()
		fmt.Println(attempt(ctx, func(context.Context) error { return nil }))
	})
	// Output:
	// busy
	// cancelled
	// done
	// lost: the work may be incomplete, and another owner may have the lock
	// asked to release it: the work is incomplete
	// down
}

// Wait limits the wait, and not the work.
func ExampleLockOptions_wait() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		redis := memredis.New()
		defer redis.Close()
		client := mortise.New(redis.Driver(), nil)
		defer client.Close()
		ctx := context.Background()

		ship := func() error {
			lock := client.Lock("order:42").With(mortise.LockOptions{Wait: 500 * time.Millisecond})
			return lock.Do(ctx, func(ctx context.Context) error {
				time.Sleep(600 * time.Millisecond)
				return ctx.Err()
			})
		}
		fmt.Println("free:", ship())

		hold, _, err := client.Lock("order:42").Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer hold.Unlock()
		switch err := ship(); {
		case errors.Is(err, mortise.ErrLocked):
			var held *mortise.HeldError
			fmt.Println("busy, and it is known by whom:", errors.As(err, &held) && held.Owner == hold.Owner())
		case errors.Is(err, mortise.ErrUnreachable):
			fmt.Println("Redis does not answer")
		}
	})
	// Output:
	// free: <nil>
	// busy, and it is known by whom: true
}
