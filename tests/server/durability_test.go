package server

// Durable locks on real masters with real replicas.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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

// within returns options for a durability that waits for that long.
func within(acks mortise.Acks, timeout time.Duration) mortise.LockOptions {
	return mortise.LockOptions{Durability: mortise.Durability{Acks: acks, Timeout: timeout}}
}

func TestRealReplicas(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Single(t)
			replicas := []*redistest.Server{redistest.Replica(t, master), redistest.Replica(t, master)}
			online(t, master, 2)
			c := mortise.New(open(t, master.Addr(), ""), nil)
			defer c.Close()
			all := c.Lock("job").With(within(mortise.AcksAll, time.Minute))
			for range 20 {
				hold, ctx := mustLock(t, all, t.Context())
				for _, r := range replicas {
					if n := r.Str(t, "HGET", "job", hold.Owner()); n != "1" {
						t.Fatalf("all have acknowledged, and %s has the count %q, want %q", r.Addr(), n, "1")
					}
				}
				inner, _ := mustLock(t, all, ctx)
				for _, r := range replicas {
					if n := r.Str(t, "HGET", "job", hold.Owner()); n != "2" {
						t.Fatalf("all have acknowledged the re-entry, and %s has the count %q, want %q", r.Addr(), n, "2")
					}
				}
				mustUnlock(t, inner)
				mustUnlock(t, hold)
			}

			replicas[0].Pause(t)
			for range 3 {
				hold, _ := mustLock(t, c.Lock("job").With(within(mortise.AcksMajority, time.Minute)), t.Context())
				mustUnlock(t, hold)
			}
			for acks, wanted := range map[mortise.Acks]int{mortise.AcksAll: 2, 2: 2, 3: 3} {
				_, err := acknowledged(t, c.Lock("job"), acks, 1)
				wantNotDurable(t, err, 1, wanted)
				if n := master.Int(t, "EXISTS", "job"); n != 0 {
					t.Errorf("a lock that was not acknowledged by %d is still there", wanted)
				}
			}
			replicas[0].Resume(t)
			hold, _ := mustLock(t, all, t.Context())
			mustUnlock(t, hold)

			// A replica that left does not count, as soon as the master knows.
			replicas[0].Stop()
			online(t, master, 1)
			if hold, err := acknowledged(t, c.Lock("job"), mortise.AcksAll, 1); err != nil {
				t.Error(err)
			} else {
				mustUnlock(t, hold)
			}
		})
	}
}

// acknowledged acquires k, and waits for so long that at least that many replicas can acknowledge it: 200 ms, or
// longer if the machine is busy.
func acknowledged(t *testing.T, k *mortise.Lock, acks mortise.Acks, least int) (*mortise.Hold, error) {
	t.Helper()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		hold, _, err := k.With(within(acks, wait)).Lock(t.Context())
		var short *mortise.NotDurableError
		if !errors.As(err, &short) || short.Acknowledged >= least || wait > time.Minute {
			return hold, err
		}
	}
}

func online(t *testing.T, master *redistest.Server, n int) {
	t.Helper()
	redistest.Eventually(t, "replicas online", func() error {
		if got := strings.Count(master.Str(t, "INFO", "replication"), "state=online"); got != n {
			return fmt.Errorf("%d of %d are", got, n)
		}
		return nil
	})
}

// Renewals that no replica has do not count, and the hold ends before the key.
func TestRealUnacknowledgedRenewals(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { unacknowledgedRenewals(t, b, open) })
		})
	}
}

func unacknowledgedRenewals(t *testing.T, b *canary.Bounds, open func(t *testing.T, addr, password string) driver.Driver) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	online(t, master, 1)
	const lease = 3 * time.Second
	c := mortise.New(open(t, master.Addr(), ""), &mortise.Options{TTL: lease})
	defer c.Close()
	acked, durable := mustLock(t, c.Lock("durable").With(within(1, time.Second)), t.Context())
	plain, ctx := mustLock(t, c.Lock("plain"), t.Context())
	if !awaitRenewals(t, b, lease, acked, plain) { // while the replica is there
		return
	}
	replica.Pause(t)
	<-durable.Done()
	if cause := context.Cause(durable); !errors.Is(cause, mortise.ErrLost) || !errors.Is(cause, mortise.ErrNotDurable) {
		t.Errorf("the cause is %v, want ErrLost because of the replica", cause)
	}
	if ttl := master.Int(t, "PTTL", "durable"); ttl <= 0 {
		t.Errorf("the key had expired (PTTL %d) when the hold ended", ttl)
	}
	if ctx.Err() != nil {
		t.Errorf("a lock that does not ask for replicas was lost too: %v", context.Cause(ctx))
	}
	mustUnlock(t, plain)
}

