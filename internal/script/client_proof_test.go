//go:build server && proof

package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Whatever lies under their keys, the scripts take no longer than for what is ours.
func TestHostileDataOfClientsCostsNothing(t *testing.T) {
	server := redistest.Single(t)
	for content, fill := range map[string]string{
		"hash":       "redis.call('hset', KEYS[1], 'ask:' .. i, 'x')",
		"over":       "redis.call('zadd', KEYS[1], -i, 'client' .. i)",
		"forged":     "redis.call('zadd', KEYS[1], 9e18, 'client' .. i)",
		"stream":     "redis.call('xadd', KEYS[1], '*', 'e', 'x')",
		"list":       "redis.call('rpush', KEYS[1], i)",
		"set":        "redis.call('sadd', KEYS[1], i)",
		"long body":  "if i == 1 then for _, f in ipairs({'body', 'at', 'edition', 'ask:a', 'ask:b'}) do redis.call('hset', KEYS[1], f, string.rep('9', 2e6)) end end",
		"long entry": "if i == 1 then redis.call('xadd', KEYS[1], '*', 'e', string.rep('x', 5e6)) end",
		"string":     "if i == 1 then redis.call('set', KEYS[1], string.rep('x', 5e6)) end",
	} {
		for name, test := range telling {
			t.Run(content+"/"+name, func(t *testing.T) {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
					w := realWorld(t, server)
					w.must(t, "EVAL", "for i = 1, 30000 do "+fill+" end", "1", test.key)
					if content == "long body" {
						w.must(t, "PEXPIRE", test.key, "1000")
					}
					w.must(t, "CONFIG", "RESETSTAT")
					if err := everyCall[name](t.Context(), w); err != nil {
						t.Error(err)
					}
					most := 40
					if name == "IndexClient" {
						most = 210 // each takes out some
					}
					w.wantWork(t, b, most, 20*time.Millisecond)
				})
			})
		}
	}
}
