package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// grants counts when a lock was granted.
type grants struct {
	mu sync.Mutex
	at []time.Time
}

// after returns the first grant after t.
func (g *grants) after(t time.Time) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.at {
		if at.After(t) {
			return at, true
		}
	}
	return time.Time{}, false
}

// Clients that contend for a lock when its master dies have it again soon after
// another server serves, for each former holder and whatever their clients believe.
func TestRealFirstGrantAfterFailover(t *testing.T) {
	for name, open := range clusterDialers {
		t.Run("cluster/"+name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				set := redistest.Cluster(t, 1)
				key := set.KeyOn(t, set.Masters[0], "job")
				contendOverFailover(t, b, key, func() driver.Driver { return open(t, set.Addrs()) }, func() time.Time {
					set.Masters[0].Kill()
					return serving(t, set.Replicas[0], "{"+key+"}:probe")
				})
			})
		})
	}
	for name, open := range sentinelDialers {
		t.Run("sentinel/"+name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				set := redistest.Sentinel(t, 1)
				contendOverFailover(t, b, "job", func() driver.Driver { return open(t, set) }, func() time.Time {
					return serving(t, set.Failover(t), "probe") // it is served before the sentinels say so
				})
			})
		})
	}
}

// serving waits until server takes writes.
func serving(t *testing.T, server *redistest.Server, key string) time.Time {
	redistest.Eventually(t, "the new master serves", func() error { _, err := server.Do("SET", key, "1"); return err })
	return time.Now()
}

// contendOverFailover has clients contend for a lock and fails its master. Fail returns when the new
// one serves.
func contendOverFailover(t *testing.T, b *canary.Bounds, name string, dial func() driver.Driver, fail func() time.Time) {
	const goroutines, late = 4, time.Second // a crowd on an idle machine: up to 0.3 s
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var g grants
	for range 3 {
		c := mortise.New(dial(), &mortise.Options{RetryFor: -1})
		t.Cleanup(func() { _ = c.Close() })
		for range goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					hold, _, err := c.Lock(name).Lock(ctx)
					if err != nil {
						continue
					}
					g.mu.Lock()
					g.at = append(g.at, time.Now())
					g.mu.Unlock()
					_ = hold.Unlock() // what it says after a failover is another test's
				}
			})
		}
	}
	redistest.Eventually(t, "many grants", func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.at) < 100 {
			return fmt.Errorf("%d", len(g.at))
		}
		return nil
	})
	serves := fail()
	var first time.Time
	redistest.Eventually(t, "a grant", func() (err error) {
		var ok bool
		if first, ok = g.after(serves); !ok {
			err = errors.New("none")
		}
		return err
	})
	b.Within("the first grant of the new master", first.Sub(serves), late)
}

// The application has closed its client under the driver: that does not pass, and
// nothing waits for it.
func TestRealClosedClientIsSaidToBe(t *testing.T) {
	single, cluster := redistest.Single(t), redistest.Cluster(t, 0)
	for name, open := range map[string]func(addrs []string) (driver.Driver, func(), error){
		"goredis": func(addrs []string) (driver.Driver, func(), error) {
			rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: len(addrs) > 1})
			return goredis.Wrap(rdb.(goredis.Client)), func() { _ = rdb.Close() }, nil
		},
		"rueidis": func(addrs []string) (driver.Driver, func(), error) {
			rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
				InitAddress: addrs, DisableCache: true, ForceSingleClient: len(addrs) == 1,
				RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
			})
			if err != nil {
				return nil, nil, err
			}
			return rueidis.Wrap(rdb), rdb.Close, nil
		},
	} {
		for mode, addrs := range map[string][]string{"single": {single.Addr()}, "cluster": cluster.Addrs()} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
					d, end, err := open(addrs)
					if err != nil {
						t.Fatal(err)
					}
					c := mortise.New(d, nil)
					defer c.Close()
					hold, _ := mustLock(t, c.Lock(name), t.Context())
					end()
					for op, f := range map[string]func() error{
						"Unlock":  hold.Unlock,
						"TryLock": func() error { _, _, err := c.Lock(name + "2").TryLock(t.Context()); return err },
						"Lock":    func() error { _, _, err := c.Lock(name + "3").Lock(t.Context()); return err },
					} {
						start := time.Now()
						err := f()
						if err == nil && name == "rueidis" && mode == "cluster" {
							continue // this client opens new connections though it is closed
						}
						if !errors.Is(err, mortise.ErrClosed) {
							t.Errorf("%s: %v, want ErrClosed", op, err)
						}
						b.Within(op, time.Since(start), 3*time.Second)
					}
				})
			})
		}
	}
}
