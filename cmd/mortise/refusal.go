package main

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise"
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

// keyRefused matches the replies of servers of all versions that refuse a key to a user, and not a command or a channel.
var keyRefused = regexp.MustCompile(`access\b.*\bkeys?\b`)

// rightsHint says what to do about a right that the user lacks. Without a prefix, a rule would open all keys to a user who may only use
// some.
func (a *app) rightsHint(err error) string {
	of, named := errors.AsType[*mortise.Error](err)
	refused, _ := errors.AsType[*driver.Error](err)
	if a.keyPrefix() != "" || !keyRefused.MatchString(refused.Reply) {
		return "The user's rights (ACL) have to be extended by what this prints: " + a.aclLine(a.kinds)
	}
	keys := "these keys"
	if named && of.Name != "" {
		keys = "the keys of " + strconv.Quote(of.Name)
	}
	return "The user may not use " + keys + "; is --prefix missing? ACL GETUSER shows which keys it may use."
}
