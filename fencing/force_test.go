package fencing_test

import (
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

// The old holder of a lock that was released by force writes no more: at once where the resource has
// the name of the lock, and elsewhere as soon as the resource has seen the token of the next one.
func TestForceMovesTheFence(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	open := func(o *mortise.Options) *mortise.Client {
		c := mortise.New(server.Driver(), o)
		t.Cleanup(func() { c.Close() })
		return c
	}
	guard := fencing.NewGuard(server.Driver())
	defer guard.Close()
	write := fencing.NewScript(`return redis.call('set', KEYS[1], 'x')`)
	set := func(resource string, token int64) error {
		_, err := guard.Run(t.Context(), resource, token, write, []string{resource + ":data"})
		return err
	}
	for name, test := range map[string]struct {
		options *mortise.Options
		prefix  string
		force   func(c *mortise.Client, owner string) error
	}{
		"ForceUnlock": {nil, "", func(c *mortise.Client, _ string) error {
			_, err := c.FencedLock("force").ForceUnlock(t.Context())
			return err
		}},
		"UnlockOwner of a plain lock": {nil, "", func(c *mortise.Client, owner string) error {
			_, err := c.Lock("force").UnlockOwner(t.Context(), owner)
			return err
		}},
		"ForceUnlock of a fair lock": {nil, "", func(c *mortise.Client, _ string) error {
			_, err := c.FairLock("force").ForceUnlock(t.Context())
			return err
		}},
		"UnlockOwner of a fair lock": {nil, "", func(c *mortise.Client, owner string) error {
			_, err := c.FairLock("force").UnlockOwner(t.Context(), owner)
			return err
		}},
		"with a prefix": {&mortise.Options{Prefix: "staging:"}, "staging:", func(c *mortise.Client, _ string) error {
			_, err := c.FencedLock("force").ForceUnlock(t.Context())
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			old, other := open(test.options), open(test.options)
			hold, _, err := old.FencedLock("force").Lock(t.Context())
			must(t, err)
			must(t, test.force(other, hold.Owner()))
			// Nobody has written or acquired anything since.
			wantStale(t, set(test.prefix+"force", hold.Token()), hold.Token(), hold.Token()+1)
			data := test.prefix + "data:" + name
			must(t, set(data, hold.Token())) // it has seen no newer token
			next, _, err := other.FencedLock("force").Lock(t.Context())
			must(t, err)
			fresh := test.prefix + "fresh:" + name
			must(t, guard.Admit(t.Context(), fresh, next.Token()))
			wantStale(t, set(fresh, hold.Token()), hold.Token(), next.Token())
			must(t, set(test.prefix+"force", next.Token()))
			must(t, next.Unlock())
			_ = hold.Unlock() // it is lost
		})
	}
}
