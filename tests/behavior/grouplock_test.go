package behavior

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestGroupLocksExcludeEachOtherWhereTheyOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := mustFence(t, c.GroupLock("job", "a", "b", "b", "a"), t.Context())
		if hold.Name() != "job" {
			t.Errorf("the hold is named %q", hold.Name())
		}
		for _, test := range []struct {
			values []string
			free   bool
		}{
			{[]string{"a"}, false}, {[]string{"b", "c"}, false}, {[]string{"b", "a"}, false},
			{[]string{"c"}, true}, {[]string{"", "A", " a"}, true},
		} {
			for by, c := range map[string]*mortise.Client{"this client": c, "another": other} {
				h, _, err := c.GroupLock("job", test.values...).TryLock(t.Context())
				if test.free && err != nil || !test.free && !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("TryLock of %q by %s: %v", test.values, by, err)
				}
				if err == nil {
					mustUnlock(t, h)
				}
			}
		}
		var held *mortise.HeldError
		if _, _, err := other.GroupLock("job", "z", "b").TryLock(t.Context()); !errors.As(err, &held) || held.Owner != hold.Owner() || held.TTL != 30*time.Second {
			t.Errorf("TryLock: %v, want a HeldError of %s for 30s", err, hold.Owner())
		}
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}

// Goroutines of one client that want different values do not wait for each
// other, and a release wakes all that wait for any part of it.
func TestGroupLocksQueueByTheirValues(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block, _ := mustFence(t, other.GroupLock("job", "a", "b", "c", "d"), t.Context())
		start := time.Now()
		var all sync.WaitGroup
		for _, v := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				hold, _ := mustFence(t, c.GroupLock("job", v), t.Context())
				if d := time.Since(start); d != 5100*time.Millisecond {
					t.Errorf("%s was had after %v, want 5.1s", v, d)
				}
				time.Sleep(time.Second)
				mustUnlock(t, hold)
			})
		}
		time.Sleep(5100 * time.Millisecond)
		free, _ := mustFence(t, c.GroupLock("job", "e"), t.Context())
		mustUnlock(t, free)
		mustUnlock(t, block)
		all.Wait()
		if d := time.Since(start); d != 6100*time.Millisecond {
			t.Errorf("all were done after %v, want 6.1s: some waited for others", d)
		}
	})
}

// Philosophers: each takes two neighbours of a ring at once.
func TestGroupLocksOfNeighboursDoNotDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const n = 5
		var forks [n]int // unprotected but for the lock
		var all sync.WaitGroup
		for i := range n {
			c, _ := open(t, s, nil)
			left, right := i, (i+1)%n
			all.Go(func() {
				for range 10 {
					err := c.GroupLock("table", fmt.Sprint(left), fmt.Sprint(right)).Do(t.Context(), func(context.Context) error {
						forks[left]++
						forks[right]++
						if forks[left] != 1 || forks[right] != 1 {
							t.Errorf("a fork is in two hands: %v", forks)
						}
						time.Sleep(10 * time.Millisecond)
						forks[left]--
						forks[right]--
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		wantEmpty(t, s)
	})
}

func TestGroupLockReentryWithOtherValues(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, ctx := mustFence(t, c.GroupLock("job", "a", "b"), t.Context())
		for _, values := range [][]string{{"a"}, {"b", "c"}, {"a", "b", "c"}} {
			_, _, err := c.GroupLock("job", values...).Lock(ctx)
			_, _, terr := c.GroupLock("job", values...).TryLock(ctx)
			if !errors.Is(err, mortise.ErrReentry) || !errors.Is(terr, mortise.ErrReentry) {
				t.Errorf("%q: Lock: %v, TryLock: %v, want ErrReentry", values, err, terr)
			}
		}
		same, _ := mustFence(t, c.GroupLock("job", "b", "a"), ctx)
		third, inner := mustFence(t, c.GroupLock("job", "c"), ctx)
		elsewhere, _ := mustFence(t, c.GroupLock("other", "a"), inner)
		for _, h := range []*mortise.Hold{elsewhere, third, same, hold} {
			mustUnlock(t, h)
		}
		// What is over keeps nobody out; what was lost says so until it is unlocked.
		hold, ctx = mustFence(t, c.GroupLock("job", "a").With(mortise.LockOptions{MaxHold: time.Second}), mortise.WithOwner(t.Context()))
		<-ctx.Done()
		if _, _, err := c.GroupLock("job", "a", "b").Lock(context.WithoutCancel(ctx)); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("after a loss: %v, want ErrLost", err)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		again, _ := mustFence(t, c.GroupLock("job", "a", "b"), context.WithoutCancel(ctx))
		mustUnlock(t, again)
	})
}

// A sibling that waits when the owner gets other values finds out.
func TestGroupLockSiblingsDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block, _ := mustFence(t, other.GroupLock("job", "b"), t.Context())
		ctx := mortise.WithOwner(t.Context())
		failed := make(chan error)
		go func() {
			_, _, err := c.GroupLock("job", "a", "b").Lock(ctx)
			failed <- err
		}()
		synctest.Wait()
		hold, _ := mustFence(t, c.GroupLock("job", "a"), ctx)
		start := time.Now()
		if err := <-failed; !errors.Is(err, mortise.ErrReentry) || time.Since(start) > 1100*time.Millisecond {
			t.Errorf("after %v: %v, want ErrReentry within about a second", time.Since(start), err)
		}
		mustUnlock(t, hold)
		mustUnlock(t, block)
	})
}

func TestGroupLockRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		many := make([]string, mortise.MaxValues+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for what, k := range map[string]*mortise.GroupLock{
			"no values": c.GroupLock("job"), "too many": c.GroupLock("job", many...),
			"no values, with options": c.GroupLock("job").With(mortise.LockOptions{MaxHold: time.Second}),
			"no name":                 c.GroupLock("", "a"),
		} {
			_, _, err := k.Lock(t.Context())
			_, _, terr := k.TryLock(t.Context())
			_, ierr := k.Inspect(t.Context())
			_, ferr := k.ForceUnlock(t.Context())
			_, uerr := k.UnlockOwner(t.Context(), "x")
			for op, err := range map[string]error{"Lock": err, "TryLock": terr, "Inspect": ierr, "ForceUnlock": ferr, "UnlockOwner": uerr} {
				if !errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%s of %s: %v, want ErrInvalid", op, what, err)
				}
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
		}
		hold, _ := mustFence(t, c.GroupLock("job", many[1:]...), t.Context())
		time.Sleep(time.Minute) // renewed
		mustUnlock(t, hold)
	})
}

// Many large groups are not renewed in one script, which would hold up Redis.
func TestGroupLocksAreRenewedInSmallScripts(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		largest := 0
		d := countDriver{s.Driver(), func(c driver.Call) {
			if c.Script.Name() == "group_renew" {
				largest = max(largest, len(c.Args))
			}
		}}
		c := mortise.New(d, nil)
		defer c.Close()
		var holds []*mortise.Hold
		for i := range 30 {
			var values []string
			for j := range 300 {
				values = append(values, fmt.Sprint(i, "/", j))
			}
			hold, _ := mustFence(t, c.GroupLock("job", values...), t.Context())
			holds = append(holds, hold)
		}
		time.Sleep(25 * time.Second) // two renewals
		for _, h := range holds {
			mustUnlock(t, h)
		}
		if largest < 1000 || largest > 2000 {
			t.Errorf("the largest renewal had %d arguments, want 2000 at most, and some together", largest)
		}
	})
}

// countDriver shows what is sent.
type countDriver struct {
	driver.Driver
	look func(driver.Call)
}

func (d countDriver) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	for _, c := range calls {
		d.look(c)
	}
	return d.Driver.Batch(ctx, calls)
}

