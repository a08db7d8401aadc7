package torture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

// promote kills the master and makes one of its replicas the master, whichever.
func promote(r *round) int {
	old := r.master
	others := slices.DeleteFunc(slices.Clone(r.servers), func(s *redistest.Server) bool { return s == old })
	chosen := others[r.random.IntN(len(others))]
	n := len(r.held())
	r.kills(old)
	chosen.Must(r.t, "REPLICAOF", "NO", "ONE")
	for _, c := range r.clients {
		for _, p := range c.links {
			p.Retarget(chosen.Addr())
		}
	}
	r.master = chosen
	old.Start(r.t)
	for _, s := range r.servers {
		if s == chosen {
			continue
		}
		s.Must(r.t, "REPLICAOF", "127.0.0.1", fmt.Sprint(chosen.Port()))
	}
	// One that has not caught up must not be promoted next.
	chosen.AwaitReplicas(r.t, len(others))
	return n
}

// kills kills a master. What it had confirmed by then, its replica may not have: two may hold that until
// the lease of the first has ended, which nobody renews.
func (r *round) kills(master *redistest.Server) {
	from := torture.Now()
	master.Kill()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failovers++
	r.failed = true
	r.windows = append(r.windows, span{from, torture.Now() + int64(r.ttl/3)}) // replies may still be on their way
}

// epoch counts the failovers of a deployment, also those that the round has not asked for: a machine
// that is busy for a second has some. It is -1 if nothing counts them.
func (r *round) epoch() int {
	n := -1
	switch {
	case r.sentinel != nil:
		if all, err := r.sentinel.Sentinels[0].Do("SENTINEL", "MASTER", redistest.SentinelName); err == nil {
			fields, _ := all.([]any)
			for i := 0; i+1 < len(fields); i += 2 {
				if fields[i] == "config-epoch" {
					_, _ = fmt.Sscan(fmt.Sprint(fields[i+1]), &n)
				}
			}
		}
	case r.cluster != nil:
		for _, s := range r.masters(r.t) {
			text, _ := s.Do("CLUSTER", "INFO")
			for line := range strings.Lines(fmt.Sprint(text)) {
				var k int
				if _, err := fmt.Sscanf(line, "cluster_current_epoch:%d", &k); err == nil {
					n = max(n, k)
				}
			}
		}
	}
	return n
}

// promoteForgetful is promote without acknowledgements.
func promoteForgetful(r *round) (n int) {
	r.forgets(func() { n = promote(r) })
	r.raiseTokens()
	return n
}

// failOver kills the master of sentinels. What it forgets may delay the waiters of a fair lock for ten
// seconds, to which that of the next one must not add.
func failOver(r *round) int {
	r.replaceMaster()
	r.raiseTokens()
	r.pause(10*time.Second, 11*time.Second)
	return 1
}

// replaceMaster kills the master of sentinels, and starts it again when they have a new one: as a replica
// of that, because not all sentinels know of it yet, and their clients would have locks of both. Such
// clients are sent away, as sentinels do with those of a master that they make a replica.
func (r *round) replaceMaster() {
	old := r.sentinel.Master(r.t)
	r.patience(r.t, time.Second) // no longer than for this: one that is only busy is a second master, too
	r.kills(old)
	promoted := r.sentinel.Failover(r.t)
	r.patience(r.t, 30*time.Second)
	old.StartAsReplica(r.t, promoted)
	redistest.Eventually(r.t, "the old master is a replica", func() error {
		if link, err := old.Info("replication", "master_link_status"); link != "up" {
			return fmt.Errorf("link %q, %w", link, cmp.Or(err, errNotYet))
		}
		return nil
	})
	for _, s := range r.sentinel.Sentinels {
		redistest.Eventually(r.t, "all sentinels know the new master", func() error {
			addr, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.SentinelName)
			if fmt.Sprint(addr) != fmt.Sprintf("[127.0.0.1 %d]", promoted.Port()) {
				return fmt.Errorf("%v, %w", addr, cmp.Or(err, errNotYet))
			}
			return nil
		})
	}
	old.Must(r.t, "CLIENT", "KILL", "TYPE", "normal")
	old.Must(r.t, "CLIENT", "KILL", "TYPE", "pubsub")
}

