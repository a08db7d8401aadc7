package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

// A holder stops in the middle of its work for longer than its lease, and writes when it goes on.
// Another holder has had the lock since: the late write is refused.
func Example() {
	synctest.Test(new(testing.T), func(*testing.T) { // in virtual time, as in a test
		server := memredis.New() // in production: your Redis
		defer server.Close()
		client := mortise.New(server.Driver(), nil)
		defer client.Close()
		guard := fencing.NewGuard(server.Driver())
		defer guard.Close()
		ctx := context.Background()
		lock := client.FencedLock("account:7")

		slow, sctx, err := lock.With(mortise.LockOptions{MaxHold: 50 * time.Millisecond}).Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		time.Sleep(100 * time.Millisecond) // frozen; it does not check its context

		next, nctx, err := lock.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("next:", guard.Set(nctx, "balance:7", "90", next.Token()))

		err = guard.Set(context.WithoutCancel(sctx), "balance:7", "100", slow.Token())
		fmt.Println("slow:", errors.Is(err, fencing.ErrStale))
		fmt.Println(err)
	})
	// Output:
	// next: <nil>
	// slow: true
	// fencing: token 1 for "balance:7" is stale: 2 has been seen, so another holder has had the lock since, or the counter of its tokens was lost
}

// A write with a script of the caller, to several keys, under the fence of the lock.
func ExampleGuard_Run() {
	server := memredis.New()
	defer server.Close()
	guard := fencing.NewGuard(server.Driver())
	defer guard.Close()
	ctx := context.Background()

	transfer := fencing.NewScript(`
		redis.call('decrby', KEYS[1], ARGV[1])
		return redis.call('incrby', KEYS[2], ARGV[1])`)
	accounts := []string{"{bank}:alice", "{bank}:bob"}

	fmt.Println(guard.Run(ctx, "{bank}", 34, transfer, accounts, "10"))
	_, err := guard.Run(ctx, "{bank}", 33, transfer, accounts, "10")
	fmt.Println(errors.Is(err, fencing.ErrStale))
	// Output:
	// 10 <nil>
	// true
}

// A service that admits only the newest holder of each resource.
func ExampleHandler() {
	write := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("written with token", fencing.RequestToken(r.Context()))
	})
	path := func(r *http.Request) string { return r.URL.Path } // what a request writes to
	service := httptest.NewServer(fencing.Handler(new(fencing.Memory), path, write))
	defer service.Close()

	for _, token := range []int64{33, 34, 33} { // from Hold.Token
		r, err := http.NewRequest(http.MethodPut, service.URL+"/file", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fencing.SetToken(r.Header, token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer.Body.Close()
		fmt.Println(answer.Status, errors.Is(fencing.Refused(answer), fencing.ErrStale))
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// written with token 33
	// 200 OK false
	// written with token 34
	// 200 OK false
	// 409 Conflict true
}
