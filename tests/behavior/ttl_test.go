package behavior

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// holdable is a kind of object that is held: it returns the context of the hold, and how to
// release that.
type holdable func(ctx context.Context, c *mortise.Client, o mortise.LockOptions) (context.Context, func() error, error)

// holdables are all kinds, under the name job.
func holdables() map[string]holdable {
	all := map[string]holdable{
		"PermitSemaphore": func(ctx context.Context, c *mortise.Client, o mortise.LockOptions) (context.Context, func() error, error) {
			s := c.PermitSemaphore("job")
			if _, err := s.TrySetPermits(ctx, 1); err != nil {
				return nil, nil, err
			}
			return released(s.With(mortise.PermitOptions{TTL: o.TTL, MaxHold: o.MaxHold, Margin: o.Margin}).Acquire(ctx))
		},
		"Election": func(ctx context.Context, c *mortise.Client, o mortise.LockOptions) (context.Context, func() error, error) {
			term, ctx, err := c.Election("job").With(o).Campaign(ctx, "me")
			if err != nil {
				return nil, nil, err
			}
			return ctx, term.Resign, nil
		},
	}
	open := map[string]func(c *mortise.Client, name string, o mortise.LockOptions) taker{
		"RWLock.Read": func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return c.RWLock(name).Read().With(o)
		},
		"MultiLock": func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return multi(c, "a", name).With(o)
		},
		"Redlock": func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return mortise.NewRedlock(name, c).With(o)
		},
	}
	for name, k := range kinds {
		open[name] = k.Open
	}
	for name, open := range open {
		all[name] = func(ctx context.Context, c *mortise.Client, o mortise.LockOptions) (context.Context, func() error, error) {
			return released(open(c, "job", o).Lock(ctx))
		}
	}
	return all
}

// released returns the context of a hold, and how to release it.
func released(hold *mortise.Hold, ctx context.Context, err error) (context.Context, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return ctx, hold.Unlock, nil
}

// next acquires k in its usual way, for a reader as a writer, and returns when.
func (k holdable) next(t *testing.T, name string, c *mortise.Client) time.Time {
	t.Helper()
	if name == "RWLock.Read" {
		k = holdables()["RWLock.Write"]
	}
	_, release, err := k(t.Context(), c, mortise.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := release(); err != nil {
		t.Error(err)
	}
	return at
}

// eachHoldable runs f in virtual time for all that can be held.
func eachHoldable(t *testing.T, f func(t *testing.T, s *memredis.Server, name string, k holdable)) {
	t.Helper()
	t.Parallel()
	for name, k := range holdables() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) { f(t, s, name, k) })
		})
	}
}

