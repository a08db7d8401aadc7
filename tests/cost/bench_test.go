package cost

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	mortiserueidis "github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The least that a lock must do which Redisson's clients can share: the limit
// that a pair of Lock and Unlock is measured against.
var (
	rawAcquire = driver.NewScript("raw acquire", `if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`)
	rawRelease = driver.NewScript("raw release", `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], '0')
return 1`)
)

// scripts runs a script on a client of its own.
type scripts func(ctx context.Context, s *driver.Script, key string, args ...string) error

// libraries open a client of a Redis library, and return what mortise makes of
// it and what it does alone. Each benchmark has its own client: some work in
// another way once several goroutines have used them at the same time.
var libraries = map[string]func(b testing.TB, addr string) (driver.Driver, scripts){
	"rueidis": func(b testing.TB, addr string) (driver.Driver, scripts) {
		rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(rdb.Close)
		return mortiserueidis.Wrap(rdb), func(ctx context.Context, s *driver.Script, key string, args ...string) error {
			return rdb.Do(ctx, rdb.B().Evalsha().Sha1(s.SHA()).Numkeys(1).Key(key).Arg(args...).Build()).Error()
		}
	},
	"go-redis": func(b testing.TB, addr string) (driver.Driver, scripts) {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		b.Cleanup(func() { _ = rdb.Close() })
		return goredis.Wrap(rdb), func(ctx context.Context, s *driver.Script, key string, args ...string) error {
			words := make([]any, len(args))
			for i, a := range args {
				words[i] = a
			}
			return rdb.EvalSha(ctx, s.SHA(), []string{key}, words...).Err()
		}
	},
}

// BenchmarkPair measures a Lock and Unlock of a lock that nobody else wants,
// next to two scripts that do no more than they must ("raw"), by one goroutine
// and by many with a lock each. Pinned to one CPU, client and server together,
// it repeats best:
//
//	go test -c -o bench.test . && taskset -c 0 ./bench.test -test.run '^$' -test.bench Pair
func BenchmarkPair(b *testing.B) {
	server := redistest.Single(b)
	for _, s := range []*driver.Script{rawAcquire, rawRelease} {
		server.Must(b, "SCRIPT", "LOAD", s.Source())
	}
	for _, library := range []string{"rueidis", "go-redis"} {
		for _, goroutines := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/%d/raw", library, goroutines), func(b *testing.B) {
				_, run := libraries[library](b, server.Addr())
				pairs(b, goroutines, func(ctx context.Context, name string) func() error {
					owner, channel := "6f3c1d1e-8a9b-4c5d-9e0f-1a2b3c4d5e6f:1", "redisson_lock__channel:{"+name+"}"
					return func() error {
						if err := run(ctx, rawAcquire, name, owner, "30000"); err != nil {
							return err
						}
						return run(ctx, rawRelease, name, owner, channel)
					}
				})
			})
			b.Run(fmt.Sprintf("%s/%d/lock", library, goroutines), func(b *testing.B) {
				d, _ := libraries[library](b, server.Addr())
				client := mortise.New(d, nil)
				b.Cleanup(func() { _ = client.Close() })
				pairs(b, goroutines, func(ctx context.Context, name string) func() error {
					lock := client.Lock(name)
					return func() error {
						hold, _, err := lock.Lock(ctx)
						if err != nil {
							return err
						}
						return hold.Unlock()
					}
				})
			})
		}
	}
}

// pairs has goroutines do what pair returns, each with a name of its own.
func pairs(b *testing.B, goroutines int, pair func(ctx context.Context, name string) func() error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, goroutines)
	b.ResetTimer()
	for g := range goroutines {
		act := pair(context.Background(), "bench:"+strconv.Itoa(g))
		go func() {
			for left.Add(-1) >= 0 {
				if err := act(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
