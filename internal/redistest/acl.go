package redistest

import (
	"slices"
	"strings"
	"testing"
)

// Rules returns the rules of an ACL user in the dialect of the server. Before Redis 7.0 a user may
// use every channel until told otherwise, and sharded messages are unknown; before 6.2 there are no
// rules for channels.
func Rules(t testing.TB, rules ...string) []string {
	t.Helper()
	return Current(t).rules(rules)
}

func (v Version) rules(rules []string) []string {
	if v.AtLeast(7, 0) {
		return rules
	}
	var own []string
	for _, rule := range rules {
		channels := strings.HasPrefix(rule, "&") || strings.HasSuffix(rule, "channels")
		switch {
		case sinceSeven[strings.TrimLeft(rule, "+-")], channels && !v.AtLeast(6, 2):
			continue
		case channels && rule != "&*" && !slices.Contains(own, "resetchannels"):
			own = append(own, "resetchannels")
		}
		own = append(own, rule)
	}
	return own
}

// sinceSeven is the commands that came with Redis 7.0.
var sinceSeven = map[string]bool{
	"spublish": true, "ssubscribe": true, "sunsubscribe": true, "cluster|shards": true, "pubsub|shardnumsub": true,
}
