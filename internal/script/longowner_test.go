package script_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Content of other programs is not returned whole with each refusal: an owner
// of megabytes would be sent to each client that asks.
func TestLongOwnersAreCut(t *testing.T) {
	const most = 200
	server := single(t)
	for name, test := range longOwners() {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.setup(t, w)
				texts, err := test.call(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range texts {
					if len(text) != most || strings.Trim(text, "x") != "" {
						t.Errorf("%d bytes came back, want the first %d", len(text), most)
					}
				}
			})
		})
	}
}

// longOwner is content of a key, and a call that returns names from it.
type longOwner struct {
	setup setup
	call  func(ctx context.Context, d driver.Driver) (texts []string, err error)
}

func longOwners() map[string]longOwner {
	// N stands for the name, and in a field for its beginning.
	lie := func(commands ...[]string) setup {
		return func(t *testing.T, w *world) {
			t.Helper()
			for _, c := range commands {
				args := []string{"EVAL", "for i = 1, #ARGV do ARGV[i] = string.gsub(ARGV[i], 'N', function() return string.rep('x', 5000000) end) end return redis.call(unpack(ARGV))", "0"}
				w.must(t, append(args, c...)...)
			}
		}
	}
	hash := func(fields ...string) []string { return append([]string{"HSET", job}, fields...) }
	acquired := func(_ bool, by script.Holder, err error) ([]string, error) { return []string{by.Owner}, err }
	return map[string]longOwner{
		"lock": {lie(hash("N", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			return acquired(acquire(ctx, d, job, me, lease))
		}},
		"fenced lock": {lie(hash("N", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			_, by, _, err := script.FencedAcquire(ctx, d, job, me, lease, "")
			return []string{by.Owner}, err
		}},
		"several locks": {lie(hash("N", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			_, _, by, err := script.MultiAcquire(ctx, d, []string{job}, me, lease, false)
			return []string{by.Owner}, err
		}},
		"write lock": {lie(hash("mode", "write", "N:write", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			return acquired(script.RWWriteAcquire(ctx, d, job, meW, lease))
		}},
		"read lock": {lie(hash("mode", "write", "N:write", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			return acquired(script.RWReadAcquire(ctx, d, job, me, "", lease))
		}},
		"readers": {lie(hash("mode", "read", "N", "x")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			return acquired(script.RWWriteAcquire(ctx, d, job, meW, lease))
		}},
		"group": {lie(hash("a", "N", "a:N:expire_time", "8999999999999", "a:N:lock_count", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			return acquired(script.GroupAcquire(ctx, d, ab, me, lease))
		}},
		"election": {lie(hash("mode", "election", "term", "1", "value", "", "edition", "0", "N", "1")), func(ctx context.Context, d driver.Driver) ([]string, error) {
			_, by, err := script.ElectionCampaign(ctx, d, job, me, "", lease, script.Classic)
			return []string{by.Owner}, err
		}},
		"waiters": {lie([]string{"RPUSH", keyspace.FairQueue(job), "N"}), func(ctx context.Context, d driver.Driver) ([]string, error) {
			waiters, err := script.FairInspect(ctx, d, job, 10)
			if err != nil {
				return nil, err
			}
			r := script.Inspect(ctx, d, job)[0]
			return []string{waiters[0].Owner, r.Key.Queue[0].ID}, r.Err
		}},
		"permits": {lie([]string{"SET", job, "1"}, []string{"ZADD", keyspace.PermitExpiries(job), "8999999999999", "N"}), func(ctx context.Context, d driver.Driver) ([]string, error) {
			r := script.Inspect(ctx, d, job)[0]
			return []string{r.Key.Permits[0].ID}, r.Err
		}},
	}
}

func TestLongOwnersOfAFairLockAreCut(t *testing.T) {
	fairly(t, func(f fair) {
		f.must(f.t, "EVAL", "return redis.call('hset', KEYS[1], string.rep('x', 5000000), 1)", "1", job)
		if ok, why := f.acquire(f, me, script.FairOnce); ok || why.Owner != strings.Repeat("x", 200) {
			f.t.Errorf("got %v, and %d bytes came back, want 200", ok, len(why.Owner))
		}
	})
}
