package goals

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

var errNotYet = errors.New("not yet")

// promotion is servers with replicas, whose master is killed again and again.
type promotion struct {
	dial []func() driver.Driver // one for each client
	kill func()                 // kills a master, and returns when another one is
	mend func()                 // and this when all are there again, and have all that it has
}

// promotions are the ways to a new master.
var promotions = map[string]struct {
	goal int
	open func(t *testing.T) *promotion
}{
	"by hand":   {100, func(t *testing.T) *promotion { return promoteByHand(t, 30*time.Millisecond) }},
	"sentinels": {20, promoteBySentinels},
	"cluster":   {20, promoteInCluster},
}

// The master is killed under load, again and again, and any of its replicas takes over. With the
// acknowledgements of all replicas, no lock is held twice.
func TestPromotionsKeepDurableLocks(t *testing.T) {
	for way, p := range promotions {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			kills := times(1, p.goal)
			f, held := failOvers(t, p.open(t), mortise.AcksAll, func(n int, _ *fleet) bool { return n == kills })
			f.anchor(t)
			t.Logf("%d masters were killed under %d locks, %d were acquired", kills, held, f.grants)
			if held < kills || f.grants < 20*kills {
				t.Errorf("%d masters were killed under %d locks, of %d acquisitions: too few to tell anything", kills, held, f.grants)
			}
		})
	}
}

// The same without acknowledgements, where a replica that lags takes over: this is found.
func TestPromotionsForgetOtherLocks(t *testing.T) {
	t.Parallel()
	f, _ := failOvers(t, promoteByHand(t, 300*time.Millisecond), 0, func(n int, f *fleet) bool { return n == 20 || f.twice() > 0 })
	f.stop.Store(true)
	f.sailed.Wait()
	t.Logf("%d of %d locks were held twice", len(f.double), f.grants)
	if len(f.double) == 0 {
		t.Error("no lock was held twice: TestPromotionsKeepDurableLocks would see nothing")
	}
}

