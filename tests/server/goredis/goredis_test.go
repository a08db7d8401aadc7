package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/drivertest"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/leaks"
)

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// A cluster client that was told to read the topology waits for a
		// moment before it does so again, also when it has been closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*clusterStateHolder).LazyReload.func1"),
	)
}

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, target drivertest.Target) driver.Driver {
		return goredis.Wrap(dial(t, target))
	})
}

// dial opens a client as its users do, with the defaults but for what target
// says: it sends again what has no reply, and does not heed contexts.
func dial(t *testing.T, target drivertest.Target) redis.UniversalClient {
	t.Helper()
	option := &redis.UniversalOptions{
		Addrs:         target.Addrs,
		Username:      target.Username,
		Password:      target.Password,
		MasterName:    target.Master,
		ReadTimeout:   target.Timeout,
		WriteTimeout:  target.Timeout,
		IsClusterMode: target.Mode == drivertest.Cluster,
		DialerRetries: 1, // as the package documentation recommends
	}
	client := redis.NewUniversalClient(option)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return client
}
