//go:build interop

package interop

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredislib "github.com/redis/go-redis/v9"
	rueidislib "github.com/redis/rueidis"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

var (
	// shortLease is the lease that both sides' watchdogs renew, so that "past
	// the lease" is seconds away and not half a minute.
	shortLease = 3 * time.Second
	// longLease is the lease of locks that are released in time: a waiter
	// that was not woken would come this late.
	longLease = 30 * time.Second
)

// prompt is far below longLease, and far above what a busy machine needs.
const prompt = 3 * time.Second

// transport is a way of a mortise client to Redis. It returns a driver for the
// server, or for the cluster of which addr is a node, and what closes the
// client library's client below the driver.
type transport func(addr string, cluster bool) (driver.Driver, func(), error)

var transports = map[string]transport{
	"goredis": func(addr string, cluster bool) (driver.Driver, func(), error) {
		if cluster {
			rdb := goredislib.NewClusterClient(&goredislib.ClusterOptions{Addrs: []string{addr}})
			return goredis.Wrap(rdb), func() { _ = rdb.Close() }, nil
		}
		rdb := goredislib.NewClient(&goredislib.Options{Addr: addr})
		return goredis.Wrap(rdb), func() { _ = rdb.Close() }, nil
	},
	"rueidis": func(addr string, cluster bool) (driver.Driver, func(), error) {
		client, err := rueidislib.NewClient(rueidislib.ClientOption{
			InitAddress:       []string{addr},
			ForceSingleClient: !cluster,
		})
		if err != nil {
			return nil, nil, err
		}
		return rueidis.Wrap(client), client.Close, nil
	},
}

var walk = flag.Bool("walk", false, "take the releases in redisson/walk: each has a script that the one before it does not have")

// redissons returns the releases to test against, newest first.
func redissons(t testing.TB) []string {
	t.Helper()
	file := "redisson/versions"
	if *walk {
		file = "redisson/walk"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(text))
	if *core {
		return all[:1]
	}
	return all
}

// atLeast reports whether a release of Redisson is the given one or a later
// one. Every release is at least "".
func atLeast(t testing.TB, version, since string) bool {
	t.Helper()
	if since == "" {
		return true
	}
	return slices.Compare(numbers(t, version), numbers(t, since)) >= 0
}

func numbers(t testing.TB, version string) []int {
	t.Helper()
	var all []int
	for _, word := range strings.Split(version, ".") {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("%q is not a release: %v", version, err)
		}
		all = append(all, n)
	}
	return all
}

// world is one Redis with both sides on it: a Java agent with a release of
// Redisson, and Go clients over one transport.
type world struct {
	version   string
	transport string
	nodes     []*redistest.Server // one, or the masters of cluster
	servers   []*redistest.Server // each on its own, for locks over several; the first is also the node
	cluster   *redistest.ClusterSet
	sharded   string         // the agent's sharded mode, cluster only
	pubsub    mortise.PubSub // the Go clients' mode, cluster only
	java      *agent
	kind      lockKind       // of the locks that are on trial
	prefix    string         // of both sides' names, see newPrefixWorld
	bounds    *canary.Bounds // on the real time of the trial that runs
}

// newWorld returns a world with one server. It is empty but not new: a test
// that changes the server itself takes newServers.
func newWorld(t testing.TB, version, transport string) *world {
	t.Helper()
	h := spare.borrow(t, version, func(t testing.TB, h *host) {
		h.nodes = []*redistest.Server{redistest.Single(t)}
		h.java = startAgent(t, version, agentOptions{Address: h.nodes[0].Addr(), Watchdog: shortLease})
	})
	return &world{version: version, transport: transport, kind: lockKinds["Lock"], nodes: h.nodes, java: h.java}
}

// newServers returns a world with n servers that know nothing of each other.
// The agent's "redlock" and "servers" locks are on all of them.
func newServers(t testing.TB, version, transport string, n int) *world {
	t.Helper()
	w := &world{version: version, transport: transport, kind: lockKinds["Lock"]}
	for range n {
		w.servers = append(w.servers, redistest.Single(t))
	}
	w.nodes = w.servers[:1]
	w.java = w.startAgent(t)
	return w
}

// newClusterWorld returns a world with a cluster of three masters, in which
// both sides announce releases as they do if nobody says otherwise.
func newClusterWorld(t testing.TB, version, transport string) *world {
	t.Helper()
	h := spare.borrow(t, version+", cluster", func(t testing.TB, h *host) {
		h.cluster = redistest.Cluster(t, 0)
		h.nodes = h.cluster.Masters
		h.java = startAgent(t, version, agentOptions{Address: h.nodes[0].Addr(), Watchdog: shortLease, Cluster: true})
	})
	return &world{
		version: version, transport: transport, kind: lockKinds["Lock"],
		nodes: h.nodes, cluster: h.cluster, java: h.java,
	}
}

func (w *world) String() string { return w.version + "/" + w.transport }

// redis returns the server of a world without a cluster.
func (w *world) redis() *redistest.Server { return w.nodes[0] }

