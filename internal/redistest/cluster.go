package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slotCount = 16384

// ClusterSet is a Redis Cluster of three masters.
type ClusterSet struct {
	Masters  []*Server // master i serves a third of the slots at the beginning
	Replicas []*Server // replica j replicates master j mod 3
}

// Cluster starts three masters, each with the given number of replicas, and
// returns when the cluster serves. Args are options of all nodes.
func Cluster(t testing.TB, replicas int, args ...string) *ClusterSet {
	t.Helper()
	return cluster(t, replicas, nil, args)
}

// cluster is [Cluster] with more variables in the environment of the first master.
func cluster(t testing.TB, replicas int, first, args []string) *ClusterSet {
	t.Helper()
	c := &ClusterSet{Masters: []*Server{clusterNode(t, first, args)}}
	for range 2 {
		c.Masters = append(c.Masters, clusterNode(t, nil, args))
	}
	for range 3 * replicas {
		c.Replicas = append(c.Replicas, clusterNode(t, nil, args))
	}
	for i, m := range c.Masters {
		m.Must(t, append([]string{"CLUSTER"}, addSlots(t, i*slotCount/3, (i+1)*slotCount/3-1)...)...)
		m.Must(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	nodes := c.Nodes()
	introduce(t, nodes)
	met := time.Now()
	for _, n := range nodes {
		await(t, "cluster nodes in touch", func() error {
			// A node forgets one that does not greet back within a second, as on a busy machine.
			if time.Since(met) > 3*time.Second {
				introduce(t, nodes)
				met = time.Now()
			}
			return n.wantClusterInfo("cluster_known_nodes", strconv.Itoa(len(nodes)))
		})
	}
	for j, r := range c.Replicas {
		id := c.Masters[j%3].nodeID(t)
		// The new replica may not know its master's role yet.
		await(t, "replica joined", func() error { _, err := r.Do("CLUSTER", "REPLICATE", id); return err })
	}
	for _, r := range c.Replicas {
		await(t, "replica in sync", func() error { return r.wantInfo("replication", "master_link_status", "up") })
	}
	c.AwaitOK(t)
	return c
}

// introduce makes the first of the nodes greet the others.
func introduce(t testing.TB, nodes []*Server) {
	t.Helper()
	for _, n := range nodes[1:] {
		nodes[0].Must(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(n.port), strconv.Itoa(n.busPort))
	}
}

func clusterNode(t testing.TB, env, args []string) *Server {
	t.Helper()
	return launch(t, env, func(_, busPort int) []string {
		own := append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
		}, debugCommand(t)...)
		if Current(t).AtLeast(7, 0) {
			own = append(own, "--cluster-port", strconv.Itoa(busPort))
		}
		return append(own, args...)
	})
}

