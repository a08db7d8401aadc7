package locktest

import (
	"context"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/fieldhash"
)

// longOwner is a kind of lock whose holder has a name of 300 letters.
type longOwner struct {
	fields []string // the hash in Redis
	force  func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error)
	only   func(ctx context.Context, c *mortise.Client, owner string) (bool, error)
	owner  string // as [mortise.Holder] has it
}

// FreesLongOwners releases an owner with a long name by force, for each kind of lock. Run must call
// its function with a driver.
func FreesLongOwners(t *testing.T, run func(t *testing.T, try func(t *testing.T, d driver.Driver))) {
	t.Helper()
	for name, kind := range longOwners() {
		t.Run(name, func(t *testing.T) { run(t, kind.freed) })
	}
}

// freed puts the lock into Redis and releases it, in both ways.
func (k longOwner) freed(t *testing.T, d driver.Driver) {
	t.Helper()
	c := mortise.New(d, nil)
	defer func() { _ = c.Close() }()
	put := driver.NewScript("put", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], unpack(ARGV)) return redis.call('pexpire', KEYS[1], 600000)")
	for _, how := range []string{"force", "owner"} {
		if _, err := d.Eval(t.Context(), driver.Call{Script: put, Keys: []string{"job"}, Args: k.fields}); err != nil {
			t.Fatal(err)
		}
		if how == "force" {
			if freed, err := k.force(t.Context(), c); err != nil || len(freed) != 1 || freed[0].Owner != k.owner {
				t.Errorf("got %v, %v were freed, want the owner with the long name", freed, err)
			}
		} else if ok, err := k.only(t.Context(), c, k.owner); !ok || err != nil {
			t.Errorf("release of the owner by force: got %v, %v, want true", ok, err)
		}
		if state, err := c.Inspect(t.Context(), "job"); err != nil || state.Locked {
			t.Errorf("then there is %+v, %v, want nothing", state, err)
		}
	}
}

func longOwners() map[string]longOwner {
	owner, field := strings.Repeat("x", 300), fieldhash.Text("a")
	one := func(h *mortise.Holder, err error) ([]mortise.Holder, error) {
		if h == nil {
			return nil, err
		}
		return []mortise.Holder{*h}, err
	}
	return map[string]longOwner{
		"Lock": {[]string{owner, "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return one(c.Lock("job").ForceUnlock(ctx))
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.Lock("job").UnlockOwner(ctx, by)
			}, owner},
		"FencedLock": {[]string{owner, "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return one(c.FencedLock("job").ForceUnlock(ctx))
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.FencedLock("job").UnlockOwner(ctx, by)
			}, owner},
		"FairLock": {[]string{owner, "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return one(c.FairLock("job").ForceUnlock(ctx))
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.FairLock("job").UnlockOwner(ctx, by)
			}, owner},
		"RWLock.Write": {[]string{"mode", "write", owner + ":write", "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return one(c.RWLock("job").Write().ForceUnlock(ctx))
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.RWLock("job").Write().UnlockOwner(ctx, by)
			}, owner + ":write"},
		"RWLock.Read": {[]string{"mode", "read", owner, "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return c.RWLock("job").Read().ForceUnlock(ctx)
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.RWLock("job").Read().UnlockOwner(ctx, by)
			}, owner},
		"GroupLock": {[]string{field, owner, field + ":" + owner + ":expire_time", "8999999999999", field + ":" + owner + ":lock_count", "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				return c.GroupLock("job", "a").ForceUnlock(ctx)
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.GroupLock("job", "a").UnlockOwner(ctx, by)
			}, owner},
		"Election": {[]string{"mode", "election", "term", "1", "value", "", "edition", "0", owner, "1"},
			func(ctx context.Context, c *mortise.Client) ([]mortise.Holder, error) {
				l, err := c.Election("job").Depose(ctx)
				return []mortise.Holder{{Owner: l.Owner}}, err
			},
			func(ctx context.Context, c *mortise.Client, by string) (bool, error) {
				return c.Election("job").DeposeOwner(ctx, by)
			}, owner},
	}
}
