package behavior

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// run runs a line of Lua on job and its token.
func run(t *testing.T, s *memredis.Server, lua string) driver.Value {
	t.Helper()
	d := s.Driver()
	defer d.Close()
	v, err := d.Eval(t.Context(), driver.Call{
		Script: driver.NewScript("test", lua), Keys: []string{"job", "redisson_lock_token:{job}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFencedTokensRiseByOneWhereNothingIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		wantToken(t, a.FencedLock("job"), 0)
		for i, c := range []*mortise.Client{a, b, b, a} {
			hold, _ := mustFence(t, c.FencedLock("job"), t.Context())
			if want := int64(i + 1); hold.Token() != want {
				t.Errorf("the token is %d, want %d", hold.Token(), want)
			}
			mustUnlock(t, hold)
		}
		wantToken(t, b.FencedLock("job"), 4)
	})
}

// The outer hold's writes must still be accepted after the inner one wrote.
func TestFencedReentryGivesTheNewerTokenToAllHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.FencedLock("job")
		outer, ctx := mustFence(t, k, t.Context())
		inner, _ := mustFence(t, k, ctx)
		if outer.Token() != 2 || inner.Token() != 2 {
			t.Errorf("the tokens are %d and %d, want 2 and 2", outer.Token(), inner.Token())
		}
		mustUnlock(t, inner)
		if outer.Token() != 2 {
			t.Errorf("after the inner hold's release the token is %d, want 2", outer.Token())
		}
		mustUnlock(t, outer)
	})
}

// A plain lock of the same name is the same lock; it draws no tokens.
func TestFencedLockAndPlainLockAreOneLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		plain, ctx := mustFence(t, c.Lock("job"), t.Context())
		if plain.Token() != 0 {
			t.Errorf("a plain hold has the token %d", plain.Token())
		}
		fenced, ctx := mustFence(t, c.FencedLock("job"), ctx)
		spun, _ := mustFence(t, c.SpinLock("job"), ctx)
		if plain.Token() != 1 || fenced.Token() != 1 || spun.Token() != 1 {
			t.Errorf("the tokens are %d, %d and %d, want 1", plain.Token(), fenced.Token(), spun.Token())
		}
		if _, _, err := other.FencedLock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock of another: %v, want ErrLocked", err)
		}
		for _, h := range []*mortise.Hold{spun, fenced, plain} {
			mustUnlock(t, h)
		}
		wantToken(t, other.FencedLock("job"), 1)
	})
}

// Whatever is lost, the token of a later holder is larger than that of any
// earlier one.
func TestFencedTokensRiseWhateverIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		last := int64(0)
		rises := func(what string, h *mortise.Hold) {
			t.Helper()
			if h.Token() <= last {
				t.Errorf("%s: the token is %d after %d", what, h.Token(), last)
			}
			last = h.Token()
		}
		k := c.FencedLock("job")
		for lost := range 4 {
			f.Set(nil, loseReplies("fenced_acquire", lost))
			hold, ctx := mustFence(t, k, t.Context())
			rises("lost replies of acquire", hold)
			f.Set(nil, loseReplies("fenced_reenter", lost))
			inner, _ := mustFence(t, k, ctx)
			rises("lost replies of reenter", inner)
			wantToken(t, k, last)
			mustUnlock(t, inner)
			mustUnlock(t, hold)
			f.Set(nil, nil)
			hold, _ = mustFence(t, other.FencedLock("job"), t.Context())
			rises("another's turn", hold)
			mustUnlock(t, hold)
		}

		hold, ctx := mustFence(t, k, t.Context())
		rises("before the force", hold)
		if by, err := other.FencedLock("job").ForceUnlock(t.Context()); err != nil || by == nil {
			t.Errorf("ForceUnlock = %v, %v, want the holder", by, err)
		}
		next, _ := mustFence(t, other.FencedLock("job"), t.Context())
		rises("after the force", next)
		wantLost(t, ctx, hold, mortise.LostTaken, 0, 10*time.Second)
		mustUnlock(t, next)

		hold, ctx = mustFence(t, k.With(mortise.LockOptions{MaxHold: time.Second}), t.Context())
		rises("before the expiry", hold)
		next, _ = mustFence(t, other.FencedLock("job"), t.Context())
		rises("after the expiry", next)
		if hold.Token() >= next.Token() || ctx.Err() == nil {
			t.Errorf("the expired hold has the token %d, the next %d", hold.Token(), next.Token())
		}
		mustUnlock(t, next)
	})
}

