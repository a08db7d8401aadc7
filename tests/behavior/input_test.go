package behavior

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

func TestBadInputIsRefusedAndNothingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		refused := func(what string, k *mortise.Lock) {
			t.Helper()
			_, _, err := k.Lock(t.Context())
			_, _, terr := k.TryLock(t.Context())
			derr := k.Do(t.Context(), func(context.Context) error { t.Errorf("%s: Do ran", what); return nil })
			for op, err := range map[string]error{"Lock": err, "TryLock": terr, "Do": derr} {
				if !errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%s of %s: %v, want ErrInvalid", op, what, err)
				}
			}
		}
		for _, name := range []string{
			"", strings.Repeat("x", 513), "a\x00b", "\xff\xfe\xfd", "line\nbreak",
			"a}b", "x{}y", "{}z", "{open", "redisson_lock_queue:{job}", "mortise:x",
		} {
			refused("the name "+name, c.Lock(name))
			if _, err := c.Lock(name).ForceUnlock(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("ForceUnlock of %q: %v, want ErrInvalid", name, err)
			}
			if _, err := c.Lock(name).Inspect(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("Inspect of %q: %v, want ErrInvalid", name, err)
			}
		}
		for _, o := range []mortise.LockOptions{
			{MaxHold: -1}, {MaxHold: -time.Second}, {MaxHold: math.MinInt64}, {MaxHold: 999 * time.Microsecond}, {MaxHold: 1},
			{MaxHold: math.MaxInt64}, {MaxHold: 367 * 24 * time.Hour},
			{Margin: -1}, {Margin: 30 * time.Second}, {MaxHold: time.Second, Margin: time.Second},
		} {
			refused("a lock with odd options", c.Lock("job").With(o))
		}
		for _, o := range []mortise.Options{
			{TTL: -1}, {TTL: 99 * time.Millisecond}, {TTL: math.MaxInt64}, {PubSub: 4}, {PubSub: -1},
			{FairWait: -1}, {FairWait: time.Millisecond - 1}, {FairWait: 367 * 24 * time.Hour},
		} {
			bad, badf := open(t, s, &o)
			refused("a client with odd options", bad.Lock("job"))
			if n := badf.Total(); n != 0 {
				t.Errorf("options %+v: %d scripts were sent, want 0", o, n)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent for bad input, want 0", n)
		}
	})
}

// A name that is the key of a semaphore's permits is refused to every kind, unless any name is
// admitted; with other ends, or without braces, it is a name as any other.
func TestKeysOfPermitsAreNoNames(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for name, prefix := range map[string]string{"{job}:timeout": "", "{order}:p:timeout": "app:", "timeout": "{t}:"} {
			c, f := open(t, s, &mortise.Options{Prefix: prefix})
			for kind, use := range eachUse() {
				if err := use(c, t.Context(), name); !errors.Is(err, mortise.ErrInvalid) || !strings.Contains(err.Error(), "Options.AllowAnyName") {
					t.Errorf("%s with the prefix %q and the name %q: %v, want ErrInvalid and the option that admits it", kind, prefix, name, err)
				}
			}
			if n := f.Total(); n != 0 {
				t.Errorf("%d scripts were sent, want 0", n)
			}
			any, _ := open(t, s, &mortise.Options{Prefix: prefix, AllowAnyName: true})
			hold, _ := mustLock(t, any.Lock(name), t.Context())
			mustUnlock(t, hold)
		}
		c, _ := open(t, s, nil)
		for _, name := range []string{"timeout", "job:timeout", "{job}:timeouts", "{job}timeout", "{job}:timeout:x"} {
			hold, _ := mustLock(t, c.Lock(name), t.Context())
			mustUnlock(t, hold)
		}
	})
}

// eachUse is an operation of each kind, and Inspect.
func eachUse() map[string]func(c *mortise.Client, ctx context.Context, name string) error {
	uses := map[string]func(c *mortise.Client, ctx context.Context, name string) error{
		"Inspect": func(c *mortise.Client, ctx context.Context, name string) error {
			_, err := c.Inspect(ctx, name)
			return err
		},
		"Semaphore": func(c *mortise.Client, ctx context.Context, name string) error {
			return c.Semaphore(name).Release(ctx, 1)
		},
		"CountDownLatch": func(c *mortise.Client, ctx context.Context, name string) error {
			return c.CountDownLatch(name).CountDown(ctx)
		},
		"PermitSemaphore": func(c *mortise.Client, ctx context.Context, name string) error {
			return c.PermitSemaphore(name).SetPermits(ctx, 1)
		},
		"Barrier": func(c *mortise.Client, ctx context.Context, name string) error { return c.Barrier(name, 2).Reset(ctx) },
		"DoubleBarrier": func(c *mortise.Client, ctx context.Context, name string) error {
			_, _, err := c.DoubleBarrier(name, 2).Enter(ctx)
			return err
		},
		"Election": func(c *mortise.Client, ctx context.Context, name string) error {
			_, _, err := c.Election(name).Campaign(ctx, "me")
			return err
		},
	}
	for kind, k := range locktest.Kinds {
		uses[kind] = func(c *mortise.Client, ctx context.Context, name string) error {
			_, _, err := k.Open(c, name, mortise.LockOptions{}).Lock(ctx)
			return err
		}
	}
	return uses
}

