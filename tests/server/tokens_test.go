package server

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// A walk finds the counters of all masters, and each expires where it is.
func TestRealTokensOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		c := dial(&mortise.Options{Prefix: driver + ":"})
		var names []string
		for _, master := range set.Masters {
			name := set.KeyOn(t, master, driver+":")[len(driver)+1:]
			names = append(names, name, "{"+name+"}:x")
		}
		for _, name := range names {
			hold, _ := mustFence(t, c.FencedLock(name), t.Context())
			mustUnlock(t, hold)
		}
		expireAll(t, c, names)
	})
}

// The rights that docs/protocol.md names for it are enough.
func TestRealTokensWithTheDocumentedRights(t *testing.T) {
	s := redistest.Single(t)
	for _, what := range []string{"FencedLock", "TokenUses", "Inspect"} {
		s.Must(t, documentedLine(t, what)...)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "locks", Password: "SECRET"})
	t.Cleanup(func() { rdb.Close() })
	c := mortise.New(goredis.Wrap(rdb), &mortise.Options{Prefix: "app:"})
	t.Cleanup(func() { c.Close() })
	names := []string{"job", "{order}:42"}
	for _, name := range names {
		hold, _ := mustFence(t, c.FencedLock(name), t.Context())
		mustUnlock(t, hold)
	}
	expireAll(t, c, names)
	hold, _ := mustFence(t, c.FencedLock("job"), t.Context())
	defer hold.Unlock()
	for state, err := range c.Locks(t.Context(), "*") {
		if err != nil || state.Name != "job" || !state.Locked {
			t.Errorf("Locks = %+v, %v, want the one that is held", state, err)
		}
	}
}

// expireAll makes the counters of these names expire, which must be all that there are.
func expireAll(t *testing.T, c *mortise.Client, names []string) {
	t.Helper()
	for _, want := range []bool{false, true} { // whether they expire already
		found := make(map[string]bool)
		for use, err := range c.TokenUses(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if found[use.Name] = true; !use.Counter || use.Fence || use.InUse || use.TTL >= 0 != want {
				t.Errorf("%+v is a counter that expires: want %v", use, want)
			}
		}
		for _, name := range names {
			if !found[name] {
				t.Errorf("the counter of %s was not found", name)
			}
			if done, err := c.ExpireTokens(t.Context(), name, 0, time.Hour); err != nil || !done {
				t.Errorf("ExpireTokens of %s = %v, %v, want true", name, done, err)
			}
		}
		if len(found) != len(names) {
			t.Errorf("%d were found, want %d", len(found), len(names))
		}
	}
}

// A walk over what is held, or over the counters, reads none of them: to read one is to use it.
func TestRealWalksDoNotUseTokens(t *testing.T) {
	s := redistest.Single(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { rdb.Close() })
	c := mortise.New(goredis.Wrap(rdb), nil)
	t.Cleanup(func() { c.Close() })
	for _, key := range []string{"redisson_lock_token:{job}", "mortise:fence:{job}"} {
		s.Must(t, "SET", key, "70001")
		s.Must(t, "RESTORE", key, "0", s.Must(t, "DUMP", key).(string), "REPLACE", "IDLETIME", "1000")
	}
	for state, err := range c.Locks(t.Context(), "*") {
		t.Errorf("a walk shows %+v, %v, want nothing", state, err)
	}
	for range 2 {
		for use, err := range c.TokenUses(t.Context()) {
			if err != nil || use.Name != "job" || use.Idle < 1000*time.Second {
				t.Errorf("%+v, %v, want job, unused for 1000 s", use, err)
			}
		}
	}
}