// slack is how long after the end of a lease a waiter may ask, and how much longer the key of a
// lease may last.
func slack(name string) time.Duration {
	switch name {
	case "Redlock", "FairLock": // they poll
		return 1100 * time.Millisecond
	case "SpinLock", "GroupLock": // one pauses, and the parts of the other end before the whole
		return 150 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// lasts returns how long a lock, or the permits of a semaphore, last in Redis.
func lasts(t *testing.T, c *mortise.Client, s *memredis.Server) time.Duration {
	t.Helper()
	if typ := do(t, s, "TYPE", "job").Str(); typ != "string" {
		return time.Duration(do(t, s, "PTTL", "job").Int()) * time.Millisecond
	}
	permits, err := c.PermitSemaphore("job").List(t.Context())
	if err != nil || len(permits) != 1 {
		t.Fatalf("got the permits %v, %v, want one", permits, err)
	}
	return permits[0].TTL
}

// While it is held, a lock with a TTL of its own is renewed to that, and it lasts no longer
// after its client has died.
func TestEachKindHasATTLOfItsOwn(t *testing.T) {
	eachHoldable(t, func(t *testing.T, s *memredis.Server, name string, k holdable) {
		for client, ttl := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: 20 * time.Second} {
			c, _ := open(t, s, &mortise.Options{TTL: client})
			other, _ := open(t, s, nil)
			ctx, _, err := k(t.Context(), c, mortise.LockOptions{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if left := lasts(t, other, s); left > ttl+slack(name) || left < ttl*3/5 {
					t.Fatalf("it lasts %v longer, want more than half and less than %v", left, ttl)
				}
				time.Sleep(ttl * 3 / 10)
			}
			if ctx.Err() != nil {
				t.Fatalf("lost: %v", context.Cause(ctx))
			}
			died := time.Now()
			_ = c.Close()
			if d := k.next(t, name, other).Sub(died); d < ttl/2 || d > ttl+slack(name) {
				t.Errorf("the next had it %v after the client died, want a TTL of %v at most", d, ttl)
			}
		}
	})
}

// A hold with a MaxHold beyond its TTL is renewed, and ends with its time in Redis, too.
func TestEachKindWithAMaxHoldBeyondTheTTL(t *testing.T) {
	eachHoldable(t, func(t *testing.T, s *memredis.Server, name string, k holdable) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		const ttl, most = 3 * time.Second, 10 * time.Second
		start := time.Now()
		ctx, release, err := k(t.Context(), c, mortise.LockOptions{TTL: ttl, MaxHold: most})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan time.Duration, 1)
		context.AfterFunc(ctx, func() { ended <- time.Since(start) })
		for time.Since(start) < 9800*time.Millisecond {
			if left := lasts(t, other, s); left > min(ttl, most-time.Since(start))+slack(name) {
				t.Fatalf("after %v it lasts %v longer, want %v at most, and to its end", time.Since(start), left, ttl)
			}
			if ctx.Err() != nil {
				t.Fatalf("lost after %v: %v", time.Since(start), context.Cause(ctx))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if d := k.next(t, name, other).Sub(start); d < most-time.Millisecond || d > most+slack(name) {
			t.Errorf("the next had it after %v, want %v", d, most)
		}
		if d, want := <-ended, most-ttl/100-2*time.Millisecond; d != want {
			t.Errorf("the context ended after %v, want %v", d, want)
		}
		for what, err := range map[string]error{"the context's cause": context.Cause(ctx), "the release": release()} {
			if lost := (*mortise.LostError)(nil); !errors.As(err, &lost) || lost.Reason != mortise.LostExpired {
				t.Errorf("%s: %v, want that the hold has expired", what, err)
			}
		}
	})
}

// A client that dies leaves the lock for the TTL, not for its MaxHold.
func TestMaxHoldOfADeadHolder(t *testing.T) {
	eachHoldable(t, func(t *testing.T, s *memredis.Server, name string, k holdable) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		if _, _, err := k(t.Context(), c, mortise.LockOptions{TTL: 3 * time.Second, MaxHold: time.Hour}); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		_ = c.Close()
		if d := k.next(t, name, other).Sub(died); d > 3*time.Second+slack(name) {
			t.Errorf("the next had it after %v, want 3s", d)
		}
	})
}

// A MaxHold that is not longer than the TTL is Redisson's leaseTime: it is sent as it is, and not
// renewed.
func TestMaxHoldWithinTheTTLIsTheLease(t *testing.T) {
	eachHoldable(t, func(t *testing.T, s *memredis.Server, name string, k holdable) {
		for _, o := range []mortise.LockOptions{
			{MaxHold: 30 * time.Second}, {MaxHold: 7 * time.Second}, {TTL: time.Hour, MaxHold: 50 * time.Minute},
		} {
			c, f := open(t, s, nil)
			start := time.Now()
			ctx, release, err := k(t.Context(), c, o)
			if err != nil {
				t.Fatal(err)
			}
			for time.Since(start) < o.MaxHold*9/10 {
				if left, want := lasts(t, c, s), o.MaxHold-time.Since(start); (left - want).Abs() > min(slack(name), 150*time.Millisecond) {
					t.Errorf("with %+v it lasts %v longer, want %v", o, left, want)
				}
				time.Sleep(o.MaxHold / 10)
			}
			if ctx.Err() != nil {
				t.Errorf("with %+v: %v", o, context.Cause(ctx))
			}
			if err := release(); err != nil {
				t.Error(err)
			}
			for _, script := range []string{"lock_renew", "group_renew", "permit_renew"} {
				if n := f.Count(script); n != 0 {
					t.Errorf("with %+v: %d renewals, want none", o, n)
				}
			}
		}
	})
}

// Each hold of an owner ends at its own MaxHold. The lock stays for those that are left, and no
// longer.
func TestEachHoldOfAnOwnerHasItsMaxHold(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]time.Duration{ // 0: without
		{5 * time.Second, 0}, {40 * time.Second, 0}, {0, 5 * time.Second}, {0, 40 * time.Second},
		{5 * time.Second, 40 * time.Second}, {40 * time.Second, 5 * time.Second}, {40 * time.Second, 50 * time.Second}, {4 * time.Second, 5 * time.Second},
	} {
		for name, k := range kinds {
			if name != "Lock" && test[0] != 40*time.Second {
				continue
			}
			t.Run(fmt.Sprint(name, test), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) { holdsOfAnOwner(t, s, k, test) })
			})
		}
	}
}

