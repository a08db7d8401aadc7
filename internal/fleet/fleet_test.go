package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a fleet on s that is stopped at the end of the test, and a client that looks at it.
func start(t *testing.T, s *memredis.Server, o *Options) (*Fleet, *mortise.Client) {
	t.Helper()
	f, err := Start(t.Context(), func(context.Context) (driver.Driver, error) { return s.Driver(), nil }, o)
	if err != nil {
		t.Fatal(err)
	}
	look := mortise.New(s.Driver(), &mortise.Options{Prefix: prefixOf(o), AllowAnyName: true})
	t.Cleanup(func() {
		look.Close()
		f.Stop()
		if err := f.Err(); err != nil {
			t.Errorf("the fleet met with %v", err)
		}
	})
	return f, look
}

func prefixOf(o *Options) string {
	if o == nil {
		return ""
	}
	return o.Prefix
}

// Whoever looks once a second for a minute sees all scenes.
func TestEachSceneAppearsWithinAMinute(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		_, look := start(t, s, nil)
		missing := make(map[Scene]bool)
		for _, scene := range Scenes() {
			missing[scene] = true
		}
		began := time.Now()
		for len(missing) > 0 && time.Since(began) < time.Minute {
			time.Sleep(time.Second)
			clients := clientsOf(t, look)
			for scene := range missing {
				if scene.shown(clients) {
					t.Logf("%s after %v", scene, time.Since(began))
					delete(missing, scene)
				}
			}
		}
		for scene := range missing {
			t.Errorf("the scene %q did not appear", scene)
		}
	})
}

// Scenes that are asked for come, and stay for longer than they stay by themselves.
func TestScenesStay(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		f, look := start(t, s, nil)
		time.Sleep(22 * time.Second) // the first rounds are over, or nearly
		keep := []Scene{StuckDeploy, Deadlock}
		for _, scene := range keep {
			if err := f.Scene(t.Context(), scene); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			clients := clientsOf(t, look)
			for _, scene := range keep {
				if !scene.shown(clients) {
					t.Fatalf("the scene %q does not stay", scene)
				}
			}
			time.Sleep(3 * time.Second)
		}
		if err := f.Scene(t.Context(), "opera"); err == nil || !strings.Contains(err.Error(), `"stuck deploy"`) {
			t.Errorf("a scene that does not exist: error %v, want the names of those that do", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Scene(ctx, StuckDeploy); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: error %v, want its own", err)
		}
	})
}

// The silent client is there for ten seconds more when it was asked for.
func TestSilentClientStaysForTenSeconds(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		f, look := start(t, s, nil)
		if err := f.Scene(t.Context(), Silent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9500 * time.Millisecond)
		for _, c := range clientsOf(t, look) {
			if strings.HasPrefix(c.Host, "edge-") && c.Silent > silentAfter && len(c.Holds) == 1 {
				return
			}
		}
		t.Error("it is gone")
	})
}

// A newcomer finds the process that blocks the deploy by three looks, and asks it to release its lock.
func TestStuckDeployGetsOnWhenTheLastHolderIsAsked(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		f, look := start(t, s, nil)
		if err := f.Scene(t.Context(), StuckDeploy); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ lock, host string }{{deploy, "api-7"}, {migrate, "db-2"}, {backup, "store-1"}} {
			state, err := look.Inspect(t.Context(), step.lock)
			if err != nil {
				t.Fatal(err)
			}
			if len(state.Holders) != 1 || state.Holders[0].Client == nil || state.Holders[0].Client.Host != step.host {
				t.Errorf("%s is held by %+v, want %s", step.lock, state.Holders, step.host)
			}
		}
		asked, err := look.Ask(t.Context(), backup, "a deploy waits")
		if err != nil || len(asked) != 1 || !asked[0].Asked {
			t.Fatalf("asked %+v, %v", asked, err)
		}
		time.Sleep(3 * time.Second)
		queue, err := look.Queue(t.Context(), deploy)
		if err != nil || len(queue.Waiters) > 0 {
			t.Errorf("%+v, %v still wait for deploy", queue.Waiters, err)
		}
	})
}