// Redisson's expire() sets a TTL on the token as well; tokens would start again
// from 1 when it has run out.
func TestFencedTokenLosesAForeignTTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		run(t, s, `return redis.call('set', KEYS[2], '41', 'px', 60000)`)
		hold, _ := mustFence(t, c.FencedLock("job"), t.Context())
		mustUnlock(t, hold)
		if v := run(t, s, `return redis.call('pttl', KEYS[2])`); v.Int() != -1 {
			t.Errorf("the token's TTL is %d, want none", v.Int())
		}
		time.Sleep(time.Hour)
		wantToken(t, c.FencedLock("job"), 42)
	})
}

func TestFencedLockBesideWhatIsNoToken(t *testing.T) {
	t.Parallel()
	for what, lua := range map[string]string{
		"text":     `return redis.call('set', KEYS[2], 'x')`,
		"a list":   `return redis.call('rpush', KEYS[2], 'x')`,
		"the end":  `return redis.call('set', KEYS[2], '9223372036854775807')`,
		"negative": `return redis.call('set', KEYS[2], '-9')`,
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				run(t, s, lua)
				_, _, err := c.FencedLock("job").Lock(t.Context())
				_, _, terr := c.FencedLock("job").TryLock(t.Context())
				if !errors.Is(err, mortise.ErrWrongKind) || !errors.Is(terr, mortise.ErrWrongKind) {
					t.Errorf("Lock: %v, TryLock: %v, want ErrWrongKind", err, terr)
				}
				if v := run(t, s, `return redis.call('exists', KEYS[1])`); v.Int() != 0 {
					t.Error("a lock was left behind")
				}
				hold, ctx := mustFence(t, c.Lock("job"), t.Context())
				if _, _, err := c.FencedLock("job").Lock(ctx); !errors.Is(err, mortise.ErrWrongKind) {
					t.Errorf("re-entry: %v, want ErrWrongKind", err)
				}
				mustUnlock(t, hold)
			})
		})
	}
}

func TestCurrentTokenFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		if _, err := c.FencedLock("").CurrentToken(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("a bad name: %v, want ErrInvalid", err)
		}
		run(t, s, `return redis.call('set', KEYS[2], 'x')`)
		if _, err := c.FencedLock("job").CurrentToken(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("no token: %v, want ErrWrongKind", err)
		}
		run(t, s, `return redis.call('set', KEYS[2], '5')`)
		f.Set(nil, loseReplies("fenced_token", 2))
		wantToken(t, c.FencedLock("job"), 5)
		c.Close()
		if _, err := c.FencedLock("job").CurrentToken(t.Context()); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("a closed client: %v, want ErrClosed", err)
		}
	})
}

// Many processes, each goroutine notes its token while it holds the lock: the
// notes must come in order.
func TestFencedTokensComeInTheOrderOfHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var tokens []int64 // unprotected but for the lock
		var all sync.WaitGroup
		for range 4 {
			c, f := open(t, s, nil)
			f.Set(nil, loseReplies("fenced_acquire", 3))
			for range 4 {
				all.Go(func() {
					for range 5 {
						hold, _ := mustFence(t, c.FencedLock("job"), t.Context())
						tokens = append(tokens, hold.Token())
						time.Sleep(50 * time.Millisecond)
						if err := hold.Unlock(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if len(tokens) != 80 {
			t.Fatalf("%d holds, want 80", len(tokens))
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Errorf("the token %d came after %d", tokens[i], tokens[i-1])
			}
		}
	})
}

// A token that no replica has acknowledged was never that of a hold: a master that dies may
// take it along, and the next one draws it again.
func TestFencedTokenThatWasNotAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 1, nil)
		k := c.FencedLock("job").With(durably(1))
		first, _ := mustFence(t, k, t.Context())
		mustUnlock(t, first)
		r.become(1, 0)
		_, _, err := k.Lock(t.Context())
		wantNotDurable(t, err, 0, 1)
		run(t, s, fmt.Sprintf(`return redis.call('set', KEYS[2], %d)`, first.Token())) // what the replica has
		r.become(1, 1)
		outer, ctx, err := k.Lock(t.Context())
		if err != nil {
			t.Fatalf("after the failover: %v", err)
		}
		token := outer.Token()
		if token <= first.Token() {
			t.Errorf("the token is %d, after %d", token, first.Token())
		}
		r.become(1, 0)
		_, _, err = k.Lock(ctx)
		wantNotDurable(t, err, 0, 1)
		if outer.Token() != token {
			t.Errorf("after a re-entry that failed the token is %d, want %d: replicas do not have another", outer.Token(), token)
		}
		r.become(1, 1)
		mustUnlock(t, outer)
	})
}