func holdsOfAnOwner(t *testing.T, s *memredis.Server, k kind, test [2]time.Duration) {
	c, _ := open(t, s, nil)
	other, _ := open(t, s, nil)
	owner := mortise.WithOwner(t.Context())
	start := time.Now()
	var holds [2]*mortise.Hold
	var ctxs [2]context.Context
	for i, most := range test {
		holds[i], ctxs[i] = must(t, k.Open(c, "job", mortise.LockOptions{MaxHold: most}), owner)
	}
	for _, at := range []time.Duration{time.Second, 3500 * time.Millisecond, 4500 * time.Millisecond, 6 * time.Second, 39 * time.Second, 42 * time.Second, 49 * time.Second, 5 * time.Minute} {
		time.Sleep(at - time.Since(start))
		for i, most := range test {
			if over := most != 0 && at > most; (ctxs[i].Err() != nil) != over || holds[i].Valid() == over {
				t.Errorf("after %v, hold %d with a MaxHold of %v: %v, valid: %v", at, i+1, most, context.Cause(ctxs[i]), holds[i].Valid())
			}
		}
	}
	for i, most := range test {
		if most == 0 {
			wantRefused(t, k.Open(other, "job", mortise.LockOptions{}), holds[i].Owner())
			mustUnlock(t, holds[i])
		}
	}
	wantHad(t, k.Open(other, "job", mortise.LockOptions{}))
	for i, most := range test {
		if most != 0 {
			wantExpired(t, ctxs[i], holds[i])
		}
	}
	wantHad(t, k.Open(other, "job", mortise.LockOptions{}))
	wantEmpty(t, s)
}

// After the release of an inner hold without a MaxHold, the outer one ends as if there had been
// none.
func TestReentryDoesNotProlongAMaxHold(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		for _, most := range []time.Duration{8 * time.Second, 40 * time.Second} {
			c, _ := open(t, s, nil)
			other, _ := open(t, s, nil)
			start := time.Now()
			hold, ctx := must(t, k.Open(c, "job", mortise.LockOptions{MaxHold: most}), t.Context())
			time.Sleep(most - 2*time.Second)
			inner, _ := must(t, k.Open(c, "job", mortise.LockOptions{}), ctx)
			time.Sleep(time.Second)
			mustUnlock(t, inner)
			if ctx.Err() != nil {
				t.Fatalf("lost: %v", context.Cause(ctx))
			}
			<-ctx.Done()
			if d := time.Since(start); d > most || d < most-320*time.Millisecond {
				t.Errorf("the context ended after %v, want %v", d, most)
			}
			wantExpired(t, ctx, hold)
			mustUnlock(t, mustTake(t, k.Open(other, "job", mortise.LockOptions{}))) // lost, and released
		}
	})
}

// Shortly before the only hold of a lock ends by its MaxHold, its owner re-enters it without one.
// That hold is not lost, nor does it wait for a renewal.
func TestReentryOutlastsTheMaxHoldOfAnother(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		start := time.Now()
		outer, ctx := must(t, k.Open(c, "job", mortise.LockOptions{MaxHold: 38 * time.Second}), owner)
		ended := make(chan time.Duration, 1)
		context.AfterFunc(ctx, func() { ended <- time.Since(start) }) // it does not ask
		time.Sleep(37 * time.Second)
		inner, ctx := must(t, k.Open(c, "job", mortise.LockOptions{}), owner)
		select {
		case d := <-ended:
			if want := 38*time.Second - 302*time.Millisecond; d != want {
				t.Errorf("the outer hold ended after %v, want %v", d, want)
			}
		case <-time.After(5 * time.Minute):
			t.Error("the outer hold has not ended")
		}
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil {
			t.Errorf("the inner hold was lost: %v", context.Cause(ctx))
		}
		if count := do(t, s, "HVALS", "job").At(0).Str(); count != "1" && k.Acquire != "rw_write_acquire" && k.Acquire != "group_acquire" {
			t.Errorf("the count in Redis is %s, want 1", count)
		}
		mustUnlock(t, inner)
		if err := outer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of the outer hold: %v, want ErrLost", err)
		}
	})
}

