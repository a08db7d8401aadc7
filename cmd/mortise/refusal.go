package main

import (
	"errors"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

// refusalHints are what to do about a Redis that answers but cannot serve, by the beginning of its
// error reply.
var refusalHints = []struct{ reply, hint string }{
	{"OOM ", "Free memory there, or raise maxmemory; INFO memory shows both. Locks that are held are still renewed and released."},
	{"READONLY ", "Use the address of its master, which INFO replication shows, or that of the sentinels: redis-sentinel://…\nDuring a failover, try again."},
	{"MASTERDOWN ", "Use the address of its master, which INFO replication shows, or that of the sentinels: redis-sentinel://…\nDuring a failover, try again."},
	{"NOREPLICAS ", "Connect its replicas, which INFO replication shows, or lower min-replicas-to-write."},
	{"ERR max number of clients", "Close connections there, which CLIENT LIST shows, or raise maxclients."},
	{"MISCONF ", "Its log and INFO persistence show why; often the disk is full."},
	{"LOADING ", "Try again when INFO persistence shows loading:0."},
	{"CLUSTERDOWN ", "CLUSTER INFO and CLUSTER NODES show what is missing."},
	{"BUSY ", "SCRIPT KILL ends the script."},
}

// refusalHint says what to do about a Redis that answers but cannot serve, if err says why.
func refusalHint(err error) string {
	var e *driver.Error
	if !errors.As(err, &e) {
		return ""
	}
	for _, h := range refusalHints {
		if strings.HasPrefix(e.Reply, h.reply) {
			return h.hint
		}
	}
	return ""
}
