package locktest

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// WantEmpty checks that Redis holds nothing that would stay.
func WantEmpty(t *testing.T, s *memredis.Server) {
	t.Helper()
	time.Sleep(10 * time.Minute) // keys with a TTL end meanwhile
	// Fencing tokens must never go, and an abandoned fair queue goes after a day.
	keys := driver.NewScript("keys", `
		local left = {}
		for _, key in ipairs(redis.call('keys', '*')) do
			local queue = string.match(key, '^redisson_lock_queue:') or string.match(key, '^redisson_lock_timeout:')
			if not string.match(key, '^redisson_lock_token:') and not (queue and redis.call('pttl', key) >= 0) then
				table.insert(left, key)
			end
		end
		return left`)
	d := s.Driver()
	defer func() { _ = d.Close() }()
	v, err := d.Eval(t.Context(), driver.Call{Script: keys})
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Len() {
		t.Errorf("the key %q is left", v.At(i).Str())
	}
}
