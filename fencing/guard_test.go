package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everywhere runs f with the embedded Redis in virtual time, and with a real server if the build
// tag server is set.
func everywhere(t *testing.T, f func(t *testing.T, d driver.Driver)) {
	t.Run("memredis", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memredis.New()
			defer s.Close()
			f(t, s.Driver())
		})
	})
	onServer(t, f)
}

// do runs Lua without a guard.
func do(t *testing.T, d driver.Driver, lua string, keys ...string) driver.Value {
	t.Helper()
	v, err := d.Eval(t.Context(), driver.Call{Script: driver.NewScript("test", lua), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantText(t *testing.T, d driver.Driver, key, want string) {
	t.Helper()
	if got := do(t, d, `return redis.call('get', KEYS[1]) or 'nothing'`, key).Str(); got != want {
		t.Errorf("under %s lies %q, want %q", key, got, want)
	}
}

func wantStale(t *testing.T, err error, token, newest int64) {
	t.Helper()
	var stale *fencing.StaleError
	if !errors.Is(err, fencing.ErrStale) || !errors.As(err, &stale) || stale.Token != token || stale.Newest != newest {
		t.Errorf("%v, want ErrStale for %d after %d", err, token, newest)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGuardRefusesOlderTokens(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g, ctx := fencing.NewGuard(d), t.Context()
		defer g.Close()
		must(t, g.Set(ctx, "k", "one", 1))
		must(t, g.Set(ctx, "k", "two", 2))
		must(t, g.Set(ctx, "k", "two again", 2))
		wantStale(t, g.Set(ctx, "k", "late", 1), 1, 2)
		wantText(t, d, "k", "two again")
		must(t, g.Set(ctx, "other", "one", 1)) // has a fence of its own
		// By number, not by text, and beyond the range of Lua's numbers.
		for _, token := range []int64{9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<63 - 1} {
			must(t, g.Set(ctx, "k", "x", token))
			wantStale(t, g.Set(ctx, "k", "late", token-1), token-1, token)
		}
		wantText(t, d, "k", "x")
		if ttl := do(t, d, `return redis.call('pttl', KEYS[1])`, "mortise:fence:{k}").Int(); ttl != -1 {
			t.Errorf("the fence has the TTL %d, want none", ttl)
		}
	})
}

func TestGuardWritesOfAllSorts(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g, ctx := fencing.NewGuard(d), t.Context()
		defer g.Close()
		for i, want := range []int64{5, 3, 1<<60 + 3} {
			if sum, err := g.IncrBy(ctx, "n", []int64{5, -2, 1 << 60}[i], 7); err != nil || sum != want {
				t.Errorf("IncrBy = %d, %v, want %d", sum, err, want)
			}
		}
		_, err := g.IncrBy(ctx, "n", 1, 6)
		wantStale(t, err, 6, 7)
		must(t, g.HSet(ctx, "h", "f", "v", 7))
		wantStale(t, g.HSet(ctx, "h", "f", "late", 6), 6, 7)
		if v := do(t, d, `return redis.call('hget', KEYS[1], 'f')`, "h"); v.Str() != "v" {
			t.Errorf("the field is %q", v.Str())
		}
		_, err = g.Delete(ctx, "h", 6)
		wantStale(t, err, 6, 7)
		for _, want := range []bool{true, false} {
			if was, err := g.Delete(ctx, "h", 8); was != want || err != nil {
				t.Errorf("Delete = %v, %v, want %v", was, err, want)
			}
		}
		wantStale(t, g.HSet(ctx, "h", "f", "late", 7), 7, 8) // the fence outlives the key
		must(t, g.Admit(ctx, "r", 3))
		wantStale(t, g.Admit(ctx, "r", 2), 2, 3)
		if n := do(t, d, `return #redis.call('keys', 'mortise:op:{r}*')`).Int(); n != 0 {
			t.Errorf("Admit left %d receipts", n)
		}
	})
}

func TestGuardRunsAnyScript(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g, ctx := fencing.NewGuard(d), t.Context()
		defer g.Close()
		move := fencing.NewScript(`
			redis.call('decrby', KEYS[1], ARGV[1])
			return redis.call('incrby', KEYS[2], ARGV[1]) -- the sum`)
		if sum, err := g.Run(ctx, "{acct}", 4, move, []string{"{acct}:a", "{acct}:b"}, "30"); sum != "30" || err != nil {
			t.Errorf("Run = %q, %v", sum, err)
		}
		_, err := g.Run(ctx, "{acct}", 3, move, []string{"{acct}:a", "{acct}:b"}, "30")
		wantStale(t, err, 3, 4)
		wantText(t, d, "{acct}:a", "-30")
		for lua, want := range map[string]string{
			``: "", `return nil`: "", `return false`: "", `return true`: "", `return {1, 2}`: "",
			`return 'text'`: "text", `return 9007199254740991`: "9007199254740991", `return -5`: "-5",
			`return redis.call('ping')`: "PONG",
		} {
			if got, err := g.Run(ctx, "r", 1, fencing.NewScript(lua), nil); got != want || err != nil {
				t.Errorf("%s = %q, %v, want %q", lua, got, err, want)
			}
		}
		for _, lua := range []string{`return redis.pcall('incr')`, `error('no')`, `this is no Lua`} {
			if got, err := g.Run(ctx, "r", 1, fencing.NewScript(lua), nil); got != "" || err == nil {
				t.Errorf("%s = %q, %v, want an error", lua, got, err)
			}
		}
	})
}

