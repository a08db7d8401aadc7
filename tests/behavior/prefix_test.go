package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// contest is how an object is held, and waited for.
type contest struct {
	hold func(t *testing.T, c *mortise.Client, name string) (release func()) // ends the wait
	wait func(ctx context.Context, c *mortise.Client, name string) error
}

// contests are those of every kind of object.
func contests() map[string]contest {
	all := map[string]contest{
		"RWLock.Read": {ofLock(func(c *mortise.Client, name string) taker { return c.RWLock(name).Write() }).hold,
			ofLock(func(c *mortise.Client, name string) taker { return c.RWLock(name).Read() }).wait},
		"MultiLock": ofLock(func(c *mortise.Client, name string) taker { return multi(c, name, name+":2") }),
		"Semaphore": {func(t *testing.T, c *mortise.Client, name string) func() {
			_, err := c.Semaphore(name).TrySetPermits(t.Context(), 1)
			check(t, err, c.Semaphore(name).Acquire(t.Context(), 1))
			return func() { check(t, c.Semaphore(name).Release(t.Context(), 1)) }
		}, func(ctx context.Context, c *mortise.Client, name string) error {
			return c.Semaphore(name).Do(ctx, 1, nothing)
		}},
		"PermitSemaphore": {func(t *testing.T, c *mortise.Client, name string) func() {
			_, err := c.PermitSemaphore(name).TrySetPermits(t.Context(), 1)
			hold, _, aerr := c.PermitSemaphore(name).Acquire(t.Context())
			check(t, err, aerr)
			return func() { mustUnlock(t, hold) }
		}, func(ctx context.Context, c *mortise.Client, name string) error {
			return c.PermitSemaphore(name).Do(ctx, nothing)
		}},
		"CountDownLatch": {func(t *testing.T, c *mortise.Client, name string) func() {
			_, err := c.CountDownLatch(name).TrySetCount(t.Context(), 1)
			check(t, err)
			return func() { check(t, c.CountDownLatch(name).CountDown(t.Context())) }
		}, func(ctx context.Context, c *mortise.Client, name string) error {
			return c.CountDownLatch(name).Wait(ctx)
		}},
		"Barrier": {func(t *testing.T, c *mortise.Client, name string) func() {
			return func() { check(t, arriveAt(t.Context(), c, name)) }
		}, arriveAt},
		"Election": {func(t *testing.T, c *mortise.Client, name string) func() {
			term, _, err := c.Election(name).Campaign(t.Context(), "a")
			check(t, err)
			return func() { check(t, term.Resign()) }
		}, func(ctx context.Context, c *mortise.Client, name string) error {
			term, _, err := c.Election(name).Campaign(ctx, "b")
			if err != nil {
				return err
			}
			return term.Resign()
		}},
		"DoubleBarrier": {func(t *testing.T, c *mortise.Client, name string) func() {
			return func() { check(t, passThrough(t.Context(), c, name)) }
		}, passThrough},
	}
	for name, k := range kinds {
		all[name] = ofLock(func(c *mortise.Client, name string) taker { return k.Open(c, name, mortise.LockOptions{}) })
	}
	return all
}

func ofLock(open func(c *mortise.Client, name string) taker) contest {
	return contest{func(t *testing.T, c *mortise.Client, name string) func() {
		hold, _ := must(t, open(c, name), t.Context())
		if hold.Name() != open(c, name).Name() {
			t.Errorf("a hold of %s is called %s", open(c, name).Name(), hold.Name())
		}
		return func() { mustUnlock(t, hold) }
	}, func(ctx context.Context, c *mortise.Client, name string) error { return open(c, name).Do(ctx, nothing) }}
}

func arriveAt(ctx context.Context, c *mortise.Client, name string) error {
	_, err := c.Barrier(name, 2).Await(ctx)
	return err
}

func passThrough(ctx context.Context, c *mortise.Client, name string) error {
	member, _, err := c.DoubleBarrier(name, 2).Enter(ctx)
	if err != nil {
		return err
	}
	return member.Leave(ctx)
}