// serverOf returns the server that has key.
func (w *world) serverOf(t testing.TB, key string) *redistest.Server {
	t.Helper()
	if w.cluster != nil {
		return w.cluster.Owner(t, key)
	}
	return w.nodes[0]
}

// startAgent starts a further Java process, for a test that kills it.
func (w *world) startAgent(t testing.TB) *agent {
	t.Helper()
	options := agentOptions{Address: w.nodes[0].Addr(), Watchdog: shortLease, Cluster: w.cluster != nil, Sharded: w.sharded}
	for _, server := range w.servers {
		options.Redlock = append(options.Redlock, server.Addr())
	}
	return startAgent(t, w.version, options)
}

// thread returns the Java thread of that name, to work with the kind of lock
// that is on trial.
func (w *world) thread(name string) *thread { return w.java.thread(name).of(w.kind.java) }

// lock returns the Go side's lock of the kind that is on trial.
func (w *world) lock(c *mortise.Client, name string, options ...mortise.LockOptions) taker {
	return w.kind.open(c, name, append(options, mortise.LockOptions{})[0])
}

// client returns a mortise client of its own, as another process would have,
// whose watchdog renews the given lease.
func (w *world) client(t testing.TB, lease time.Duration) *mortise.Client {
	t.Helper()
	return w.clientAt(t, w.nodes[0], lease)
}

// clientAt is client for the given one of the world's servers.
func (w *world) clientAt(t testing.TB, server *redistest.Server, lease time.Duration) *mortise.Client {
	t.Helper()
	return w.clientAs(t, server, lease, mortise.Identity{})
}

// clientAs is clientAt for a client that tells something else of its process, or nothing.
func (w *world) clientAs(t testing.TB, server *redistest.Server, lease time.Duration, as mortise.Identity) *mortise.Client {
	t.Helper()
	client, closeAll, err := openClient(w.transport, server.Addr(), w.cluster != nil, mortise.Options{TTL: lease, PubSub: w.pubsub, Prefix: w.prefix, Identity: as})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return client
}

// openClient returns a client and what closes it and all below it.
func openClient(name, addr string, cluster bool, options mortise.Options) (*mortise.Client, func() error, error) {
	open, ok := transports[name]
	if !ok {
		return nil, nil, fmt.Errorf("no transport %q", name)
	}
	d, closeBelow, err := open(addr, cluster)
	if err != nil {
		return nil, nil, err
	}
	client := mortise.New(d, &options)
	return client, func() error {
		defer closeBelow()
		return client.Close()
	}, nil
}

// count returns the hold count that Redis has for owner, 0 if none.
func (w *world) count(t testing.TB, name, owner string) int64 {
	t.Helper()
	return w.redis().Int(t, "HGET", name, owner)
}

// awaitWaiters waits until at least n clients listen for the lock's release. A
// client that listens tries once more, so it cannot miss a release after that.
func (w *world) awaitWaiters(t testing.TB, name string, n int64) {
	t.Helper()
	questions := []string{"NUMSUB"}
	if w.cluster != nil {
		questions = append(questions, "SHARDNUMSUB")
	}
	redistest.Eventually(t, fmt.Sprintf("%d clients that wait for %s", n, name), func() error {
		var got int64
		for _, node := range w.nodes {
			for _, question := range questions {
				for _, channel := range w.kind.channels(t, w, w.prefix+name) {
					reply, err := node.Do("PUBSUB", question, channel)
					if err != nil {
						return err
					}
					got += reply.([]any)[1].(int64)
				}
			}
		}
		if got < n {
			return fmt.Errorf("%d listen, want %d", got, n)
		}
		return nil
	})
}

// scripts returns how many scripts were run, or asked for without being known.
func (w *world) scripts(t testing.TB) int {
	t.Helper()
	calls := 0
	for _, node := range w.nodes {
		stats, err := node.Do("INFO", "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range scriptCalls.FindAllStringSubmatch(stats.(string), -1) {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			calls += n
		}
	}
	return calls
}

var scriptCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// channelOf returns the channel on which releases of the lock are announced.
// It is written out here rather than taken from mortise, which is on trial.
func channelOf(name string) string { return "redisson_lock__channel:" + braced(name) }

// expiry returns a moment before which the lock's key cannot expire, unless
// somebody deletes it, and after which, by less than a round trip, it will
// have, unless somebody renews it.
func (w *world) expiry(t testing.TB, name string) time.Time {
	t.Helper()
	asked := time.Now()
	ttl := w.redis().Int(t, "PTTL", name)
	if ttl <= 0 {
		t.Fatalf("PTTL %s = %d, want a lease that still runs", name, ttl)
	}
	// Redis rounds to milliseconds and takes its time from the start of its
	// event loop's turn.
	return asked.Add(time.Duration(ttl-10) * time.Millisecond)
}

// wantAtExpiry checks that a lock whose holder died was got when its lease
// ended: never before, and soon after.
func (w *world) wantAtExpiry(t testing.TB, side string, got, expiry time.Time) {
	t.Helper()
	if got.Before(expiry) {
		t.Errorf("%s got the lock %v before the lease of the dead holder ended", side, expiry.Sub(got))
	}
	w.bounds.Within(side+" gets the lock after the end of the lease", got.Sub(expiry), prompt)
}