// addSlots is the subcommand that gives a node the slots from first to last.
func addSlots(t testing.TB, first, last int) []string {
	t.Helper()
	if Current(t).AtLeast(7, 0) {
		return []string{"ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)}
	}
	cmd := []string{"ADDSLOTS"}
	for slot := first; slot <= last; slot++ {
		cmd = append(cmd, strconv.Itoa(slot))
	}
	return cmd
}

// Nodes returns all servers, masters first.
func (c *ClusterSet) Nodes() []*Server {
	return append(append([]*Server(nil), c.Masters...), c.Replicas...)
}

// Addrs returns the addresses of all servers.
func (c *ClusterSet) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// AwaitOK waits until all nodes report that the cluster serves.
func (c *ClusterSet) AwaitOK(t testing.TB) {
	t.Helper()
	for _, n := range c.Nodes() {
		await(t, "cluster_state:ok", func() error { return n.wantClusterInfo("cluster_state", "ok") })
	}
}

// AwaitDown waits until these nodes report that the cluster does not serve.
func (c *ClusterSet) AwaitDown(t testing.TB, nodes []*Server) {
	t.Helper()
	for _, n := range nodes {
		await(t, "cluster_state:fail", func() error { return n.wantClusterInfo("cluster_state", "fail") })
	}
}

func (s *Server) wantClusterInfo(field, want string) error {
	v, err := s.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if got := infoField(fmt.Sprint(v), field); got != want {
		return fmt.Errorf("%s: %s is %q, want %q", s.Addr(), field, got, want)
	}
	return nil
}

func (s *Server) nodeID(t testing.TB) string {
	t.Helper()
	return s.Str(t, "CLUSTER", "MYID")
}

// Slot returns the slot of key.
func (c *ClusterSet) Slot(t testing.TB, key string) int {
	t.Helper()
	return int(c.Masters[0].Int(t, "CLUSTER", "KEYSLOT", key))
}

// Owner returns the master that serves key, as the masters see it.
func (c *ClusterSet) Owner(t testing.TB, key string) *Server {
	t.Helper()
	slot := int64(c.Slot(t, key))
	ranges, _ := c.Masters[0].Must(t, "CLUSTER", "SLOTS").([]any)
	for _, r := range ranges {
		fields := r.([]any)
		if fields[0].(int64) > slot || slot > fields[1].(int64) {
			continue
		}
		port := fields[2].([]any)[1]
		for _, n := range c.Nodes() {
			if port == int64(n.port) {
				return n
			}
		}
	}
	t.Fatalf("no node serves slot %d", slot)
	return nil
}

// KeyOn returns a key with the given prefix in a slot of master.
func (c *ClusterSet) KeyOn(t testing.TB, master *Server, prefix string) string {
	t.Helper()
	for i := range 1000 {
		key := prefix + strconv.Itoa(i)
		if c.Owner(t, key) == master {
			return key
		}
	}
	t.Fatalf("no key %s0 … %s999 lies on %s", prefix, prefix, master.Addr())
	return ""
}

// BeginMove starts to move a slot: its owner answers ASK for keys that it does not have, and the
// new owner accepts them after ASKING.
func (c *ClusterSet) BeginMove(t testing.TB, slot int, from, to *Server) {
	t.Helper()
	n := strconv.Itoa(slot)
	to.Must(t, "CLUSTER", "SETSLOT", n, "IMPORTING", from.nodeID(t))
	from.Must(t, "CLUSTER", "SETSLOT", n, "MIGRATING", to.nodeID(t))
}

// MoveKeys moves keys of an open slot, or all its keys if none are named.
func (c *ClusterSet) MoveKeys(t testing.TB, slot int, from, to *Server, keys ...string) {
	t.Helper()
	if len(keys) == 0 {
		v, _ := from.Must(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "100000").([]any)
		for _, k := range v {
			keys = append(keys, k.(string))
		}
	}
	if len(keys) == 0 {
		return
	}
	cmd := append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "KEYS"}, keys...)
	from.Must(t, cmd...)
}

// EndMove assigns an open slot to its new owner and tells every master.
func (c *ClusterSet) EndMove(t testing.TB, slot int, to *Server) {
	t.Helper()
	id, n := to.nodeID(t), strconv.Itoa(slot)
	c.awaitEpochs(t, to)
	to.Must(t, "CLUSTER", "SETSLOT", n, "NODE", id)
	for _, m := range c.Nodes() {
		if m == to {
			continue
		}
		// Replicas and demoted masters refuse, and learn it by gossip.
		if _, err := m.Do("CLUSTER", "SETSLOT", n, "NODE", id); err != nil &&
			!strings.Contains(err.Error(), "only with masters") {
			t.Fatalf("%s: SETSLOT NODE: %v", m.Addr(), err)
		}
	}
}

// awaitEpochs waits until to has heard of the epochs of all others. The new owner of a slot takes an
// epoch that is greater than those of which it knows. If the old one has a greater one, from a move a
// moment ago, then its last heartbeat takes the slot back, and after that no node serves it: each of
// the two names the other, for good.
func (c *ClusterSet) awaitEpochs(t testing.TB, to *Server) {
	t.Helper()
	greatest := 0
	for _, m := range c.Nodes() {
		if v, err := m.Do("CLUSTER", "INFO"); err == nil { // some may be down
			epoch, _ := strconv.Atoi(infoField(fmt.Sprint(v), "cluster_my_epoch"))
			greatest = max(greatest, epoch)
		}
	}
	await(t, "the epochs are known", func() error {
		v, err := to.Do("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if epoch, _ := strconv.Atoi(infoField(fmt.Sprint(v), "cluster_current_epoch")); epoch < greatest {
			return fmt.Errorf("%s knows of epoch %d, want %d", to.Addr(), epoch, greatest)
		}
		return nil
	})
}

// MoveSlot moves a slot and its keys from its owner to another master.
func (c *ClusterSet) MoveSlot(t testing.TB, slot int, from, to *Server) {
	t.Helper()
	c.BeginMove(t, slot, from, to)
	c.MoveKeys(t, slot, from, to)
	c.EndMove(t, slot, to)
}