func nothing(context.Context) error { return nil }

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A name with a prefix is the same object as the name that contains it, down to each key and channel:
// the holder of one wakes the waiters for the other. Objects of one name with different prefixes have
// nothing to do with each other.
func TestPrefixIsPartOfTheName(t *testing.T) {
	t.Parallel()
	for kind, k := range contests() {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				type side struct{ prefix, name string }
				worlds := []struct{ holder, waiter side }{
					{side{"a:", "job"}, side{"", "a:job"}},
					{side{"", "b:job"}, side{"b:", "job"}},
					{side{"", "job"}, side{"", "job"}},
					{side{"{t}", "job"}, side{"{t}j", "ob"}},
					{side{"a:", "{job}"}, side{"", "a:{job}"}},
				}
				object := func(of side) (*mortise.Client, string) {
					c, _ := open(t, s, &mortise.Options{Prefix: of.prefix})
					return c, of.name
				}
				var releases []func()
				var waits []chan error
				for _, w := range worlds {
					c, name := object(w.holder)
					releases = append(releases, k.hold(t, c, name))
					waiting := make(chan error, 1)
					waits = append(waits, waiting)
					go func() {
						c, name := object(w.waiter)
						waiting <- k.wait(t.Context(), c, name)
					}()
				}
				time.Sleep(100 * time.Millisecond)
				for i := range worlds {
					synctest.Wait()
					for j := i; j < len(worlds); j++ {
						if len(waits[j]) > 0 {
							t.Fatalf("%+v: the wait ended (%v) before the release", worlds[j], <-waits[j])
						}
					}
					start := time.Now()
					releases[i]()
					if err := <-waits[i]; err != nil || time.Since(start) > 400*time.Millisecond {
						t.Errorf("%+v: the wait ended %v after the release, with %v", worlds[i], time.Since(start), err)
					}
				}
			})
		})
	}
}

// The application sees the names that it uses.
func TestPrefixIsNotShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, &mortise.Options{Prefix: "a*:"})
		hold, hctx := mustLock(t, c.Lock("job"), t.Context())
		from, _ := mortise.HoldFrom(hctx)
		for what, name := range map[string]string{
			"the lock": c.Lock("job").Name(), "the hold": hold.Name(), "the hold of the context": from.Name(), "a batch": multi(c, "job").Name(),
			"an election": c.Election("job").Name(), "a latch": c.CountDownLatch("job").Name(), "permits": c.PermitSemaphore("job").Name(),
		} {
			if name != "job" {
				t.Errorf("%s is called %s, want job", what, name)
			}
		}
		_, _, err := multi(c, "job", "other").TryLock(t.Context())
		if e, _ := errors.AsType[*mortise.Error](err); e == nil || e.Name != "job" {
			t.Errorf("a batch is refused with %v, want the name job", err)
		}
		for what, inspect := range map[string]func(context.Context) (mortise.State, error){
			"the client": func(ctx context.Context) (mortise.State, error) { return c.Inspect(ctx, "job") }, "the lock": c.Lock("job").Inspect,
		} {
			if state, err := inspect(hctx); err != nil || state.Name != "job" || !state.Locked {
				t.Errorf("%s sees %+v, %v, want the lock job", what, state, err)
			}
		}
		if by, err := c.Lock("job").ForceUnlock(t.Context()); err != nil || by.Owner != hold.Owner() || hold.Valid() {
			t.Errorf("ForceUnlock = %v, %v, want the hold to end", by, err)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) || strings.Contains(err.Error(), "a*:") {
			t.Errorf("Unlock = %v, want ErrLost of job", err)
		}
	})
}

// A walk shows what begins with the prefix, and nothing that only matches it as a pattern.
func TestPrefixLimitsAWalk(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		plain, _ := open(t, s, nil)
		similar := map[string]string{`a*:`: "abc:job", `a?:`: "ab:job", `[ab]:`: "a:job", `a\:`: "a:job", `a:`: "b:job"}
		for prefix, other := range similar {
			c := mortise.New(s.Driver(), &mortise.Options{Prefix: prefix})
			ours, _ := mustLock(t, c.Lock("job"), t.Context())
			var foreign []*mortise.Hold
			for _, name := range []string{"job", prefix, other, "x" + prefix + "job"} {
				hold, _ := mustLock(t, plain.Lock(name), t.Context())
				foreign = append(foreign, hold)
			}
			for pattern, want := range map[string]string{"*": "job " + ours.Owner(), "j*": "job " + ours.Owner(), "other": ""} {
				var listed []string
				for state, err := range c.Locks(t.Context(), pattern) {
					check(t, err)
					listed = append(listed, state.Name+" "+state.Holders[0].Owner)
				}
				if got := strings.Join(listed, ", "); got != want {
					t.Errorf("a walk over %s with the prefix %s shows %q, want %q", pattern, prefix, got, want)
				}
			}
			for _, hold := range append(foreign, ours) {
				mustUnlock(t, hold)
			}
			check(t, c.Close())
		}
	})
}