// The fleet is as a fleet of processes: their ids differ, in records and histories.
func TestProcessesDiffer(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		_, look := start(t, s, nil)
		time.Sleep(10 * time.Second)
		hosts := make(map[int]string)
		clients := clientsOf(t, look)
		for _, c := range clients {
			if other := hosts[c.PID]; other != "" || c.App == "" || !c.Started.Before(time.Now()) {
				t.Errorf("%s: process %d, as %q, started %v", &c.ClientInfo, c.PID, other, c.Started)
			}
			hosts[c.PID] = c.Host
		}
		if len(clients) < 12 {
			t.Errorf("there are %d clients, want a dozen", len(clients))
		}
		list, err := look.History(t.Context(), outbox, 100)
		if err != nil || len(list) < 3 {
			t.Fatalf("the history of %s is %v, %v", outbox, list, err)
		}
		for _, a := range list {
			if hosts[a.PID] != a.Host {
				t.Errorf("process %d of %s is in the history of %s", a.PID, a.Host, outbox)
			}
		}
	})
}

// Nothing is left ten minutes after Stop, and what is left before has an end.
func TestStopLeavesNothing(t *testing.T) {
	for _, prefix := range []string{"", "shop:"} {
		t.Run(prefix, func(t *testing.T) {
			locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
				f, look := start(t, s, &Options{Prefix: prefix, Seed: 7})
				time.Sleep(20 * time.Second)
				mine := mortise.New(s.Driver(), nil)
				defer mine.Close()
				hold, _ := locktest.MustLock(t, mine.Lock("mine"), t.Context())
				f.Stop()
				f.Stop() // harmless
				if n := len(clientsOf(t, look)); n > 0 {
					t.Errorf("%d records are left", n)
				}
				for state, err := range look.Locks(t.Context(), "*") {
					if err != nil || state.Name != "mine" {
						t.Errorf("%s is left, %v", state.Name, err)
					}
				}
				locktest.MustUnlock(t, hold)
				time.Sleep(10 * time.Minute)
				if left := locktest.Do(t, s, "KEYS", "*"); left.Len() > 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// What an actor does follows from the seed and from its name.
func TestSeedDecides(t *testing.T) {
	draws := func(seed uint64, host, name string) (list []time.Duration) {
		a := (&Fleet{seed: seed}).actor(host, name)
		for range 5 {
			list = append(list, a.between(time.Second, time.Hour))
		}
		return list
	}
	first := draws(3, "api-7", "x")
	if again := draws(3, "api-7", "x"); !slices.Equal(first, again) {
		t.Errorf("with the same seed it draws %v, then %v", first, again)
	}
	for what, other := range map[string][]time.Duration{"seed": draws(4, "api-7", "x"), "host": draws(3, "api-8", "x"), "name": draws(3, "api-7", "y")} {
		if slices.Equal(first, other) {
			t.Errorf("with another %s it draws the same: %v", what, first)
		}
	}
}

// The fleet does not ask more of Redis than an embedded one can do with ease.
func TestLoadIsBounded(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		var calls atomic.Int64
		f, err := Start(t.Context(), func(context.Context) (driver.Driver, error) { return &counted{s.Driver(), &calls}, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Stop()
		calls.Store(0)
		const seconds = 20
		time.Sleep(seconds * time.Second)
		if n := calls.Load() / seconds; n < 10 || n > 200 {
			t.Errorf("it sends %d scripts a second, want from 10 to 200", n)
		} else {
			t.Logf("%d scripts a second", n)
		}
	})
}

type counted struct {
	driver.Driver
	n *atomic.Int64
}

func (c *counted) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	c.n.Add(1)
	return c.Driver.Eval(ctx, call)
}

func (c *counted) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	c.n.Add(int64(len(calls)))
	return c.Driver.Batch(ctx, calls)
}

// A fleet that cannot connect leaves nothing behind.
func TestStartFails(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		broken := errors.New("no route to host")
		for _, works := range []int{0, 1, 7} {
			n := 0
			f, err := Start(t.Context(), func(context.Context) (driver.Driver, error) {
				if n++; n > works {
					return nil, broken
				}
				return s.Driver(), nil
			}, nil)
			if f != nil || !errors.Is(err, broken) {
				t.Errorf("after %d connections: %v, %v", works, f, err)
			}
		}
	})
}

func clientsOf(t *testing.T, c *mortise.Client) []mortise.ClientState {
	t.Helper()
	clients, err := c.Clients(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return clients
}
