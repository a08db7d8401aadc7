package server

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// A master and its replica swap their roles while clients wait, and their subscriptions
// stay connected. Soon after, a release wakes them again.
func TestRealDemotionIsNoStall(t *testing.T) {
	for name, open := range clusterDialers {
		t.Run("cluster/"+name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				set := redistest.Cluster(t, 1)
				key := set.KeyOn(t, set.Masters[0], "job")
				handOverAfter(t, b, key, func() driver.Driver { return open(t, set.Addrs()) }, func() {
					set.Replicas[0].Must(t, "CLUSTER", "FAILOVER")
					serving(t, set.Replicas[0], "{"+key+"}:probe")
				}, func() { awaitSubscribers(t, set.Replicas[0], 1) }) // what the other client listens to is elsewhere
			})
		})
	}
	for name, open := range singleDialers {
		t.Run("one address/"+name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				p := newRolePair(t)
				handOverAfter(t, b, "job", func() driver.Driver { return open(t, p.proxy.Addr()) }, func() {
					p.swap(t)
					if name == "rueidis" { // it keeps its connections for commands
						p.master.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
					}
				}, func() { awaitSubscribers(t, p.replica, 2) })
			})
		})
	}
}

// What waits for a replica goes over connections of its own. With go-redis they too leave a server that takes no
// writes, however many there are, and also those of a client that has no subscription.
func TestRealDemotedServerIsLeft(t *testing.T) {
	t.Parallel()
	p := newRolePair(t)
	client := mortise.New(singleDialers["goredis"](t, p.proxy.Addr()), nil)
	defer client.Close()
	mustPass(t, client.Lock("plain"))
	mustPassTogether(t, client)
	p.swap(t)
	p.replica.AwaitReplicas(t, 1)
	mustPassTogether(t, client)
	mustPass(t, client.Lock("plain"))
}

// mustPassTogether acquires and releases many durable locks at the same time.
func mustPassTogether(t *testing.T, client *mortise.Client) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 20 {
		durable := client.Lock(fmt.Sprint("durable", i)).With(mortise.LockOptions{Durability: mortise.Durability{Acks: 1, Timeout: 5 * time.Second}})
		all.Go(func() {
			hold, _, err := durable.Lock(t.Context())
			if err == nil {
				err = hold.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// rolePair is a master and its replica behind one address.
type rolePair struct {
	master, replica *redistest.Server
	proxy           *redistest.Proxy
}

func newRolePair(t *testing.T) *rolePair {
	master := redistest.Single(t)
	return &rolePair{master: master, replica: redistest.Replica(t, master), proxy: redistest.NewProxy(t, master.Addr())}
}

// swap swaps the roles. Connections that are open still lead to the former master.
func (p *rolePair) swap(t *testing.T) {
	p.master.Must(t, "CLIENT", "PAUSE", "10000", "WRITE")
	redistest.Eventually(t, "the replica has all", func() error {
		at, err := p.master.Info("replication", "master_repl_offset")
		if there, too := p.replica.Info("replication", "slave_repl_offset"); err == nil && there != at {
			err = errors.Join(fmt.Errorf("it is at %s, the master at %s", there, at), too)
		}
		return err
	})
	p.replica.Must(t, "REPLICAOF", "NO", "ONE")
	p.proxy.Retarget(p.replica.Addr())
	p.master.Must(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(p.replica.Port()))
	p.master.Must(t, "CLIENT", "UNPAUSE")
}

// singleDialers open a client of one server, by the driver.
var singleDialers = map[string]func(t *testing.T, addr string) driver.Driver{
	"goredis": func(t *testing.T, addr string) driver.Driver {
		rdb := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})
		t.Cleanup(func() { rdb.Close() })
		return goredis.Wrap(rdb)
	},
	"rueidis": func(t *testing.T, addr string) driver.Driver {
		return rueidis.Wrap(newRueidis(t, addr))
	},
}

func newRueidis(t *testing.T, addr string) rueidisclient.Client {
	t.Helper()
	rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true,
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rdb.Close)
	return rdb
}

// mustPass acquires k, and releases it.
func mustPass(t *testing.T, k *mortise.Lock) {
	t.Helper()
	hold, _ := mustLock(t, k, t.Context())
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// handOverAfter has two clients hand a lock to each other over and over after swap, which makes a replica the master.
// Settled waits until their subscriptions have followed.
func handOverAfter(t *testing.T, b *canary.Bounds, name string, dial func() driver.Driver, swap, settled func()) {
	// By polling a hand-over takes half a second on average, and so few of ten would be quick. On busy CPUs some are slow.
	const rounds, quick, mostSlow = 10, 300 * time.Millisecond, 3
	var clients [2]*mortise.Client
	var asked [2]*faults
	for i := range clients {
		asked[i] = &faults{Driver: dial()}
		clients[i] = mortise.New(asked[i], &mortise.Options{RetryFor: -1})
		t.Cleanup(func() { _ = clients[i].Close() })
	}
	// The second answer is to the attempt after the subscription was confirmed. A client that waited a moment ago
	// still listens.
	wait := func(i, attempts int) <-chan taken {
		before := asked[i].Answered("lock_acquire")
		got := lockSoon(t, clients[i].Lock(name))
		redistest.Eventually(t, "the waiter listens", func() error {
			if n := asked[i].Answered("lock_acquire") - before; n < attempts {
				return fmt.Errorf("%d attempts", n)
			}
			return nil
		})
		return got
	}
	hold, _ := mustLock(t, clients[0].Lock(name), t.Context())
	got := wait(1, 2)
	swap()
	// A client of a cluster that sends nothing does not learn where its next subscription belongs.
	mustPass(t, clients[0].Lock("{"+name+"}:other"))
	settled()
	var took []time.Duration
	for i := range rounds {
		begin := time.Now()
		if err := hold.Unlock(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		next := <-got
		if next.hold == nil {
			return
		}
		took = append(took, next.at.Sub(begin).Round(time.Millisecond))
		hold = next.hold
		got = wait(i%2, max(1, 2-i))
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	if last := <-got; last.hold != nil {
		_ = last.hold.Unlock()
	}
	t.Log(took)
	slices.Sort(took)
	b.Within(fmt.Sprintf("%d of %d hand-overs", rounds-mostSlow, rounds), took[rounds-mostSlow-1], quick)
}

// taken is a hold, and when it was acquired.
type taken struct {
	hold *mortise.Hold
	at   time.Time
}

// lockSoon acquires a lock in the background. The hold is nil if that fails.
func lockSoon(t *testing.T, lock *mortise.Lock) <-chan taken {
	t.Helper()
	got := make(chan taken, 1)
	go func() {
		hold, _, err := lock.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- taken{hold, time.Now()}
	}()
	return got
}

// awaitSubscribers waits until the subscriptions of so many clients have moved to a server.
func awaitSubscribers(t *testing.T, server *redistest.Server, clients int) {
	t.Helper()
	redistest.Eventually(t, "the subscriptions at the new master", func() error {
		if n := server.Subscribers(t); n < clients {
			return fmt.Errorf("%d of %d are", n, clients)
		}
		return nil
	})
}
