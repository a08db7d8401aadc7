package migration

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/memredis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// old is an embedded Redis with a client of each library.
type old struct {
	rdb         *redis.Client
	redsync     *redsync.Redsync
	rueidislock rueidislock.Locker
	mortise     *mortise.Client
}

func newOld(t *testing.T) *old {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	o := &old{rdb: redis.NewClient(&redis.Options{Addr: server.Addr()})}
	t.Cleanup(func() { _ = o.rdb.Close() })
	o.redsync = redsync.New(redsyncpool.NewPool(o.rdb))
	o.rueidislock, err = rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, AlwaysRESP2: true},
		KeyMajority:  1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.rueidislock.Close)
	o.mortise = mortise.New(goredis.Wrap(o.rdb), nil)
	t.Cleanup(func() {
		if err := o.mortise.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func TestBefore(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	for name, run := range map[string]func(work) error{
		"redsync":     func(w work) error { return redsyncBefore(t.Context(), o.redsync, w) },
		"redislock":   func(w work) error { return redislockBefore(t.Context(), o.rdb, nothing, w) },
		"rueidislock": func(w work) error { return rueidislockBefore(t.Context(), o.rueidislock, w) },
	} {
		for range 2 { // so the first one has released the lock
			done := false
			if err := run(func(ctx context.Context) error { done = true; return ctx.Err() }); err != nil || !done {
				t.Errorf("%s: done: %v, %v", name, done, err)
			}
		}
	}
}

// after has the functions that use mortise, and the lock that each of them takes.
var after = map[string]struct {
	name string
	run  func(context.Context, *mortise.Client, work) error
}{
	"redsync": {"order:42", redsyncAfter},
	"redsync, several servers": {"order:42", func(ctx context.Context, c *mortise.Client, w work) error {
		return redsyncServers(ctx, []*mortise.Client{c}, w)
	}},
	"redislock": {"report", func(ctx context.Context, c *mortise.Client, w work) error {
		return redislockAfter(ctx, c, nothing, w)
	}},
	"rueidislock": {"leader", rueidislockAfter},
	"Redisson's tryLock": {"order:42", func(ctx context.Context, c *mortise.Client, w work) error {
		return tryLock(ctx, c, w, func() error { return mortise.ErrLocked })
	}},
	"Redisson's re-entry": {"order:42", reenter},
}

// Each of them does the work under its lock, and releases the lock.
func TestAfter(t *testing.T) {
	t.Parallel()
	for kind, a := range after {
		bubble(t, func(t *testing.T, server *memredis.Server, client *mortise.Client) {
			other := open(t, server)
			err := a.run(t.Context(), client, func(ctx context.Context) error {
				time.Sleep(9 * time.Second) // less than the MaxHold of one of them
				if _, _, err := other.Lock(a.name).TryLock(ctx); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("%s: meanwhile another client got %v, want ErrLocked", kind, err)
				}
				return ctx.Err()
			})
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if _, _, err := other.Lock(a.name).TryLock(t.Context()); err != nil {
				t.Errorf("%s: afterwards another client got %v", kind, err)
			}
		})
	}
}

// Those with a limit give up when it is over.
func TestAfterGivesUp(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]error{
		"redsync": mortise.ErrLocked, "redislock": errBusy, "Redisson's tryLock": mortise.ErrLocked,
	} {
		bubble(t, func(t *testing.T, server *memredis.Server, client *mortise.Client) {
			if _, _, err := open(t, server).Lock(after[kind].name).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			err := after[kind].run(ctx, client, nothing)
			if took := time.Since(start); !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
				t.Errorf("%s: %v after %v, want %v after 5s", kind, err, took, want)
			}
		})
	}
}