func TestShortestLeaseWorks(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, _ := mustLock(t, c.Lock("job").With(mortise.LockOptions{MaxHold: time.Millisecond}), t.Context())
		mustUnlock(t, hold)
	})
}

// clusterDriver says that it is a cluster.
type clusterDriver struct{ driver.Driver }

func (clusterDriver) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

func TestAnyNameIsAdmittedWhereItCanWork(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		single, _ := open(t, s, &mortise.Options{AllowAnyName: true})
		cluster := mortise.New(clusterDriver{s.Driver()}, &mortise.Options{AllowAnyName: true})
		defer cluster.Close()
		for _, name := range []string{"a}b", "x{}y", "{}z", "{open", "{\x1b\n\xff", "{" + strings.Repeat("x", 600)} {
			hold, _ := mustLock(t, single.Lock(name), t.Context())
			mustUnlock(t, hold)
			if _, _, err := cluster.Lock(name).Lock(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("Lock of %q on a cluster: %v, want ErrInvalid", name, err)
			}
		}
		hold, _ := mustLock(t, single.Lock("redisson_x"), t.Context())
		mustUnlock(t, hold)
		if _, _, err := single.Lock("").Lock(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("Lock of the empty name: %v, want ErrInvalid", err)
		}
	})
}

func TestForeignDataIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, s *memredis.Server, lua string) {
		t.Helper()
		d := s.Driver()
		defer d.Close()
		if _, err := d.Eval(t.Context(), driver.Call{Script: driver.NewScript("test", lua), Keys: []string{"job"}}); err != nil {
			t.Fatal(err)
		}
	}
	for what, lua := range map[string]string{
		"a string":          `return redis.call('set', KEYS[1], '5')`,
		"a list":            `return redis.call('rpush', KEYS[1], 'x')`,
		"a read/write lock": `return redis.call('hset', KEYS[1], 'mode', 'write', 'u:1:write', '1')`,
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				write(t, s, lua)
				k := c.Lock("job")
				_, _, err := k.Lock(t.Context())
				_, _, terr := k.TryLock(t.Context())
				_, ferr := k.ForceUnlock(t.Context())
				for op, err := range map[string]error{"Lock": err, "TryLock": terr, "ForceUnlock": ferr} {
					if !errors.Is(err, mortise.ErrWrongKind) {
						t.Errorf("%s: %v, want ErrWrongKind", op, err)
					}
				}
				state, err := k.Inspect(t.Context())
				if err != nil || state.Kind == mortise.KindNone || state.Kind == mortise.KindLock {
					t.Errorf("Inspect = %+v, %v, want another kind", state, err)
				}
			})
		})
	}
	t.Run("a lock that turns into something else", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, _ := open(t, s, nil)
			healthy, _ := mustLock(t, c.Lock("other"), t.Context())
			hold, ctx := mustLock(t, c.Lock("job"), t.Context())
			write(t, s, `redis.call('del', KEYS[1]) return redis.call('set', KEYS[1], 'x')`)
			wantLost(t, ctx, hold, mortise.LostTaken, 0, 10*time.Second)
			time.Sleep(time.Minute)
			mustUnlock(t, healthy) // the batch it shared went on
		})
	})
	t.Run("a lock without TTL", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, _ := open(t, s, nil)
			write(t, s, `return redis.call('hset', KEYS[1], '11111111-2222-4333-8444-555555555555:1', '3')`)
			_, _, err := c.Lock("job").TryLock(t.Context())
			var held *mortise.HeldError
			if !errors.As(err, &held) || held.TTL != -1 || held.Count != 3 {
				t.Errorf("TryLock: %v, want a HeldError without TTL and with count 3", err)
			}
			time.AfterFunc(time.Hour, func() { write(t, s, `return redis.call('del', KEYS[1])`) })
			hold, _ := mustLock(t, c.Lock("job"), t.Context()) // survives the wait
			mustUnlock(t, hold)
		})
	})
}