func TestGroupLockInspect(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		inspect := func(ctx context.Context, values ...string) mortise.State {
			t.Helper()
			return inspectGroup(t, ctx, c, values...)
		}
		if got := inspect(t.Context(), "a"); got.Locked || got.Kind != mortise.KindNone {
			t.Errorf("Inspect of nothing: %+v, want no lock", got)
		}
		ab, ctx := mustFence(t, c.GroupLock("job", "a", "b"), t.Context())
		cd, _ := mustFence(t, c.GroupLock("job", "c", "d").With(mortise.LockOptions{TTL: time.Hour}), t.Context())
		got := inspect(ctx, "a", "b", "c", "x")
		if !got.Locked || got.Kind != mortise.KindGroupLock || got.TTL != time.Hour || len(got.Holders) != 2 || got.Mine {
			t.Errorf("got %+v, want two holders for an hour, and not mine", got)
		}
		for _, h := range got.Holders {
			want := map[string]int{ab.Owner(): 2, cd.Owner(): 1}[h.Owner]
			if h.Count != want {
				t.Errorf("got %+v, want %d values", h, want)
			}
		}
		if got := inspect(ctx, "b", "a"); !got.Mine || got.TTL != 30*time.Second || len(got.Holders) != 1 {
			t.Errorf("got %+v, want mine, for 30s", got)
		}
		if got := inspect(t.Context(), "x"); got.Locked {
			t.Errorf("got %+v, want a free value", got)
		}
		mustUnlock(t, ab)
		mustUnlock(t, cd)
		wantPlainLockRefused(t, c)
	})
}

func inspectGroup(t *testing.T, ctx context.Context, c *mortise.Client, values ...string) mortise.State {
	t.Helper()
	state, err := c.GroupLock("job", values...).Inspect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// wantPlainLockRefused checks that a group is no plain lock, and a plain lock is no group.
func wantPlainLockRefused(t *testing.T, c *mortise.Client) {
	plain, _ := mustFence(t, c.Lock("job"), t.Context())
	if got := inspectGroup(t, t.Context(), c, "a"); got.Kind != mortise.KindLock {
		t.Errorf("got %+v, want a plain lock", got)
	}
	_, err := c.GroupLock("job", "a").ForceUnlock(t.Context())
	if _, _, terr := c.GroupLock("job", "a").TryLock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) || !errors.Is(terr, mortise.ErrWrongKind) {
		t.Errorf("on a plain lock: ForceUnlock: %v, TryLock: %v, want ErrWrongKind", err, terr)
	}
	mustUnlock(t, plain)
	group, _ := mustFence(t, c.GroupLock("job", "a"), t.Context())
	if _, _, err := c.Lock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
		t.Errorf("a plain lock on a group: %v, want ErrWrongKind", err)
	}
	mustUnlock(t, group)
}

func TestGroupLockForce(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, f := open(t, s, nil)
		ab, abctx := mustFence(t, c.GroupLock("job", "a", "b"), t.Context())
		cd, cdctx := mustFence(t, other.GroupLock("job", "c", "d"), t.Context())
		ef, _ := mustFence(t, other.GroupLock("job", "e"), t.Context())
		if ok, err := other.GroupLock("job", "a", "c").UnlockOwner(t.Context(), "nobody"); ok || err != nil {
			t.Errorf("UnlockOwner of nobody: %v, %v, want false", ok, err)
		}
		freed, err := other.GroupLock("job", "b", "c", "d", "x").ForceUnlock(t.Context())
		if err != nil || len(freed) != 2 {
			t.Fatalf("ForceUnlock = %v, %v, want two holders", freed, err)
		}
		for _, h := range freed {
			if want := map[string]int{ab.Owner(): 1, cd.Owner(): 2}[h.Owner]; h.Count != want {
				t.Errorf("got %+v, want %d values", h, want)
			}
		}
		wantLost(t, cdctx, cd, mortise.LostForced, 0, 0) // in the same process
		wantLost(t, abctx, ab, mortise.LostForced, 0, 10*time.Second)
		if !ef.Valid() {
			t.Error("a holder of other values lost them")
		}
		// The value that was not forced is free too, now that its holder is done.
		start := time.Now()
		free, _ := mustFence(t, other.GroupLock("job", "a", "b", "c", "d"), t.Context())
		if d := time.Since(start); d > time.Second {
			t.Errorf("the rest was free after %v, want at once", d)
		}
		if ok, err := c.GroupLock("job", "c").UnlockOwner(t.Context(), free.Owner()); !ok || err != nil {
			t.Errorf("UnlockOwner: %v, %v, want true", ok, err)
		}
		if err := free.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of what was taken in part: %v, want ErrLost", err)
		}
		f.Set(nil, loseReplies("group_release", 1))
		if freed, err := other.GroupLock("job", "e").ForceUnlock(t.Context()); !errors.Is(err, mortise.ErrUnknownOutcome) || len(freed) != 0 {
			t.Errorf("ForceUnlock with a lost reply: %v, %v, want ErrUnknownOutcome", freed, err)
		}
		if ef.Valid() {
			t.Error("a holder was not told")
		}
		f.Set(nil, nil)
		_ = ef.Unlock()
		wantEmpty(t, s)
	})
}