func TestGuardRefusesBadInput(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g, ctx := fencing.NewGuard(d), t.Context()
		defer g.Close()
		for _, token := range []int64{0, -1, -1 << 63} {
			if err := g.Set(ctx, "k", "v", token); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("the token %d: %v, want ErrInvalid", token, err)
			}
		}
		for _, name := range []string{"", "a}b", "{open", strings.Repeat("x", 513), "a\nb", "mortise:fence:{k}", "{k}:timeout"} {
			if err := g.Set(ctx, name, "v", 1); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("the key %.20q: %v, want ErrInvalid", name, err)
			}
		}
		if n := do(t, d, `return #redis.call('keys', '*')`).Int(); n != 0 {
			t.Errorf("%d keys were written", n)
		}
		do(t, d, `redis.call('set', KEYS[1], 'x'); redis.call('rpush', KEYS[2], 'x'); return redis.call('rpush', KEYS[3], 'x')`,
			"mortise:fence:{a}", "mortise:fence:{b}", "h")
		for _, key := range []string{"a", "b"} {
			if err := g.Set(ctx, key, "v", 1); !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("a foreign fence: %v, want ErrWrongKind", err)
			}
			wantText(t, d, key, "nothing")
		}
		if err := g.HSet(ctx, "h", "f", "v", 1); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("HSet on a list: %v, want ErrWrongKind", err)
		}
		do(t, d, `return redis.call('hset', KEYS[1], 'owner:1', 1)`, "lock")
		if err := g.Set(ctx, "lock", "v", 1); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("Set on a lock: %v, want ErrWrongKind", err)
		}
		if n := do(t, d, `return redis.call('hlen', KEYS[1])`, "lock").Int(); n != 1 {
			t.Errorf("the lock has %d fields, want 1", n)
		}
	})
}

// cut is a driver that loses requests and replies.
type cut struct {
	driver.Driver
	mu                sync.Mutex
	requests, replies int // to lose; guarded by mu
}

func (c *cut) lose(requests, replies int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.replies = requests, replies
}

func (c *cut) take(n *int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *n == 0 {
		return false
	}
	*n--
	return true
}

var errLost = &driver.Error{Class: driver.Unknown, Err: errors.New("lost by the test")}

func (c *cut) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if c.take(&c.requests) {
		return driver.Value{}, errLost
	}
	v, err := c.Driver.Eval(ctx, call)
	if c.take(&c.replies) {
		return driver.Value{}, errLost
	}
	return v, err
}

// However many replies are lost, a write is done once.
func TestGuardWritesOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		c := &cut{Driver: d}
		g, ctx := fencing.NewGuard(c), t.Context()
		defer g.Close()
		want := int64(0)
		for requests := range 3 {
			for replies := range 3 {
				c.lose(requests, replies)
				want++
				if sum, err := g.IncrBy(ctx, "n", 1, 5); sum != want || err != nil {
					t.Errorf("with %d lost requests and %d replies: %d, %v, want %d", requests, replies, sum, err, want)
				}
			}
		}
		// A repeat that comes after a newer token is still recognized.
		repeat := make(chan error)
		slow := fencing.NewGuard(&afterwards{Driver: d, f: func() { must(t, fencing.NewGuard(d).Set(ctx, "k", "new", 6)) }})
		go func() { repeat <- slow.Set(ctx, "k", "old", 5) }()
		must(t, <-repeat)
		wantText(t, d, "k", "new")
	})
}

