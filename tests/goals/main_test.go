package goals

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/leaks"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/mortisetest"
	"go.uber.org/goleak"
)

var deep = flag.Bool("deep", false, "count as far as the goals say; it takes minutes")

func TestMain(m *testing.M) {
	leaks.VerifyTestMain(m,
		// A closed cluster client of rueidis still waits out a refresh that it
		// planned, and the grace it gives to connections that it replaced.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}

// times returns how often something is done.
func times(few, goal int) int {
	if *deep {
		return goal
	}
	return few
}

// holder acquires something that has a hold, and returns its context and how to release it.
type holder func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error)

// holders are all kinds of hold.
func holders() map[string]holder {
	all := map[string]holder{
		"PermitSemaphore": func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
			return released(c.PermitSemaphore(name).Acquire(ctx))
		},
		"Election": func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
			term, lctx, err := c.Election(name).Campaign(ctx, "me")
			if err != nil {
				return nil, nil, err
			}
			return lctx, term.Resign, nil
		},
		"RWLock.Read": func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
			return released(c.RWLock(name).Read().Lock(ctx))
		},
		"MultiLock": func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
			return released(mortise.NewMultiLock(c.Lock(name), c.FencedLock(name+" too")).Lock(ctx))
		},
	}
	for kind, k := range locktest.Kinds {
		all[kind] = func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
			return released(k.Open(c, name, mortise.LockOptions{}).Lock(ctx))
		}
	}
	return all
}

func released(hold *mortise.Hold, ctx context.Context, err error) (context.Context, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return ctx, hold.Unlock, nil
}

// random draws durations up to d.
func random(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// left returns the keys of s that are not numbers that were set, tokens, or notes that end by themselves.
func left(t *testing.T, s *mortisetest.Server) (left []string) {
	t.Helper()
	l := s.Link()
	defer l.Close()
	err := l.Scan(t.Context(), "*", func(keys []string) error {
		for _, key := range keys {
			if !strings.HasPrefix(key, "redisson_lock_token:") && !ends(s, key) {
				left = append(left, key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// ends reports whether a key is a note about what was done, which ends by itself.
func ends(s *mortisetest.Server, key string) bool {
	for _, note := range []string{"mortise:op:", "mortise:barrier:", "mortise:fair:"} {
		if strings.HasPrefix(key, note) {
			v, err := s.Do("PTTL", key)
			return err == nil && v.Int() > 0
		}
	}
	return false
}
