package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// SentinelName is the name under which the sentinels know the master.
const SentinelName = "mymaster"

// SentinelSet is a master with replicas, watched by three sentinels that consider a master dead
// after one second.
type SentinelSet struct {
	Servers   []*Server // the first one was master at the beginning
	Sentinels []*Server
}

// Sentinel starts a master, replicas and three sentinels, and returns when all
// know each other. Args are options of the master and the replicas.
func Sentinel(t testing.TB, replicas int, args ...string) *SentinelSet {
	t.Helper()
	servers := []*Server{Single(t, args...)}
	for range replicas {
		servers = append(servers, Replica(t, servers[0], args...))
	}
	return Watch(t, servers...)
}

// Watch starts three sentinels for a master, which comes first, and its
// replicas, and returns when all know each other.
func Watch(t testing.TB, servers ...*Server) *SentinelSet {
	t.Helper()
	set := &SentinelSet{Servers: servers}
	master, replicas := servers[0], len(servers)-1
	await(t, "replicas online", func() error {
		return master.wantInfo("replication", "connected_slaves", fmt.Sprint(replicas))
	})
	// A sentinel asks the master for its replicas only every ten seconds, so it starts after the
	// master knows them.
	for range 3 {
		set.Sentinels = append(set.Sentinels, startSentinel(t, master))
	}
	for _, s := range set.Sentinels {
		await(t, "sentinels in touch", func() error { return s.knows(2, replicas) })
	}
	return set
}

func startSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	config := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\n"+
		"sentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", SentinelName, master.port)
	if master.password != "" {
		config += fmt.Sprintf("sentinel auth-pass %s %s\n", SentinelName, master.password)
	}
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// The file must come first on the command line.
	s := &Server{port: FreePort(t), dir: filepath.Dir(file)}
	s.args = []string{file, "--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--sentinel"}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.stopWith(t)
	return s
}

// knows reports an error until a sentinel has found its peers and replicas.
func (s *Server) knows(sentinels, replicas int) error {
	v, err := s.Do("SENTINEL", "MASTER", SentinelName)
	if err != nil {
		return err
	}
	fields, _ := v.([]any)
	want := map[string]string{
		"num-other-sentinels": fmt.Sprint(sentinels), "num-slaves": fmt.Sprint(replicas), "flags": "master",
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if w, ok := want[fmt.Sprint(fields[i])]; ok && w != fields[i+1] {
			return fmt.Errorf("sentinel %s: %v is %v, want %s", s.Addr(), fields[i], fields[i+1], w)
		}
	}
	return nil
}

// Addrs returns the addresses of the sentinels.
func (set *SentinelSet) Addrs() []string {
	addrs := make([]string, len(set.Sentinels))
	for i, s := range set.Sentinels {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Master returns the server that most of the sentinels name as the master: one of them may learn of a new one much later.
func (set *SentinelSet) Master(t testing.TB) *Server {
	t.Helper()
	named := make(map[string]int)
	for _, s := range set.Sentinels {
		v, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName)
		if addr, _ := v.([]any); err == nil && len(addr) == 2 { // else it is dead, perhaps
			named[fmt.Sprint("127.0.0.1:", addr[1])]++
		}
	}
	var most *Server
	for _, s := range set.Servers {
		if named[s.Addr()] > 0 && (most == nil || named[s.Addr()] > named[most.Addr()]) {
			most = s
		}
	}
	if most == nil {
		t.Fatalf("the sentinels name %v, none of which is known", named)
	}
	return most
}

// Failover kills the master and returns the new one, when there is one.
func (set *SentinelSet) Failover(t testing.TB) *Server {
	t.Helper()
	old := set.Master(t)
	old.Kill()
	var promoted *Server
	await(t, "new master", func() error {
		promoted = set.Master(t)
		if promoted == old {
			return fmt.Errorf("the master is still %s", old.Addr())
		}
		return promoted.wantInfo("replication", "role", "master")
	})
	return promoted
}