// afterwards loses the first reply and then calls f.
type afterwards struct {
	driver.Driver
	f    func()
	once bool
}

func (a *afterwards) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	v, err := a.Driver.Eval(ctx, call)
	if !a.once {
		a.once = true
		a.f()
		return driver.Value{}, errLost
	}
	return v, err
}

func TestGuardGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		c := &cut{Driver: s.Driver()}
		g := fencing.NewGuard(c)
		defer g.Close()
		start := time.Now()
		c.lose(1000, 0)
		if err := g.Set(t.Context(), "k", "v", 1); !errors.Is(err, mortise.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v, want ErrUnknownOutcome after 10s", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := g.Set(ctx, "k", "v", 1); !errors.Is(err, mortise.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v, want the deadline's error after 1s", time.Since(start), err)
		}
		c.lose(0, 0)
		s.Close()
		if err := g.Set(t.Context(), "k", "v", 1); !errors.Is(err, mortise.ErrUnreachable) && !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("without Redis: %v, want ErrUnreachable", err)
		}
	})
}

// Many writers with rising tokens, each with some writes: the log of admitted writes never goes
// back.
func TestGuardAdmitsInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g := fencing.NewGuard(d)
		defer g.Close()
		var all sync.WaitGroup
		for token := range int64(20) {
			all.Go(func() {
				for range 10 {
					_, err := g.Run(t.Context(), "log", token+1, appendLog, []string{"log"}, fmt.Sprint(token+1))
					if err != nil && !errors.Is(err, fencing.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		log := readLog(t, d, "log")
		if !slices.IsSorted(log) || log[len(log)-1] != 20 {
			t.Errorf("the log is %v", log)
		}
	})
}

var appendLog = fencing.NewScript(`redis.call('rpush', KEYS[1], ARGV[1])`)

func readLog(t *testing.T, d driver.Driver, key string) (log []int64) {
	t.Helper()
	v := do(t, d, `return redis.call('lrange', KEYS[1], 0, -1)`, key)
	for i := range v.Len() {
		n, err := strconv.ParseInt(v.At(i).Str(), 10, 64)
		must(t, err)
		log = append(log, n)
	}
	return log
}

// If Redis has lost a fence, a guard that has seen it admits nothing, not even the newest token:
// there may have been newer ones.
func TestGuardNoticesThatTheFenceWentBack(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g := fencing.NewGuard(d)
		must(t, g.Set(t.Context(), "account", "x", 7))
		wantStale(t, g.Set(t.Context(), "account", "late", 3), 3, 7)
		const fence = "mortise:fence:{account}"
		for _, lose := range []string{`return redis.call('del', KEYS[1])`, `return redis.call('set', KEYS[1], 6)`} {
			do(t, d, lose, fence)
			for _, token := range []int64{3, 6, 7, 8} {
				for _, err := range []error{g.Set(t.Context(), "account", "late", token), g.Admit(t.Context(), "account", token)} {
					var e *mortise.FenceError
					if !errors.Is(err, mortise.ErrFenceRegressed) || !errors.As(err, &e) || e.Seen != 7 || e.Key != fence {
						t.Errorf("token %d after the fence was lost: %v, want ErrFenceRegressed, and that 7 was seen", token, err)
					}
				}
			}
			wantText(t, d, "account", "x")
		}
		do(t, d, `return redis.call('set', KEYS[1], 7)`, fence) // the correction that the error text asks for
		wantStale(t, g.Set(t.Context(), "account", "late", 6), 6, 7)
		must(t, g.Set(t.Context(), "account", "y", 8))
		wantText(t, d, "account", "y")
	})
}

// A token that a guard has learned from a refusal counts as well.
func TestGuardNoticesByWhatOthersHaveWritten(t *testing.T) {
	everywhere(t, func(t *testing.T, d driver.Driver) {
		g := fencing.NewGuard(d)
		do(t, d, `return redis.call('set', KEYS[1], 9)`, "mortise:fence:{account}")
		wantStale(t, g.Set(t.Context(), "account", "late", 3), 3, 9)
		do(t, d, `return redis.call('del', KEYS[1])`, "mortise:fence:{account}")
		if err := g.Set(t.Context(), "account", "late", 3); !errors.Is(err, mortise.ErrFenceRegressed) {
			t.Errorf("%v, want ErrFenceRegressed", err)
		}
	})
}