// What was granted to a client that no longer needs it goes back under the same name.
func TestPrefixIsPutOnceBeforeAGrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, &mortise.Options{Prefix: "a:"})
		plain, _ := open(t, s, nil)
		hold, _ := mustLock(t, plain.Lock("a:job"), t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, _, err := c.Lock("job").Lock(ctx)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		mustUnlock(t, hold)
		wantHad(t, plain.Lock("a:job"))
		wantEmpty(t, s)
	})
}

func TestPrefixesOfTheMembersOfAMultiLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, &mortise.Options{Prefix: "a:"})
		b, _ := open(t, s, &mortise.Options{Prefix: "b:"})
		plain, _ := open(t, s, nil)
		hold, _ := must(t, mortise.NewMultiLock(a.Lock("job"), b.Lock("job"), plain.Lock("job")), t.Context())
		for _, name := range []string{"a:job", "b:job", "job"} {
			if state, err := plain.Inspect(t.Context(), name); err != nil || !state.Locked {
				t.Errorf("%s is %+v, %v, want it locked", name, state, err)
			}
		}
		mustUnlock(t, hold)
	})
}

func TestPrefixesOfTheServersOfARedlock(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		var clients []*mortise.Client
		for i, prefix := range []string{"a:", "b:", ""} {
			c, _ := open(t, servers[i], &mortise.Options{Prefix: prefix})
			clients = append(clients, c)
		}
		k := mortise.NewRedlock("job", clients...)
		hold, _ := must(t, k, t.Context())
		if k.Name() != "job" || hold.Name() != "job" {
			t.Errorf("the lock is called %s, and its hold %s", k.Name(), hold.Name())
		}
		synctest.Wait()
		for i, name := range []string{"a:job", "b:job", "job"} {
			if n := do(t, servers[i], "EXISTS", name).Int(); n != 1 {
				t.Errorf("server %d does not have %s", i, name)
			}
		}
		mustUnlock(t, hold)
	})
}

func TestPrefixWithWhichNoNameWorksIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for _, bad := range []struct{ prefix, name string }{
			{strings.Repeat("x", 512), "job"}, {"a\x00b", "job"}, {"a\n", "job"}, {"\xff", "job"}, {"redisson_", "job"}, {"mortise:", "job"},
			{"{open", "job"}, {"x{}", "job"}, {"a}", "job"}, {"{open", "}"},
			{"a:", ""}, {"a:", "b}"}, {"mort", "ise:x"}, {strings.Repeat("x", 511), "ab"}, {"a:", "\x7f"}, {"a:rwlock_timeout", ":rwlock_timeout:1"},
		} {
			c, f := open(t, s, &mortise.Options{Prefix: bad.prefix})
			_, _, lerr := c.Lock(bad.name).TryLock(t.Context())
			_, ierr := c.Inspect(t.Context(), bad.name)
			serr := c.Semaphore(bad.name).Release(t.Context(), 1)
			for _, err := range []error{lerr, ierr, serr} {
				if !errors.Is(err, mortise.ErrInvalid) || f.Total() > 0 {
					t.Errorf("%.20q with the prefix %.20q: %v, and %d scripts, want ErrInvalid and none", bad.name, bad.prefix, err, f.Total())
				}
			}
		}
		for _, good := range []struct{ prefix, name string }{
			{strings.Repeat("x", 511), "j"}, {"{t}", "job"}, {"{t}:", "{job}"}, {"x{t}", "a{b}"}, {"a:", "redisson_x"}, {"a:", "mortise:"},
		} {
			c, _ := open(t, s, &mortise.Options{Prefix: good.prefix})
			wantHad(t, c.Lock(good.name))
		}
		lenient, _ := open(t, s, &mortise.Options{Prefix: "{open", AllowAnyName: true})
		wantHad(t, lenient.Lock("job"))
	})
}