// The last hold of a lease that another one acquired may have a MaxHold. The next goroutine has
// none.
func TestMaxHoldIsNotHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		outer, _ := mustLock(t, k, owner)
		inner, _ := mustLock(t, k.With(mortise.LockOptions{MaxHold: 3 * time.Second}), owner)
		mustUnlock(t, outer)
		var all sync.WaitGroup
		inLine(t, &all, 1, k, func(_ int, h *mortise.Hold) {
			time.Sleep(5 * time.Minute)
			mustUnlock(t, h)
		})
		time.Sleep(time.Second)
		mustUnlock(t, inner)
		all.Wait()
	})
}

// A re-entry has the TTL of the lease that it enters, and cannot shorten it.
func TestReentryHasTheTTLOfItsLease(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		for _, ttls := range [][2]time.Duration{{3 * time.Second, 60 * time.Second}, {60 * time.Second, 3 * time.Second}, {0, 3 * time.Second}, {3 * time.Second, 0}} {
			c, _ := open(t, s, nil)
			outer, ctx := must(t, k.Open(c, "job", mortise.LockOptions{TTL: ttls[0]}), t.Context())
			inner, ctx2 := must(t, k.Open(c, "job", mortise.LockOptions{TTL: ttls[1]}), ctx)
			want := ttls[0]
			if want == 0 {
				want = 30 * time.Second
			}
			for range 10 {
				if left := lasts(t, c, s); left > want+150*time.Millisecond || left < want/2 {
					t.Errorf("TTLs %v: it lasts %v longer, want %v at most", ttls, left, want)
				}
				time.Sleep(want * 3 / 10)
			}
			if ctx2.Err() != nil {
				t.Errorf("lost: %v", context.Cause(ctx2))
			}
			mustUnlock(t, inner)
			mustUnlock(t, outer)
		}
	})
}

// A server that joins a Redlock later has the lock no longer than the others, but for the time that
// it took to ask it.
func TestRedlockRejoinsWithinItsMaxHold(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		p, other := newProcess(t, servers, nil), newProcess(t, servers, nil)
		p.faults[2].Set(refuse, nil)
		start := time.Now()
		hold, ctx := mustRedlock(t, p.redlock().With(mortise.LockOptions{TTL: 5 * time.Second, MaxHold: 20 * time.Second}), t.Context())
		time.Sleep(10 * time.Second)
		p.faults[2].Set(nil, nil)
		time.Sleep(5 * time.Second)
		if n := len(strings.Split(hold.Owner(), ", ")); n != 3 {
			t.Errorf("it has %d servers, want 3", n)
		}
		<-ctx.Done()
		if d := time.Since(start); d > 20*time.Second || d < 19*time.Second {
			t.Errorf("the context ended after %v, want 20s", d)
		}
		// The attempt that was under way when the server came back counts from when it began again:
		// a server is waited for up to a twentieth of the TTL.
		time.Sleep(20*time.Second + 260*time.Millisecond - time.Since(start))
		for i := range servers {
			if n := do(t, servers[i], "EXISTS", "job").Int(); n != 0 {
				t.Errorf("server %d still has the lock", i+1)
			}
		}
		next, _ := mustRedlock(t, other.redlock(), t.Context())
		_ = hold.Unlock()
		mustUnlock(t, next)
	})
}

func TestEachKindRefusesBadTTLs(t *testing.T) {
	eachHoldable(t, func(t *testing.T, s *memredis.Server, _ string, k holdable) {
		c, f := open(t, s, nil)
		for _, o := range []mortise.LockOptions{
			{TTL: -1}, {TTL: -time.Minute}, {TTL: math.MinInt64}, {TTL: 1}, {TTL: time.Millisecond}, {TTL: 99 * time.Millisecond},
			{TTL: 367 * 24 * time.Hour}, {TTL: math.MaxInt64}, {TTL: time.Second, Margin: time.Second},
			{TTL: time.Second, MaxHold: time.Hour, Margin: time.Second}, {TTL: time.Minute, MaxHold: -1}, {TTL: time.Minute, MaxHold: 367 * 24 * time.Hour},
		} {
			if _, _, err := k(t.Context(), c, o); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", o, err)
			}
		}
		for _, script := range []string{"lock_acquire", "fair_acquire", "fenced_acquire", "permit_acquire", "multi_acquire", "election_campaign", "group_acquire", "rw_read_acquire", "rw_write_acquire"} {
			if n := f.Count(script); n != 0 {
				t.Errorf("%s was sent %d times, want 0", script, n)
			}
		}
	})
}
