package server

import (
	"errors"
	"fmt"
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

// clusterDialers opens a driver of each kind for a cluster.
var clusterDialers = map[string]func(t *testing.T, addrs []string) driver.Driver{
	"goredis": func(t *testing.T, addrs []string) driver.Driver {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second, DialerRetries: 1})
		t.Cleanup(func() { rdb.Close() })
		return goredis.Wrap(rdb)
	},
	"rueidis": func(t *testing.T, addrs []string) driver.Driver {
		rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: addrs, ConnWriteTimeout: 3 * time.Second,
			RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10, DisableCache: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rdb.Close)
		return rueidis.Wrap(rdb)
	},
}

// onCluster runs f with each driver, all on one cluster. The driver's name keeps
// their keys apart.
func onCluster(t *testing.T, f func(t *testing.T, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client)) {
	set := redistest.Cluster(t, 0)
	for name, open := range clusterDialers {
		t.Run(name, func(t *testing.T) {
			f(t, name, set, func(o *mortise.Options) *mortise.Client {
				c := mortise.New(open(t, set.Addrs()), o)
				t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
				return c
			})
		})
	}
}

// onClusterInTime is onCluster for a test that judges how long something takes. The name keeps the keys of trials apart, too.
func onClusterInTime(t *testing.T, f func(t *testing.T, b *canary.Bounds, name string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client)) {
	onCluster(t, func(t *testing.T, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		trial := 0
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
			trial++
			f(t, b, fmt.Sprint(driver, trial), set, dial)
		})
	})
}

// clusterPeer opens clients of a cluster with one kind of driver. Its name keeps their keys apart.
type clusterPeer struct {
	name string
	open func(t *testing.T, addrs []string) driver.Driver
	set  *redistest.ClusterSet
}

func (p clusterPeer) spy(t *testing.T, o *mortise.Options) (*mortise.Client, *faults) {
	f := &faults{Driver: p.open(t, p.set.Addrs())}
	c := mortise.New(f, o)
	t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
	return c, f
}

func (p clusterPeer) dial(t *testing.T, o *mortise.Options) *mortise.Client {
	c, _ := p.spy(t, o)
	return c
}

func TestRealCluster(t *testing.T) {
	set := redistest.Cluster(t, 0)
	for name, open := range clusterDialers {
		p := clusterPeer{name, open, set}
		t.Run(name, func(t *testing.T) {
			t.Run("waiters are woken on every shard, in every mode", func(t *testing.T) { canary.Judge(t, p.wakesOnEveryShard) })
			t.Run("locks of many slots are renewed", func(t *testing.T) { canary.Judge(t, p.renewsManySlots) })
			t.Run("a slot moves while its lock is held and awaited", func(t *testing.T) { canary.Judge(t, p.survivesAMovedSlot) })
		})
	}
}

func (p clusterPeer) wakesOnEveryShard(t *testing.T, b *canary.Bounds) {
	modes := []mortise.PubSub{mortise.PubSubAuto, mortise.PubSubClassic, mortise.PubSubBoth}
	if redistest.Sharded(t) {
		modes = append(modes, mortise.PubSubSharded)
	}
	for _, mode := range modes {
		holder := p.dial(t, &mortise.Options{PubSub: mode})
		waiter, asked := p.spy(t, &mortise.Options{PubSub: mode})
		for i, master := range p.set.Masters {
			key := p.set.KeyOn(t, master, fmt.Sprint(p.name, mode, i))
			wakes(t, b, holder.Lock(key), waiter.Lock(key), asked, mode != mortise.PubSubClassic && redistest.Sharded(t))
		}
	}
}

func (p clusterPeer) renewsManySlots(t *testing.T, b *canary.Bounds) {
	const lease = time.Second
	c := p.dial(t, &mortise.Options{TTL: lease})
	var holds []*mortise.Hold
	for i := range 300 {
		hold, _ := mustLock(t, c.Lock(fmt.Sprint(p.name, "many", i)), t.Context())
		holds = append(holds, hold)
	}
	if !awaitRenewals(t, b, lease, holds...) {
		return
	}
	for _, h := range holds {
		mustUnlock(t, h)
	}
}