// The end of the limit for waiting is not the end of the work.
func TestWorkOutlastsTheWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *memredis.Server, client *mortise.Client) {
		err := redsyncAfter(t.Context(), client, func(ctx context.Context) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestIsHeld(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *memredis.Server, client *mortise.Client) {
		err := reenter(t.Context(), client, func(ctx context.Context) error {
			if !isHeld(ctx) {
				t.Error("it is not held under the lock")
			}
			return nil
		})
		if err != nil || isHeld(t.Context()) {
			t.Errorf("%v; held afterwards: %v", err, isHeld(t.Context()))
		}
	})
}

func TestPermits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, _ *memredis.Server, client *mortise.Client) {
		if _, err := client.PermitSemaphore("licenses").TrySetPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		err := permits(t.Context(), client, func(ctx context.Context) error {
			err := permits(ctx, client, nothing)
			if !errors.Is(err, mortise.ErrNoPermits) {
				t.Errorf("a second one got %v, want ErrNoPermits", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// redsync and redislock use the key that mortise uses: each refuses what another one holds. The keys of
// rueidislock are others.
func TestOneName(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	hold, ctx, err := o.mortise.Lock("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var taken *redsync.ErrTaken
	mutex := o.redsync.NewMutex("a")
	if err := mutex.TryLockContext(ctx); !errors.As(err, &taken) {
		t.Errorf("redsync, while mortise has it: %v, want ErrTaken", err)
	}
	if _, err := redislock.Obtain(ctx, o.rdb, "a", time.Minute, nil); err == nil || errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("redislock, while mortise has it: %v, want an error of Redis", err)
	}
	_, release, err := o.rueidislock.TryWithContext(ctx, "a")
	if err != nil {
		t.Errorf("rueidislock, while mortise has it: %v, want none", err)
	}
	release()
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}

	if err := mutex.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.mortise.Lock("a").Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
		t.Errorf("mortise, while redsync has it: %v, want ErrWrongKind", err)
	}
	if _, err := mutex.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock, err := redislock.Obtain(t.Context(), o.rdb, "a", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.mortise.Lock("a").Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
		t.Errorf("mortise, while redislock has it: %v, want ErrWrongKind", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// While the first release is rolled out, some processes take the old lock and some take both; during the
// second one, some take both and some the new lock only.
func TestRollout(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	// On a busy machine, too, nobody gives up, and no lock ends before its work.
	options := []redsync.Option{redsync.WithTries(1_000_000), redsync.WithRetryDelay(time.Millisecond), redsync.WithExpiry(time.Minute)}
	takesOld := func(w work) error {
		mutex := o.redsync.NewMutex("order:42", options...)
		if err := mutex.Lock(); err != nil {
			return err
		}
		defer mutex.Unlock()
		return w(t.Context())
	}
	takesBoth := func(w work) error { return both(t.Context(), o.redsync, o.mortise, "order:42", w, options...) }
	takesNew := func(w work) error { return o.mortise.Lock("v2:order:42").Do(t.Context(), w) }
	for stage, processes := range map[string][]func(work) error{
		"first": {takesOld, takesBoth}, "second": {takesBoth, takesNew},
	} {
		var inside, together atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 10 {
					err := processes[i%2](func(ctx context.Context) error {
						if inside.Add(1) > 1 {
							together.Add(1)
						}
						defer inside.Add(-1)
						return o.rdb.Ping(ctx).Err() // others run meanwhile
					})
					if err != nil {
						t.Errorf("%s: %v", stage, err)
					}
				}
			})
		}
		if all.Wait(); together.Load() > 0 {
			t.Errorf("%s release: %d times, two were inside at the same time", stage, together.Load())
		}
	}
}

func nothing(context.Context) error { return nil }

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T, server *memredis.Server, client *mortise.Client)) {
	synctest.Test(t, func(t *testing.T) {
		server := memredis.New()
		t.Cleanup(server.Close)
		f(t, server, open(t, server))
	})
}

func open(t *testing.T, server *memredis.Server) *mortise.Client {
	client := mortise.New(server.Driver(), nil)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