func TestRealAppendOnlyFile(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Single(t, "--appendonly", "yes")
			c := mortise.New(open(t, s.Addr(), ""), nil)
			defer c.Close()
			hold, _, err := c.Lock("job").With(mortise.LockOptions{Durability: mortise.Durability{AOF: true, Timeout: time.Minute}}).Lock(t.Context())
			if _, bad := s.Do("WAITAOF", "0", "0", "1"); bad != nil { // before Redis 7.2
				if !errors.Is(err, mortise.ErrInvalid) || s.Int(t, "EXISTS", "job") != 0 {
					t.Errorf("without WAITAOF: %v, want ErrInvalid and no lock", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, hold)
		})
	}
}

// sentinelDialers opens a driver of each kind that follows sentinels.
var sentinelDialers = map[string]func(t *testing.T, set *redistest.SentinelSet) driver.Driver{
	"goredis": func(t *testing.T, set *redistest.SentinelSet) driver.Driver {
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: set.Addrs()})
		t.Cleanup(func() { rdb.Close() })
		return goredis.Wrap(rdb)
	},
	"rueidis": func(t *testing.T, set *redistest.SentinelSet) driver.Driver {
		rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: set.Addrs(), ConnWriteTimeout: 3 * time.Second, DisableCache: true,
			RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
			Sentinel: rueidisclient.SentinelOption{MasterSet: redistest.SentinelName},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rdb.Close)
		return rueidis.Wrap(rdb)
	},
}

// The master dies while many take locks. Sentinels promote the replica that has
// got furthest, and that has all that one replica has acknowledged.
func TestRealFailoverKeepsDurableLocks(t *testing.T) {
	for name, open := range sentinelDialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := redistest.Sentinel(t, 2)
			c := mortise.New(open(t, set), nil)
			defer c.Close()
			var mu sync.Mutex
			var holds []*mortise.Hold // guarded by mu
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for g := range 8 {
				all.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						k := c.Lock(fmt.Sprint("job:", g, ":", i)).With(within(mortise.AcksMajority, time.Second))
						if hold, _, err := k.Lock(ctx); err == nil {
							mu.Lock()
							holds = append(holds, hold)
							mu.Unlock()
						}
					}
				})
			}
			redistest.Eventually(t, "some locks are held", func() error {
				mu.Lock()
				defer mu.Unlock()
				if n := len(holds); n < 300 {
					return fmt.Errorf("%d are", n)
				}
				return nil
			})
			promoted := set.Failover(t)
			stop()
			all.Wait()
			lost := 0
			for _, h := range holds {
				if promoted.Int(t, "HEXISTS", h.Name(), h.Owner()) != 1 {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("%d of %d acknowledged locks are not on the new master, want 0", lost, len(holds))
			}
		})
	}
}

// One of two replicas lags, and is the one that is promoted. Less than all
// acknowledgements do not help then, and what is lost is told.
func TestRealFailoverToALaggingReplica(t *testing.T) {
	for name, open := range sentinelDialers {
		for _, acks := range []mortise.Acks{0, mortise.AcksMajority, mortise.AcksAll} {
			t.Run(fmt.Sprint(name, "/", mortise.Durability{Acks: acks}), func(t *testing.T) {
				t.Parallel()
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) { failoverToALaggingReplica(t, b, acks, open) })
			})
		}
	}
}