// failNode kills a master of a cluster, and starts it again when its replica serves.
func failNode(r *round) int {
	masters := r.masters(r.t)
	old := masters[r.random.IntN(len(masters))]
	r.kills(old)
	redistest.Eventually(r.t, "a replica serves", func() error {
		if now := r.masters(r.t); len(now) < len(masters) {
			return fmt.Errorf("%d masters", len(now))
		}
		return nil
	})
	old.Start(r.t)
	r.cluster.AwaitOK(r.t)
	redistest.Eventually(r.t, "the old master is a replica", func() error {
		if link, err := old.Info("replication", "master_link_status"); link != "up" {
			return fmt.Errorf("link %q, %w", link, cmp.Or(err, errNotYet))
		}
		return nil
	})
	r.raiseTokens()
	return 1
}

// switchNode has a replica of a cluster take over from its master, which waits for it. It does so
// once for each master: the others do not vote for a second time soon.
func switchNode(r *round) int {
	replicas := slices.DeleteFunc(slices.Clone(r.cluster.Replicas), func(s *redistest.Server) bool {
		role, _ := s.Info("replication", "role")
		return role != "slave"
	})
	if len(replicas) == 0 {
		return 0
	}
	chosen := replicas[r.random.IntN(len(replicas))]
	if _, err := chosen.Do("CLUSTER", "FAILOVER"); err != nil {
		return 0
	}
	asked := time.Now()
	redistest.Eventually(r.t, "the replica is the master", func() error {
		if time.Since(asked) > 6*time.Second { // it gives up after 5
			_, _ = chosen.Do("CLUSTER", "FAILOVER")
			asked = time.Now()
		}
		if role, err := chosen.Info("replication", "role"); role != "master" {
			return fmt.Errorf("%s, %w", role, cmp.Or(err, errNotYet))
		}
		return nil
	})
	r.cluster.AwaitOK(r.t)
	return 1
}

// moveSlot moves the slot of a lock that is held, or waited for, to another master.
func moveSlot(r *round) int {
	load := r.loads[r.random.IntN(len(r.loads))]
	for load.Kind == "latch" { // each has a name of its own
		load = r.loads[r.random.IntN(len(r.loads))]
	}
	name := load.Name
	if name == "" {
		name = load.Names[0]
	}
	slot, from := r.cluster.Slot(r.t, name), r.cluster.Owner(r.t, name)
	others := slices.DeleteFunc(r.masters(r.t), func(s *redistest.Server) bool { return s == from })
	to := others[r.random.IntN(len(others))]
	r.cluster.BeginMove(r.t, slot, from, to)
	r.pause(0, 20*time.Millisecond)
	moved := 0
	for {
		keys, _ := from.Must(r.t, "CLUSTER", "GETKEYSINSLOT", fmt.Sprint(slot), "100").([]any)
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			r.cluster.MoveKeys(r.t, slot, from, to, fmt.Sprint(k))
			moved++
			r.pause(0, 5*time.Millisecond) // others are still there
		}
	}
	r.cluster.EndMove(r.t, slot, to)
	redistest.Eventually(r.t, "the cluster agrees", func() error {
		if o := r.cluster.Owner(r.t, name); o != to {
			return errNotYet
		}
		return nil
	})
	if moved == 0 || strings.HasPrefix(name, "redisson_") {
		return 0
	}
	return 1
}

// minority takes away one of several servers: it is killed and started again, frozen, or cut off.
func minority(r *round) int {
	n := len(r.held())
	i := r.random.IntN(len(r.servers))
	s := r.servers[i]
	switch r.random.IntN(3) {
	case 0:
		s.Kill()
		time.Sleep(r.length())
		s.Start(r.t)
	case 1:
		s.Pause(r.t)
		time.Sleep(r.length())
		s.Resume(r.t)
	case 2:
		for _, c := range r.clients {
			c.linkTo(s.Addr()).Stall(redistest.Requests, redistest.Replies)
		}
		time.Sleep(r.length())
		r.flow()
	}
	// The next one must not go before all have what this one has missed.
	r.pause(r.ttl/2, r.ttl)
	return n
}

var errNotYet = errors.New("not yet")