func (p clusterPeer) survivesAMovedSlot(t *testing.T, b *canary.Bounds) {
	holder, waiter := p.dial(t, &mortise.Options{TTL: 3 * time.Second}), p.dial(t, nil)
	key := p.set.KeyOn(t, p.set.Masters[0], p.name+"moving")
	from := p.set.Owner(t, key)
	to := p.set.Masters[1]
	hold, ctx := mustLock(t, holder.Lock(key), t.Context())
	got := make(chan *mortise.Hold, 1)
	go func() {
		h, _, err := waiter.Lock(key).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	p.set.MoveSlot(t, p.set.Slot(t, key), from, to)
	until := hold.Until()
	redistest.Eventually(t, "the lease was renewed on the new server", func() error {
		if !hold.Until().After(until) {
			return fmt.Errorf("trusted until %v still", until)
		}
		return ctx.Err()
	})
	start := time.Now()
	mustUnlock(t, hold)
	h := <-got
	b.Within("the hand-over after the move", time.Since(start), 5*time.Second)
	mustUnlock(t, h)
	p.set.MoveSlot(t, p.set.Slot(t, key), to, from)
}

// wakes shows that a release by holder wakes waiter by its message: five times
// in a row, in less time than five polls take.
func wakes(t *testing.T, b *canary.Bounds, holder, waiter *mortise.Lock, asked *faults, turns bool) {
	t.Helper()
	var waited time.Duration
	for round := range 5 {
		hold, _ := mustLock(t, holder, t.Context())
		before := asked.Answered("lock_acquire")
		got := make(chan error, 1)
		go func() {
			h, _, err := waiter.Lock(t.Context())
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		// The second answer is to the attempt after the subscription was
		// confirmed; a client that takes turns goes on listening for a while, and
		// needs no second one. From then on only a message, or the poll, helps.
		attempts := 2
		if turns && round > 0 {
			attempts = 1
		}
		redistest.Eventually(t, "the waiter listens", func() error {
			if n := asked.Answered("lock_acquire") - before; n < attempts {
				return fmt.Errorf("%d attempts", n)
			}
			return nil
		})
		released := time.Now()
		mustUnlock(t, hold)
		if err := <-got; err != nil {
			t.Error(err)
		}
		waited += time.Since(released)
	}
	b.Within("five hand-overs, by messages and not by polls", waited, 3*time.Second)
}

func TestRealSentinelFailover(t *testing.T) {
	set := redistest.Sentinel(t, 1)
	drivers := map[string]driver.Driver{}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: set.Addrs()})
	t.Cleanup(func() { rdb.Close() })
	drivers["goredis"] = goredis.Wrap(rdb)
	rc, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: set.Addrs(), ConnWriteTimeout: 3 * time.Second, DisableCache: true,
		Sentinel:          rueidisclient.SentinelOption{MasterSet: redistest.SentinelName, TopologyRefreshInterval: time.Second},
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	drivers["rueidis"] = rueidis.Wrap(rc)

	// The master dies while locks are held and awaited. Whether a lock
	// survives is not promised; that everybody learns the truth is.
	type side struct {
		client *mortise.Client
		hold   *mortise.Hold
		got    chan error
	}
	sides := map[string]*side{}
	for name, d := range drivers {
		c := mortise.New(d, &mortise.Options{RetryFor: 30 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		hold, _ := mustLock(t, c.Lock(name), t.Context())
		s := &side{client: c, hold: hold, got: make(chan error, 1)}
		sides[name] = s
		go func() {
			h, _, err := c.Lock(name).Lock(t.Context())
			if err == nil {
				err = h.Unlock()
			}
			s.got <- err
		}()
	}
	set.Failover(t)
	for name, s := range sides {
		if err := s.hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrLost) && !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("%s: after the failover Unlock says %v, want success, ErrLost or ErrUnknownOutcome", name, err)
		}
		if err := <-s.got; err != nil {
			t.Errorf("%s: the waiter did not survive the failover: %v", name, err)
		}
	}
}
