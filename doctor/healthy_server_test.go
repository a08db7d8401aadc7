//go:build server

package doctor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// durable are the options of a server that keeps what it is told.
var durable = []string{"--appendonly", "yes"}

// accepted are findings of tests that depend on the program that they run, or on the machine.
var accepted = []string{"server-version", "script-latency", "messages", "sharded-messages"}

// report examines through d.
func report(t *testing.T, d driver.Driver, o *doctor.Options) *doctor.Report {
	t.Helper()
	if o == nil {
		o = &doctor.Options{}
	}
	o.Accept = append(o.Accept, accepted...)
	if !redistest.Current(t).AtLeast(7, 0) {
		o.Accept = append(o.Accept, "rights") // it does not tell
	}
	r, err := doctor.Examine(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	wantKnown(t, r)
	return r
}

// single returns a driver of a server.
func single(t *testing.T, s *redistest.Server) driver.Driver {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: s.Password(), DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	return d
}

// clustered returns a driver of a cluster.
func clustered(t *testing.T, c *redistest.ClusterSet) driver.Driver {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	return d
}

// watched returns a driver of what sentinels watch.
func watched(t *testing.T, set *redistest.SentinelSet) driver.Driver {
	t.Helper()
	rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: set.Addrs(), Sentinel: rueidisclient.SentinelOption{MasterSet: redistest.SentinelName}, DisableCache: true,
		RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := rueidis.Own(rdb)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// awaitReplica waits until a master has heard of its replica that it is in sync.
func awaitReplica(t *testing.T, master *redistest.Server) {
	t.Helper()
	redistest.Eventually(t, "the replica is in touch", func() error {
		if state, err := master.Info("replication", "slave0"); err != nil || !strings.Contains(state, "state=online") {
			return errors.Join(fmt.Errorf("slave0 is %q", state), err)
		}
		return nil
	})
}

// wantHealthy wants no finding that is worse than worth knowing.
func wantHealthy(t *testing.T, r *doctor.Report) {
	t.Helper()
	if r.Worst != doctor.OK && r.Worst != doctor.Info {
		t.Errorf("the worst is %q, want ok or info", r.Worst)
	}
	for _, f := range r.Findings {
		if !f.Accepted && f.Severity != doctor.OK && f.Severity != doctor.Info {
			t.Errorf("%s is %s: %s", f.ID, f.Severity, f.Found)
		}
		if f.Found == "" || f.Severity != doctor.OK && f.Severity != doctor.Info && f.Do == "" {
			t.Errorf("%s does not say what was found, or what to do: %+v", f.ID, f)
		}
	}
}

func TestRealHealthySingleServer(t *testing.T) {
	t.Parallel()
	wantHealthy(t, report(t, single(t, redistest.Single(t, durable...)), nil))
}

// clusteredByRueidis is clustered with the other client.
func clusteredByRueidis(t *testing.T, c *redistest.ClusterSet) driver.Driver {
	t.Helper()
	rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: c.Addrs(), DisableCache: true, RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := rueidis.Own(rdb)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestRealHealthyCluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 1, durable...)
	for _, m := range c.Masters {
		awaitReplica(t, m)
	}
	for name, d := range map[string]driver.Driver{"goredis": clustered(t, c), "rueidis": clusteredByRueidis(t, c)} {
		t.Run(name, func(t *testing.T) { wantHealthyCluster(t, c, d) })
	}
}

func wantHealthyCluster(t *testing.T, c *redistest.ClusterSet, d driver.Driver) {
	for _, m := range c.Masters {
		m.Must(t, "SCRIPT", "FLUSH") // each of them is told again
		m.Must(t, "CONFIG", "RESETSTAT")
	}
	r := report(t, d, nil)
	wantHealthy(t, r)
	for _, m := range c.Masters {
		if stats := m.Str(t, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_evalsha") {
			t.Errorf("no script has run on %s", m.Addr())
		}
	}
	for _, id := range []string{"cluster-state", "clock-between-servers"} {
		if len(r.Find(id)) != 1 {
			t.Errorf("%d findings %s, want 1", len(r.Find(id)), id)
		}
	}
	for _, prefix := range []string{"app:", "{app}:"} {
		r = report(t, d, &doctor.Options{Prefix: prefix, Kinds: []doctor.Kind{doctor.KindFair}})
		wantHealthy(t, r)
	}
	if sharded := len(r.Find("sharded-messages")) == 1; sharded != redistest.Sharded(t) {
		t.Errorf("sharded messages were examined: %v, want %v", sharded, !sharded)
	}
}

func TestRealHealthySentinelSet(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, 1)
	for _, s := range set.Servers {
		s.Must(t, "CONFIG", "SET", "appendonly", "yes")
	}
	awaitReplica(t, set.Master(t))
	wantHealthy(t, report(t, watched(t, set), nil))
}
