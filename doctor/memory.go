package doctor

import (
	"context"
	"fmt"
	"strings"
)

// persistence looks at what a restart forgets.
func (e *exam) persistence(context.Context) {
	e.each("persistence", GroupPersistence, ofConfig, func(s *server) Finding {
		if s.err == nil && !s.master() {
			return Finding{}
		}
		fsync := s.conf["appendfsync"]
		switch {
		case s.conf["save"] != "" && s.info["rdb_last_bgsave_status"] == "err" && s.conf["stop-writes-on-bgsave-error"] != "no":
			return Finding{Severity: Critical, Found: "the last snapshot has failed: the server refuses all writes until one succeeds", Do: "Look at the disk, and at the log of the server.", Command: e.cli(s.addr, "info persistence")}
		case s.conf["appendonly"] == "yes" && s.info["aof_last_write_status"] == "err":
			return Finding{Severity: Critical, Found: "the append-only file cannot be written: the server refuses all writes", Do: "Look at the disk, and at the log of the server.", Command: e.cli(s.addr, "info persistence")}
		case s.conf["appendonly"] == "yes" && fsync == "no":
			return Finding{
				Severity: Warning, Found: "the append-only file is synced whenever the system likes: if the machine fails, about half a minute is forgotten, and locks can have two holders",
				Do: "Sync it every second, or always.", Command: e.cli(s.addr, "config set appendfsync everysec"),
			}
		case s.conf["appendonly"] == "yes" && fsync == "always":
			return Finding{Severity: OK, Found: "there is an append-only file, synced always: a restart forgets nothing"}
		case s.conf["appendonly"] == "yes":
			return Finding{Severity: OK, Found: "there is an append-only file, synced every second: a crash of the machine forgets the last second"}
		}
		what := "nothing is kept on disk: a restart forgets all locks"
		if s.conf["save"] != "" {
			what = "there are only snapshots (save " + quoted(s.conf["save"]) + "): a restart forgets the locks since the last one, and brings back older ones"
		}
		return Finding{
			Severity: Warning, Found: what + ", so that locks can have two holders",
			Do:      "Turn the append-only file on, in the file of settings as well; or see that a server that has failed stays away for longer than a lease.",
			Command: e.cli(s.addr, "config set appendonly yes"),
		}
	})
}

// eviction looks at whether locks can be evicted.
func (e *exam) eviction(context.Context) {
	e.each("eviction", GroupMemory, ofInfo, func(s *server) Finding {
		policy, most := s.info["maxmemory_policy"], s.number("maxmemory")
		switch {
		case !s.master():
			return Finding{}
		case policy == "noeviction":
			return Finding{Severity: OK, Found: "nothing is evicted (noeviction)"}
		case most == 0:
			return Finding{
				Severity: Info, Found: "the policy is " + quoted(policy) + ", which evicts nothing as long as maxmemory is 0",
				Do: "Set it to noeviction before anybody sets maxmemory.", Command: e.cli(s.addr, "config set maxmemory-policy noeviction"),
			}
		}
		return Finding{
			Severity: Critical, Found: fmt.Sprintf("the policy is %s: beyond %s the server evicts keys, locks that are held among them; it has evicted %d keys so far", quoted(policy), size(most), s.number("evicted_keys")),
			Do: "Keep locks on a server that evicts nothing.", Command: e.cli(s.addr, "config set maxmemory-policy noeviction"),
		}
	})
}

// memory looks at how much is left.
func (e *exam) memory(context.Context) {
	e.each("memory", GroupMemory, ofInfo, func(s *server) Finding {
		used, most := s.number("used_memory"), s.number("maxmemory")
		evicts := s.info["maxmemory_policy"] != "noeviction"
		switch {
		case most == 0 && s.number("total_system_memory") > 0 && used > s.number("total_system_memory")/10*9:
			return Finding{Severity: Warning, Found: fmt.Sprintf("%s are in use, of %s that the machine has, and there is no maxmemory", size(used), size(s.number("total_system_memory"))), Do: "The system may kill the server. Set maxmemory, and give it more memory."}
		case most == 0:
			return Finding{Severity: OK, Found: size(used) + " are in use, without a limit (maxmemory 0)"}
		case used >= most && !evicts:
			return Finding{Severity: Critical, Found: fmt.Sprintf("%s are in use, and maxmemory is %s: nothing can be locked", size(used), size(most)), Do: "Raise maxmemory, or remove keys.", Command: e.cli(s.addr, "info memory")}
		case used > most/10*9 && !evicts:
			return Finding{Severity: Warning, Found: fmt.Sprintf("%s are in use, of %s: beyond that nothing can be locked", size(used), size(most)), Do: "Raise maxmemory, or remove keys.", Command: e.cli(s.addr, "info memory")}
		}
		return Finding{Severity: OK, Found: fmt.Sprintf("%s are in use, of %s", size(used), size(most))}
	})
}

// events looks at whether the server reports every change of a key.
func (e *exam) events(context.Context) {
	e.each("keyspace-events", GroupConnections, ofConfig, func(s *server) Finding {
		set := s.conf["notify-keyspace-events"]
		if strings.TrimSpace(set) == "" {
			return Finding{Severity: OK, Found: "no messages about changes of keys, which locks do not need"}
		}
		return Finding{
			Severity: Info, Found: "notify-keyspace-events is " + quoted(set) + ": the server publishes messages at changes of keys. Locks do not need them, and each costs time",
			Do: "Turn them off if nothing else needs them.", Command: e.cli(s.addr, "config set notify-keyspace-events ''"),
		}
	})
}
