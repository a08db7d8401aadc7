package rueidis_test

import (
	"testing"

	redis "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/drivertest"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/leaks"
)

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// A closed cluster client still waits out a refresh that it planned,
		// and the grace it gives to connections that it replaced.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, target drivertest.Target) driver.Driver {
		return rueidis.Wrap(dial(t, target))
	})
}

// dial opens a client as its users do, with the defaults but for what target
// and the package documentation say.
func dial(t *testing.T, target drivertest.Target) redis.Client {
	t.Helper()
	option := redis.ClientOption{
		InitAddress: target.Addrs,
		Username:    target.Username,
		Password:    target.Password,
		// Less than the suite has in flight, so that the ring is full at times.
		RingScaleEachConn: 7,
		// The buffers are no matter of behaviour, and large by default.
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10, CacheSizeEachConn: 1 << 20,
		ConnWriteTimeout:  target.Timeout,
		ForceSingleClient: target.Mode == drivertest.Single,
		Sentinel:          redis.SentinelOption{MasterSet: target.Master},
		ClusterOption:     redis.ClusterOption{MaxMovedRedirections: 16},
	}
	client, err := redis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
