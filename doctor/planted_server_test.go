//go:build server

package doctor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// wantFinding wants one finding with that id, that severity, and a text that has some words.
func wantFinding(t *testing.T, r *doctor.Report, id string, severity doctor.Severity, words ...string) doctor.Finding {
	t.Helper()
	found := r.Find(id)
	if len(found) != 1 {
		t.Fatalf("%d findings %s, want 1: %+v", len(found), id, found)
	}
	f := found[0]
	if f.Severity != severity {
		t.Errorf("%s is %s, want %s: %s", id, f.Severity, severity, f.Found)
	}
	text := f.Server + " " + f.Found + " " + f.Do + " " + f.Command
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s says %q, without %q", id, text, word)
		}
	}
	if severity != doctor.OK && severity != doctor.Info && f.Do == "" {
		t.Errorf("%s does not say what to do", id)
	}
	return f
}

// plant is something that is wrong with a server, and how it is found.
type plant struct {
	id       string
	severity doctor.Severity
	plant    [][]string
	words    []string
}

// settings are what can be wrong with the settings of any server.
var settings = []plant{
	{"eviction", doctor.Critical, [][]string{{"CONFIG", "SET", "maxmemory", "1gb"}, {"CONFIG", "SET", "maxmemory-policy", "volatile-lru"}}, []string{"volatile-lru", "1.0 GiB", "config set maxmemory-policy noeviction"}},
	{"eviction", doctor.Info, [][]string{{"CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"}}, []string{"allkeys-lfu"}},
	{"memory", doctor.OK, [][]string{{"CONFIG", "SET", "maxmemory", "1gb"}}, []string{"of 1.0 GiB"}},
	{"persistence", doctor.Warning, [][]string{{"CONFIG", "SET", "appendonly", "no"}}, []string{"nothing is kept on disk", "config set appendonly yes"}},
	{"persistence", doctor.Warning, [][]string{{"CONFIG", "SET", "appendonly", "no"}, {"CONFIG", "SET", "save", "3600 1"}}, []string{"only snapshots", `save "3600 1"`}},
	{"persistence", doctor.Warning, [][]string{{"CONFIG", "SET", "appendfsync", "no"}}, []string{"appendfsync everysec"}},
	{"persistence", doctor.OK, [][]string{{"CONFIG", "SET", "appendfsync", "always"}}, []string{"always"}},
	{"pubsub-buffer", doctor.Warning, [][]string{{"CONFIG", "SET", "client-output-buffer-limit", "pubsub 65536 0 0"}}, []string{"64 KiB", "'pubsub 32mb 8mb 60'"}},
	{"pubsub-buffer", doctor.OK, [][]string{{"CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"}}, []string{"any number"}},
	{"tcp-keepalive", doctor.Warning, [][]string{{"CONFIG", "SET", "tcp-keepalive", "0"}}, []string{"tcp-keepalive 300"}},
	{"idle-timeout", doctor.Warning, [][]string{{"CONFIG", "SET", "timeout", "20"}}, []string{"20 s", "config set timeout 0"}},
	{"idle-timeout", doctor.Info, [][]string{{"CONFIG", "SET", "timeout", "600"}}, []string{"600 s"}},
	{"keyspace-events", doctor.Info, [][]string{{"CONFIG", "SET", "notify-keyspace-events", "KEA"}}, []string{"notify-keyspace-events ''"}},
}

// eachPlant plants each of the settings on servers, wants it found, and heals them again.
func eachPlant(t *testing.T, d driver.Driver, servers []*redistest.Server) {
	names := []string{"maxmemory", "maxmemory-policy", "appendonly", "save", "appendfsync", "client-output-buffer-limit", "tcp-keepalive", "timeout", "notify-keyspace-events"}
	before := make(map[string]string)
	for _, name := range names {
		before[name] = servers[0].Must(t, "CONFIG", "GET", name).([]any)[1].(string)
	}
	for _, p := range settings {
		t.Run(p.id+"/"+strings.Join(p.plant[len(p.plant)-1][2:], " "), func(t *testing.T) {
			for _, s := range servers {
				for _, command := range p.plant {
					s.Must(t, command...)
				}
			}
			wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), p.id, p.severity, p.words...)
			for _, s := range servers {
				for _, name := range names {
					s.Must(t, "CONFIG", "SET", name, before[name])
				}
			}
		})
	}
}

func TestRealSettingsOfASingleServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	eachPlant(t, single(t, s), []*redistest.Server{s})
}

func TestRealSettingsOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 0, durable...)
	d := clustered(t, c)
	eachPlant(t, d, c.Masters)
	t.Run("of one of the servers", func(t *testing.T) {
		c.Masters[1].Must(t, "CONFIG", "SET", "tcp-keepalive", "0")
		r := report(t, d, &doctor.Options{Keys: 1})
		bad := 0
		for _, f := range r.Find("tcp-keepalive") {
			if f.Severity == doctor.Warning {
				bad++
				if f.Server != c.Masters[1].Addr() || !strings.Contains(f.Command, fmt.Sprint("-h 127.0.0.1 -p ", c.Masters[1].Port())) {
					t.Errorf("it is found on %q, with the command %q, want %s", f.Server, f.Command, c.Masters[1].Addr())
				}
			}
		}
		if bad != 1 || len(r.Find("tcp-keepalive")) != 2 {
			t.Errorf("findings %+v, want that of one server, and that the others are in order", r.Find("tcp-keepalive"))
		}
	})
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "replicas", doctor.Warning, "no replica")
}

func TestRealSettingsOfASentinelSet(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, 1)
	for _, s := range set.Servers {
		s.Must(t, "CONFIG", "SET", "appendonly", "yes")
	}
	awaitReplica(t, set.Master(t))
	d := watched(t, set)
	eachPlant(t, d, []*redistest.Server{set.Master(t)})
	t.Run("min-replicas", func(t *testing.T) {
		m := set.Master(t)
		m.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
		wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "min-replicas", doctor.OK, "of 1 replica")
		m.Must(t, "CONFIG", "SET", "min-replicas-to-write", "3")
		wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "min-replicas", doctor.Critical, "nothing can be locked", "config set min-replicas-to-write 1")
	})
}

// A full memory, and too many clients.
func TestRealLimits(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, append(durable, "--maxmemory-policy", "noeviction")...)
	d := single(t, s)
	s.Must(t, "CONFIG", "SET", "maxmemory", "1kb")
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "memory", doctor.Critical, "nothing can be locked")
	s.Must(t, "CONFIG", "SET", "maxmemory", "0")
	s.Must(t, "CONFIG", "SET", "maxclients", "20")
	for range 15 {
		c, err := redistest.Dial(s.Addr(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	f := wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "max-clients", doctor.Warning, "of 20", "config set maxclients 40")
	if !strings.Contains(f.Command, "client list") {
		t.Errorf("the commands are %q, without client list", f.Command)
	}
}

func TestRealReplicaInPlaceOfItsMaster(t *testing.T) {
	t.Parallel()
	m := redistest.Single(t, durable...)
	r := report(t, single(t, redistest.Replica(t, m)), nil)
	wantFinding(t, r, "role", doctor.Critical, "it is a replica of", fmt.Sprint(m.Port()), "sentinels")
	if r.Worst != doctor.Critical {
		t.Errorf("the worst is %s", r.Worst)
	}
}

func TestRealReplicaThatHangs(t *testing.T) {
	t.Parallel()
	m := redistest.Single(t, append(durable, "--repl-timeout", "60")...)
	replica := redistest.Replica(t, m)
	awaitReplica(t, m)
	d := single(t, m)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "replicas", doctor.OK, "1 replica")
	m.Must(t, "CONFIG", "SET", "repl-diskless-sync-delay", "30") // what follows is not in sync for that long
	replica.Must(t, "REPLICAOF", "NO", "ONE")
	replica.Must(t, "SET", "other", "history")
	replica.Must(t, "REPLICAOF", "127.0.0.1", fmt.Sprint(m.Port()))
	redistest.Eventually(t, "the replica is waiting", func() error {
		if state, err := m.Info("replication", "slave0"); err != nil || !strings.Contains(state, "state=wait_bgsave") {
			return errors.Join(fmt.Errorf("slave0 is %q", state), err)
		}
		return nil
	})
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "replicas", doctor.Warning, "wait_bgsave")
}

func TestRealClusterWithoutSomeSlots(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 0, append(durable, "--cluster-require-full-coverage", "no")...)
	d := clustered(t, c)
	for _, m := range c.Masters {
		m.Must(t, "CLUSTER", "DELSLOTS", "0")
	}
	r := report(t, d, &doctor.Options{Keys: 1})
	for _, f := range r.Find("cluster-state") {
		if f.Severity != doctor.Critical || !strings.Contains(f.Found, "1 slots belong to nobody") {
			t.Errorf("%s: %s", f.Severity, f.Found)
		}
	}
	if len(r.Find("cluster-state")) == 0 {
		t.Error("it is not found")
	}
}

// A server that is gone is a finding.
func TestRealRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	s.Kill()
	r := report(t, d, nil)
	if r.Err == nil || r.Worst != doctor.Critical {
		t.Errorf("err %v, worst %s, want an error, and critical", r.Err, r.Worst)
	}
	wantFinding(t, r, "connection", doctor.Critical, "does not answer", "refused")
	if len(r.Findings) != 1 {
		t.Errorf("%d findings, want one", len(r.Findings))
	}
}
