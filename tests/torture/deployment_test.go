package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// deployment is the servers of a round.
type deployment struct {
	topology string // as the clients know it
	servers  []*redistest.Server
	entry    []*redistest.Server // what clients are told; the servers if nil
	sentinel *redistest.SentinelSet
	cluster  *redistest.ClusterSet
	clock    *redistest.Clock
	args     []string
	master   *redistest.Server // of a single one and its replicas
	failed   bool              // a failover may have forgotten that a waiter had left
}

// deploy starts servers: single, clocked, replicas, sentinel, cluster, or several independent ones,
// which write everything to their disks at once: one that comes back has forgotten nothing.
func deploy(t *testing.T, kind string, args []string) *deployment {
	t.Helper()
	d := &deployment{topology: kind, args: args}
	switch kind {
	case "single":
		d.servers = []*redistest.Server{redistest.Single(t, args...)}
	case "clocked":
		d.topology = "single"
		s, clock := redistest.Clocked(t, args...)
		d.servers, d.clock = []*redistest.Server{s}, clock
	case "replicas":
		d.topology = "single"
		master := redistest.Single(t, args...)
		d.servers = []*redistest.Server{master, redistest.Replica(t, master, args...), redistest.Replica(t, master, args...)}
		d.entry = d.servers[:1]
	case "several":
		args = append(slices.Clone(args), "--appendonly", "yes", "--appendfsync", "always")
		for range 3 {
			d.servers = append(d.servers, redistest.Single(t, args...))
		}
	case "sentinel":
		d.sentinel = redistest.Sentinel(t, 1, args...)
		d.servers, d.entry = d.sentinel.Servers, d.sentinel.Sentinels
	case "cluster":
		d.cluster = redistest.Cluster(t, 1, args...)
		d.servers = d.cluster.Nodes()
	default:
		t.Fatalf("there is no deployment %q", kind)
	}
	d.master = d.servers[0]
	return d
}

// calmDown keeps servers that are only slow from being taken for dead: a busy machine is no fault.
func (d *deployment) calmDown(t *testing.T) {
	t.Helper()
	if d.sentinel != nil {
		d.patience(t, 30*time.Second)
	}
	if d.cluster != nil {
		for _, s := range d.servers {
			s.Must(t, "CONFIG", "SET", "cluster-node-timeout", "30000")
		}
	}
}

// patience sets after what silence sentinels take a master for dead.
func (d *deployment) patience(t *testing.T, silence time.Duration) {
	t.Helper()
	for _, s := range d.sentinel.Sentinels {
		s.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", fmt.Sprint(silence.Milliseconds()))
	}
}

// addrs are the addresses that clients are told.
func (d *deployment) addrs() (addrs []string) {
	servers := d.entry
	if servers == nil {
		servers = d.servers
	}
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// all are the addresses that clients may connect to.
func (d *deployment) all() (addrs []string) {
	for _, s := range append(slices.Clone(d.servers), d.entry...) {
		addrs = append(addrs, s.Addr())
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// masters are the servers that take writes now.
func (d *deployment) masters(t *testing.T) (masters []*redistest.Server) {
	t.Helper()
	switch {
	case d.sentinel != nil:
		return []*redistest.Server{d.sentinel.Master(t)}
	case d.cluster != nil:
		for _, s := range d.servers {
			if role, err := s.Info("replication", "role"); err == nil && role == "master" {
				masters = append(masters, s)
			}
		}
		return masters
	case d.topology == "several":
		return d.servers
	}
	return []*redistest.Server{d.master}
}

// serving returns the master of a key.
func (d *deployment) serving(t *testing.T, key string) *redistest.Server {
	t.Helper()
	if d.cluster != nil {
		return d.cluster.Owner(t, key)
	}
	return d.masters(t)[0]
}

// visitors counts the connections that are neither of replicas, sentinels, other nodes that move slots, nor of the test itself.
func visitors(list string) (n int) {
	for line := range strings.Lines(list) {
		if !strings.Contains(line, "flags=S") && !strings.Contains(line, "flags=M") && !strings.Contains(line, "flags=O") &&
			!strings.Contains(line, "cmd=client|list") && !strings.Contains(line, "cmd=replconf") && !strings.Contains(line, "cmd=restore") && !strings.Contains(line, "name=sentinel-") &&
			strings.Contains(line, "id=") {
			n++
		}
	}
	return n
}

// soon waits until f returns nil, for limit at most.
func soon(limit time.Duration, f func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err := f(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// visited returns an error if a server has connections of clients.
func (d *deployment) visited(t *testing.T) error {
	t.Helper()
	for _, s := range d.servers {
		list, err := s.Do("CLIENT", "LIST")
		if err != nil {
			return err
		}
		if n := visitors(fmt.Sprint(list)); n > 0 {
			return fmt.Errorf("%s has %d connections: %.600v", s.Addr(), n, list)
		}
	}
	return nil
}

// left returns an error if a server has keys, but counters of tokens, and what is kept for
// a known time: what operations were, what became of a party, and signs of life around fair locks.
func (d *deployment) left(t *testing.T) error {
	t.Helper()
	for _, s := range d.masters(t) {
		keys, err := s.Do("KEYS", "*")
		if err != nil {
			return err
		}
		for _, k := range keys.([]any) {
			key := fmt.Sprint(k)
			if strings.HasPrefix(key, "redisson_lock_token:") {
				continue
			}
			ttl := s.Int(t, "PTTL", key)
			if ttl == -2 || ttl > 0 && (remembers(key) || d.failed && strings.HasPrefix(key, "mortise:fair_waiters:")) {
				continue
			}
			return fmt.Errorf("%s has the key %q left, with a TTL of %d ms", s.Addr(), key, ttl)
		}
	}
	return nil
}

// remembers reports whether a key is one that is kept for a known time, whatever happens.
func remembers(key string) bool {
	return slices.ContainsFunc([]string{"mortise:op:", "mortise:fair:", "mortise:barrier:"}, func(p string) bool { return strings.HasPrefix(key, p) })
}
