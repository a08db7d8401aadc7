//go:build server

package fencing_test

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// onServer runs f with a real Redis.
func onServer(t *testing.T, f func(t *testing.T, d driver.Driver)) {
	t.Run("redis-server", func(t *testing.T) { f(t, realDriver(t, redistest.Single(t).Addr())) })
}

func realDriver(t *testing.T, addr string) driver.Driver {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { rdb.Close() })
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close() }) // the test may have closed it
	return d
}