// What Redisson leaves behind when a holder's time is over: the next one must
// not inherit its count, and the rest must not stay forever.
func TestGroupLockAfterADeadRedissonHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, _ := mustFence(t, c.GroupLock("job", "x"), t.Context())
		// qwvA... is the field of "a".
		run(t, s, `local now = redis.call('time')[1] * 1000
			local f, h = 'Jon6GCcO+0QSJkhre5wXYA', '11111111-2222-4333-8444-555555555555:7'
			return redis.call('hset', KEYS[1], f, h, f..':'..h..':expire_time', string.format('%.0f', now + 7000), f..':'..h..':lock_count', '3')`)
		start := time.Now()
		next, _ := mustFence(t, c.GroupLock("job", "a"), t.Context())
		if d := time.Since(start); d < 7*time.Second-time.Second || d > 8*time.Second {
			t.Errorf("a dead holder's value was free after %v, want 7s", d)
		}
		if v := run(t, s, `return redis.call('hlen', KEYS[1])`); v.Int() != 6 {
			t.Errorf("%d entries, want three for each of two values", v.Int())
		}
		mustUnlock(t, next)
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}

// A value taken by somebody whose clock is ahead: the holder is told.
func TestGroupLockOfWhichAValueIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, ctx := mustFence(t, c.GroupLock("job", "a", "b"), t.Context())
		run(t, s, `return redis.call('hset', KEYS[1], 'Jon6GCcO+0QSJkhre5wXYA', 'somebody:1')`)
		wantLost(t, ctx, hold, mortise.LostTaken, 0, 10*time.Second)
		if v := run(t, s, `return redis.call('hget', KEYS[1], 'Jon6GCcO+0QSJkhre5wXYA')`); v.Str() != "somebody:1" {
			t.Errorf("the value belongs to %q", v.Str())
		}
	})
}

// An operator sees how many values each owner holds, but not which.
func TestUnlockGroup(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, ctx, err := c.GroupLock("job", "a", "b").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bystander, _, err := c.GroupLock("job", "c").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := other.UnlockGroup(t.Context(), "job", "somebody:1"); ok || err != nil {
			t.Errorf("UnlockGroup of a stranger: %v, %v, want false", ok, err)
		}
		if ok, err := other.UnlockGroup(t.Context(), "none", hold.Owner()); ok || err != nil {
			t.Errorf("UnlockGroup of nothing: %v, %v, want false", ok, err)
		}
		if ok, err := other.UnlockGroup(t.Context(), "job", hold.Owner()); !ok || err != nil {
			t.Errorf("UnlockGroup: %v, %v, want true", ok, err)
		}
		next, _, err := other.GroupLock("job", "a", "b").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mortise.ErrLost) || !bystander.Valid() {
			t.Errorf("the cause is %v, and the bystander is valid: %v", context.Cause(ctx), bystander.Valid())
		}
		mustUnlock(t, next)
		mustUnlock(t, bystander)
		plain, _ := mustLock(t, c.Lock("plain"), t.Context())
		if _, err := other.UnlockGroup(t.Context(), "plain", plain.Owner()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("UnlockGroup of a plain lock: %v, want ErrWrongKind", err)
		}
		if _, err := other.UnlockGroup(t.Context(), "", "x"); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("UnlockGroup without a name: %v, want ErrInvalid", err)
		}
	})
}