// failOvers kills masters under a fleet until that is enough, and returns the fleet with the number of
// locks that were held at these moments.
func failOvers(t *testing.T, p *promotion, acks mortise.Acks, enough func(kills int, f *fleet) bool) (f *fleet, held int) {
	f = newFleet(t, 500*time.Millisecond, 2*time.Second)
	const each = 3 // of a kind: fewer than want them
	for _, dial := range p.dial {
		c := mortise.New(dial(), &mortise.Options{TTL: 6 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		var locks []taker
		var names []string
		for kind, k := range locktest.Kinds {
			for i := range each {
				names = append(names, fmt.Sprint(kind, " ", i))
				locks = append(locks, k.Open(c, names[len(names)-1], mortise.LockOptions{Durability: mortise.Durability{Acks: acks}}))
			}
		}
		f.sail(t, 8, locks, names)
	}
	for kills := 0; !enough(kills, f); kills++ {
		f.goOn(t, 20)
		held += f.held()
		f.note("", "kill", nil, "")
		p.kill()
		f.note("", "promoted", nil, "")
		f.goOn(t, 1)
		p.mend()
		f.note("", "mended", nil, "")
	}
	f.goOn(t, 10)
	return f, held
}

// promoteByHand has a master and two replicas, one of which lags.
func promoteByHand(t *testing.T, lag time.Duration) *promotion {
	master := redistest.Single(t)
	servers := []*redistest.Server{master, redistest.Replica(t, master), redistest.Replica(t, master)}
	slow := redistest.NewProxy(t, master.Addr())
	slow.Delay(lag)
	var links []*redistest.Proxy
	p := &promotion{}
	for name := range dialers {
		links = append(links, redistest.NewProxy(t, master.Addr()), redistest.NewProxy(t, master.Addr()))
		for _, l := range links[len(links)-2:] {
			p.dial = append(p.dial, func() driver.Driver { return dialers[name](t, l.Addr()) })
		}
	}
	r := rand.New(rand.NewPCG(1, 8))
	old := master
	follow := func(s *redistest.Server, addr string) {
		_, port, err := net.SplitHostPort(addr)
		must(t, err)
		s.Must(t, "REPLICAOF", "127.0.0.1", port)
	}
	lagging := servers[2]
	follow(lagging, slow.Addr())
	master.AwaitReplicas(t, 2)
	p.kill = func() {
		old = master
		others := slices.DeleteFunc(slices.Clone(servers), func(s *redistest.Server) bool { return s == old })
		master = others[r.IntN(len(others))]
		old.Kill()
		slow.CutAll() // what is under way is lost with the master
		master.Must(t, "REPLICAOF", "NO", "ONE")
		for _, l := range links {
			l.Retarget(master.Addr())
		}
	}
	p.mend = func() {
		slow.Retarget(master.Addr())
		old.Start(t)
		others := slices.DeleteFunc(slices.Clone(servers), func(s *redistest.Server) bool { return s == master })
		follow(others[0], master.Addr())
		follow(others[1], slow.Addr())
		master.AwaitReplicas(t, 2)
	}
	return p
}

func promoteBySentinels(t *testing.T) *promotion {
	set := redistest.Sentinel(t, 2)
	var old *redistest.Server
	p := &promotion{}
	for range 2 {
		p.dial = append(p.dial, func() driver.Driver {
			rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: set.Addrs(), DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			return goredis.Wrap(rdb)
		}, func() driver.Driver {
			rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
				InitAddress: set.Addrs(), ConnWriteTimeout: 3 * time.Second, DisableCache: true,
				RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
				Sentinel: rueidisclient.SentinelOption{MasterSet: redistest.SentinelName},
			})
			must(t, err)
			t.Cleanup(rdb.Close)
			return rueidis.Wrap(rdb)
		})
	}
	// A master that is only slow must not be taken for dead: it would go on.
	patience := func(ms int) {
		for _, s := range set.Sentinels {
			s.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", fmt.Sprint(ms))
		}
	}
	patience(30_000)
	p.kill = func() {
		old = set.Master(t)
		patience(1000)
		set.Failover(t)
		patience(30_000)
	}
	p.mend = func() {
		master := set.Master(t)
		old.StartAsReplica(t, master)
		master.AwaitReplicas(t, 2)
	}
	return p
}

func promoteInCluster(t *testing.T) *promotion {
	set := redistest.Cluster(t, 1)
	p := &promotion{}
	for name := range dialers {
		for range 2 {
			p.dial = append(p.dial, func() driver.Driver { return dialers[name](t, set.Addrs()...) })
		}
	}
	masters := func() []*redistest.Server {
		return slices.DeleteFunc(set.Nodes(), func(s *redistest.Server) bool {
			role, _ := s.Info("replication", "role")
			return role != "master"
		})
	}
	patience := func(ms int) { // as above
		for _, s := range set.Nodes() {
			s.Must(t, "CONFIG", "SET", "cluster-node-timeout", fmt.Sprint(ms))
		}
	}
	patience(30_000)
	var old *redistest.Server
	r := rand.New(rand.NewPCG(2, 8))
	p.kill = func() {
		all := masters()
		old = all[r.IntN(len(all))]
		patience(1000)
		old.Kill()
		redistest.Eventually(t, "a replica serves", func() error {
			if now := masters(); len(now) < len(all) {
				return fmt.Errorf("%d masters", len(now))
			}
			return nil
		})
	}
	p.mend = func() {
		old.Start(t)
		set.AwaitOK(t)
		redistest.Eventually(t, "the old master is a replica", func() error {
			if link, err := old.Info("replication", "master_link_status"); link != "up" {
				return fmt.Errorf("link %q, %w", link, cmp.Or(err, errNotYet))
			}
			return nil
		})
		for _, m := range masters() {
			m.AwaitReplicas(t, 1)
		}
		patience(30_000)
	}
	return p
}
