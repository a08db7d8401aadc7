package memredis

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// refusePatterns refuses a command with a pattern that miniredis would panic about: it makes a regular
// expression of each, and not every pattern of Redis becomes one, such as [z-a] or one that is not UTF-8.
func refusePatterns(c *server.Peer, command string, args ...string) bool {
	switch command {
	case "KEYS", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "PSUBSCRIBE", "PUBSUB":
		for _, arg := range args {
			if !isPattern(arg) {
				c.WriteError("ERR the embedded Redis cannot read this pattern")
				return true
			}
		}
	}
	return false
}

// isPattern reports whether miniredis understands a pattern. Only a panic tells that it does not; nothing
// but the pattern is looked at, by a server without data.
func isPattern(text string) (ok bool) {
	defer func() { ok = recover() == nil }()
	miniredis.NewMiniRedis().PubSubChannels(text)
	return true
}
