package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// role looks at whether scripts reach masters.
func (e *exam) role(context.Context) {
	e.each("role", GroupTopology, ofInfo, func(s *server) Finding {
		switch {
		case e.topology.Cluster:
			return Finding{}
		case s.info["loading"] == "1":
			return Finding{Severity: Critical, Found: "the server is loading its data, and answers nothing else", Do: "Wait until it has."}
		case !s.master():
			return Finding{
				Severity: Critical, Found: "it is a replica of " + quoted(s.info["master_host"]+":"+s.info["master_port"]) + ", which cannot be written",
				Do: "Use the address of the master, or of the sentinels (redis-sentinel://…), which follows it.", Command: e.cli(s.addr, "role"),
			}
		}
		return Finding{Severity: OK, Found: "it is a " + s.info["role"]}
	})
}

// cluster looks at whether all slots are served.
func (e *exam) cluster(ctx context.Context) {
	const id = "cluster-state"
	if !e.topology.Cluster {
		return
	}
	e.each(id, GroupTopology, source{"cluster|info", func(*server) error { return nil }}, func(s *server) Finding {
		v, err := e.command(ctx, s.addr, "CLUSTER", "INFO")
		if err != nil {
			return e.unknown(id, GroupTopology, err, "cluster|info")
		}
		info := fields(v.Str())
		missing := 16384
		if n, err := strconv.Atoi(info["cluster_slots_assigned"]); err == nil {
			missing -= n
		}
		failing, _ := strconv.Atoi(info["cluster_slots_fail"])
		switch {
		case info["cluster_state"] != "ok" || failing > 0 || missing > 0:
			return Finding{
				Severity: Critical, Found: fmt.Sprintf("the state of the cluster is %s: %d slots belong to nobody, %d to servers that have failed", quoted(info["cluster_state"]), missing, failing),
				Do: "Locks in these slots fail. Repair the cluster.", Command: e.cli(s.addr, "cluster nodes"),
			}
		case strings.TrimSpace(info["cluster_slots_pfail"]) != "0" && info["cluster_slots_pfail"] != "":
			return Finding{Severity: Warning, Found: "servers with " + said(text(info["cluster_slots_pfail"])) + " slots do not answer this one", Do: "Look at the network between the servers.", Command: e.cli(s.addr, "cluster nodes")}
		}
		return Finding{Severity: OK, Found: "all slots of the cluster are served, by " + said(text(info["cluster_size"])) + " masters"}
	})
}

// replica is a line of INFO about a replica.
type replica struct {
	addr, state string
	lag         int64 // in seconds; -1 if it has not answered
}

func (s *server) replicas() (list []replica) {
	for i := range s.number("connected_slaves") {
		f := make(map[string]string)
		for part := range strings.SplitSeq(s.info["slave"+strconv.FormatInt(i, 10)], ",") {
			name, value, _ := strings.Cut(part, "=")
			f[name] = value
		}
		lag, err := strconv.ParseInt(f["lag"], 10, 64)
		if err != nil {
			lag = -1
		}
		list = append(list, replica{f["ip"] + ":" + f["port"], f["state"], lag})
		if len(list) == 100 { // more than anybody has
			break
		}
	}
	return list
}

// replicas looks at how far behind the replicas are, and whether masters wait for any.
func (e *exam) replicas(context.Context) {
	const slow = 10
	e.each("replicas", GroupTopology, ofInfo, func(s *server) Finding {
		all := s.replicas()
		if !s.master() {
			return Finding{}
		}
		for _, r := range all {
			if r.state != "online" || r.lag > slow || r.lag < 0 {
				return Finding{
					Severity: Warning, Found: fmt.Sprintf("the replica %s is %s, and was last heard %d s ago", quoted(r.addr), quoted(r.state), r.lag),
					Do: "A failover to it would forget locks. Look at its log, and at the network.", Command: e.cli(s.addr, "info replication"),
				}
			}
		}
		switch {
		case len(all) > 0:
			return Finding{Severity: OK, Found: several(len(all), "replica") + " in touch"}
		case e.topology.Cluster:
			return Finding{Severity: Warning, Found: "the master has no replica: if it fails, its slots are not served", Do: "Add a replica."}
		}
		return Finding{Severity: Info, Found: "there is no replica: while this server is down, there are no locks"}
	})
	e.each("min-replicas", GroupTopology, ofConfig, func(s *server) Finding {
		n, want := len(s.replicas()), s.set("min-replicas-to-write")
		good, err := strconv.Atoi(s.info["min_slaves_good_slaves"]) // in touch within min-replicas-max-lag; there only if min-replicas-to-write is set
		if err != nil {
			good = n
		}
		switch {
		case s.err != nil || !s.master() || n == 0 && want == 0:
			return Finding{}
		case want > int64(good):
			return Finding{
				Severity: Critical, Found: fmt.Sprintf("min-replicas-to-write is %d, and %d of %s are in touch (min-replicas-max-lag %d s): nothing can be locked", want, good, several(n, "replica"), s.set("min-replicas-max-lag")),
				Do: "Bring the replicas back, or lower the setting.", Command: e.cli(s.addr, "config set min-replicas-to-write "+strconv.Itoa(good)),
			}
		case want == 0:
			return Finding{
				Severity: Info, Found: "min-replicas-to-write is 0: a master that is cut off from its replicas goes on granting locks, which a failover forgets",
				Do: "Set it to 1 if locks had better fail then.", Command: e.cli(s.addr, "config set min-replicas-to-write 1"),
			}
		}
		return Finding{Severity: OK, Found: fmt.Sprintf("min-replicas-to-write is %d, of %s", want, several(n, "replica"))}
	})
}