func failoverToALaggingReplica(t *testing.T, b *canary.Bounds, acks mortise.Acks, open func(t *testing.T, set *redistest.SentinelSet) driver.Driver) {
	master := redistest.Single(t)
	ahead := redistest.Replica(t, master)
	link := redistest.NewProxy(t, master.Addr())
	_, port, err := net.SplitHostPort(link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	behind := redistest.Replica(t, master, "--replicaof", "127.0.0.1", port, "--replica-priority", "1") // the first to be promoted
	online(t, master, 2)
	set := redistest.Watch(t, master, ahead, behind)
	first := mortise.New(open(t, set), &mortise.Options{TTL: 12 * time.Second, RetryFor: -1})
	defer first.Close()
	second := mortise.New(open(t, set), &mortise.Options{RetryFor: -1})
	defer second.Close()

	link.Stall(redistest.Requests, redistest.Replies)
	k := first.Lock("job").With(within(acks, time.Minute))
	var hold *mortise.Hold
	var ctx context.Context
	if acks != mortise.AcksAll {
		hold, ctx, err = k.Lock(t.Context())
	} else {
		_, err = acknowledged(t, first.Lock("job"), acks, 1)
		wantNotDurable(t, err, 1, 2)
		link.Flow()
		hold, ctx, err = first.Lock("job").With(within(acks, time.Minute)).Lock(t.Context())
		link.Stall(redistest.Requests, redistest.Replies)
	}
	if err != nil {
		t.Fatal(err)
	}
	if promoted := set.Failover(t); promoted != behind {
		t.Fatal("the sentinels have promoted the other one")
	}
	theirs, _, err := second.Lock("job").TryLock(t.Context())
	if acks == mortise.AcksAll {
		wantKept(t, hold, ctx, err)
		return
	}
	if err != nil {
		t.Fatalf("the lagging replica knows of the lock: %v", err)
	}
	promoted := time.Now()
	select {
	case <-ctx.Done():
		b.Within("the end of what was lost", time.Since(promoted), 30*time.Second)
	case <-time.After(time.Minute):
	}
	if !errors.Is(context.Cause(ctx), mortise.ErrLost) {
		t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
	}
	mustUnlock(t, theirs)
}

// wantKept checks that a failover has neither ended hold nor let in another client, whose TryLock was refused.
func wantKept(t *testing.T, hold *mortise.Hold, ctx context.Context, refused error) {
	if !errors.Is(refused, mortise.ErrLocked) {
		t.Errorf("TryLock of another: %v, want ErrLocked", refused)
	}
	if !hold.Valid() {
		t.Errorf("the hold was lost: %v", context.Cause(ctx))
	}
	if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
		t.Errorf("Unlock: %v", err)
	}
}

// On a cluster each master has replicas of its own, and slots move.
func TestRealDurableLocksOnACluster(t *testing.T) {
	set := redistest.Cluster(t, 1)
	held := map[string][]*mortise.Hold{}
	for name, open := range clusterDialers {
		c := mortise.New(open(t, set.Addrs()), &mortise.Options{TTL: 6 * time.Second})
		defer c.Close()
		for i := range 60 {
			k := c.Lock(fmt.Sprint(name, ":", i)).With(within(mortise.AcksAll, time.Minute))
			hold, _ := mustLock(t, k, t.Context())
			held[name] = append(held[name], hold)
		}
		_, err := acknowledged(t, c.Lock(name), 2, 1)
		wantNotDurable(t, err, 1, 2)
	}
	wantAllRenewed(t, held, "on all masters")
	for name := range held { // a lock of each client moves with its slot
		slot := set.Slot(t, name+":7")
		from := set.Owner(t, name+":7")
		to := set.Masters[0]
		if from == to {
			to = set.Masters[1]
		}
		set.MoveSlot(t, slot, from, to)
	}
	wantAllRenewed(t, held, "after slots have moved")

	dies := set.Masters[2]
	var there []*mortise.Hold
	for _, holds := range held {
		for _, h := range holds {
			if set.Owner(t, h.Name()) == dies {
				there = append(there, h)
			}
		}
	}
	if len(there) == 0 {
		t.Fatal("no lock is on the master that is to die")
	}
	dies.Kill()
	redistest.Eventually(t, "a new master", func() error {
		promoted := set.Owner(t, there[0].Name())
		if promoted == dies {
			return errors.New("the cluster still names the one that died")
		}
		for _, h := range there {
			if n := promoted.Int(t, "HEXISTS", h.Name(), h.Owner()); n != 1 {
				t.Errorf("the new master does not know of the lock %s, which was acknowledged", h.Name())
			}
		}
		return nil
	})
}

// wantAllRenewed waits until each lock is renewed. Held is by driver.
func wantAllRenewed(t *testing.T, held map[string][]*mortise.Hold, what string) {
	t.Helper()
	since := time.Now()
	redistest.Eventually(t, "every lock is renewed "+what, func() error {
		for name, holds := range held {
			for _, h := range holds {
				if !h.Valid() {
					t.Fatalf("%s: the lock %s was lost", name, h.Name())
				}
				if h.Until().Before(since.Add(5 * time.Second)) { // renewed a second after it at most
					return fmt.Errorf("%s: the lock %s is trusted until %v", name, h.Name(), h.Until())
				}
			}
		}
		return nil
	})
}
