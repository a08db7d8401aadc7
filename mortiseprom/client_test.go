package mortiseprom_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseprom"
	"github.com/mortise-go/mortise/mortisetest"
)

// side is a client with its metrics, and its network.
type side struct {
	*mortise.Client
	link    *mortisetest.Link
	metrics *mortiseprom.Collector
}

const ttl = 3 * time.Second

// inBubble runs f in virtual time, with two clients of one server.
func inBubble(t *testing.T, f func(t *testing.T, a, b side, server *mortisetest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		server := mortisetest.NewServer()
		defer server.Close()
		start := func() side {
			s := side{link: server.Link(), metrics: mortiseprom.New(nil)}
			s.Client = mortise.New(s.link, &mortise.Options{TTL: ttl, Observer: s.metrics})
			return s
		}
		a, b := start(), start()
		defer a.Close()
		defer b.Close()
		f(t, a, b, server)
	})
}

// take acquires a lock that is free.
func take(t *testing.T, l *mortise.Lock) (*mortise.Hold, context.Context) {
	t.Helper()
	h, ctx, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h, ctx
}

func TestOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, _ *mortisetest.Server) {
		ctx := t.Context()
		h, _ := take(t, a.Lock("x"))
		x := b.Lock("x")
		_, _, refused := x.TryLock(ctx)
		_, _, waited := x.With(mortise.LockOptions{Wait: time.Second}).Lock(ctx)
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, _, late := x.Lock(short)
		cancel()
		canceled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, _, given := x.Lock(canceled)
		_, _, invalid := b.Lock("").TryLock(ctx)
		b.link.Partition()
		_, _, unanswered := b.Lock("y").With(mortise.LockOptions{Wait: time.Second}).Lock(ctx)
		short, cancel = context.WithTimeout(ctx, time.Second)
		_, _, alone := b.Lock("y").Lock(short)
		cancel()
		b.link.Heal()
		for i, err := range []error{refused, waited, late, given, invalid, unanswered, alone} {
			if err == nil {
				t.Errorf("call %d succeeds", i)
			}
		}
		time.AfterFunc(2*time.Second, func() { _ = h.Unlock() })
		theirs, _ := take(t, x)
		if err := theirs.Unlock(); err != nil {
			t.Error(err)
		}
		const count = "dlock_acquire_duration_seconds_count"
		got := only(scrape(t, b.metrics), count)
		want := map[string]float64{
			count + `{contended="false",kind="lock",outcome="locked"}`:  1,
			count + `{contended="true",kind="lock",outcome="timeout"}`:  2,
			count + `{contended="true",kind="lock",outcome="canceled"}`: 1,
			count + `{contended="false",kind="lock",outcome="error"}`:   3,
			count + `{contended="true",kind="lock",outcome="acquired"}`: 1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("calls: %v\nwant %v", got, want)
		}
		wants(t, scrape(t, b.metrics), map[string]float64{
			`dlock_acquire_duration_seconds_sum{contended="true",kind="lock",outcome="acquired"}`:             2,
			`dlock_acquire_duration_seconds_bucket{contended="true",kind="lock",outcome="acquired",le="1"}`:   0,
			`dlock_acquire_duration_seconds_bucket{contended="true",kind="lock",outcome="acquired",le="2.5"}`: 1,
			`dlock_waiters{kind="lock"}`: 0,
			`dlock_held{kind="lock"}`:    0,
		})
	})
}

func TestWaitersAndHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, _ *mortisetest.Server) {
		h, held := take(t, a.Lock("x"))
		again, _, err := a.Lock("x").Lock(held)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, scrape(t, a.metrics), map[string]float64{`dlock_held{kind="lock"}`: 2, `dlock_waiters{kind="lock"}`: 0})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			go func() {
				if h, _, err := b.FairLock("fair").Lock(ctx); err == nil {
					_ = h.Unlock()
				}
				if h, _, err := b.Lock("x").Lock(ctx); err == nil {
					t.Error("the lock was free")
					_ = h.Unlock()
				}
			}()
		}
		time.Sleep(time.Second)
		wants(t, scrape(t, b.metrics), map[string]float64{
			`dlock_held{kind="lock"}`: 0, `dlock_waiters{kind="lock"}`: 3, `dlock_held{kind="fairlock"}`: 0, `dlock_waiters{kind="fairlock"}`: 0,
		})
		cancel()
		synctest.Wait()
		wants(t, scrape(t, b.metrics), map[string]float64{`dlock_waiters{kind="lock"}`: 0})
		if err := errors.Join(again.Unlock(), h.Unlock()); err != nil {
			t.Error(err)
		}
		wants(t, scrape(t, a.metrics), map[string]float64{
			`dlock_held{kind="lock"}`: 0, `dlock_hold_duration_seconds_count{end="released",kind="lock"}`: 2,
			`dlock_hold_duration_seconds_sum{end="released",kind="lock"}`: 2,
		})
	})
}

// Each hold that is lost is counted once, whatever notices the loss.
func TestLosses(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, server *mortisetest.Server) {
		lose := func(reason mortise.LostReason, o mortise.LockOptions, how func()) {
			t.Helper()
			h, ctx, err := a.Lock("x").With(o).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			how()
			<-ctx.Done()
			var lost *mortise.LostError
			if err := h.Unlock(); !errors.As(err, &lost) || lost.Reason != reason {
				t.Fatalf("Unlock returns %v, want a loss because of %q", err, reason)
			}
		}
		lose(mortise.LostForced, mortise.LockOptions{}, func() { server.Evict("x") })
		lose(mortise.LostExpired, mortise.LockOptions{MaxHold: time.Second}, func() {})
		lose(mortise.LostUnreachable, mortise.LockOptions{}, a.link.Partition)
		a.link.Heal()
		time.Sleep(time.Minute)
		h, _ := take(t, a.Lock("x")) // the loss turns out when it is released
		server.Evict("x")
		if err := h.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Fatalf("Unlock returns %v, want a loss", err)
		}
		var theirs *mortise.Hold
		lose(mortise.LostTaken, mortise.LockOptions{}, func() {
			server.Evict("x")
			theirs, _ = take(t, b.Lock("x"))
		})
		if err := theirs.Unlock(); err != nil {
			t.Error(err)
		}
		take(t, a.Lock("x"))
		a.Close()

		got := scrape(t, a.metrics)
		const lost, held = "dlock_lost_total", "dlock_hold_duration_seconds_count"
		want := map[string]float64{
			lost + `{kind="lock",reason="forced"}`: 2, lost + `{kind="lock",reason="expired"}`: 1, lost + `{kind="lock",reason="unreachable"}`: 1,
			lost + `{kind="lock",reason="taken"}`: 1, lost + `{kind="lock",reason="closed"}`: 1,
		}
		if some := only(got, lost); !maps.Equal(some, want) {
			t.Errorf("losses: %v\nwant %v", some, want)
		}
		want = map[string]float64{
			held + `{end="lost",kind="lock"}`: 5, held + `{end="expired",kind="lock"}`: 1,
		}
		if some := only(got, held); !maps.Equal(some, want) {
			t.Errorf("holds: %v\nwant %v", some, want)
		}
		wants(t, got, map[string]float64{`dlock_held{kind="lock"}`: 0})
		if theirs := only(scrape(t, b.metrics), lost); len(theirs) != 0 {
			t.Errorf("the other client has lost %v", theirs)
		}
	})
}

// A MultiLock is one hold, whichever of its locks is lost.
func TestLossOfAMultiLock(t *testing.T) {
	inBubble(t, func(t *testing.T, a, _ side, server *mortisetest.Server) {
		both, ctx, err := mortise.NewMultiLock(a.Lock("y"), a.Lock("z")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server.Evict("z")
		<-ctx.Done()
		_ = both.Unlock()
		wants(t, scrape(t, a.metrics), map[string]float64{
			`dlock_lost_total{kind="multilock",reason="forced"}`: 1, `dlock_lost_total{kind="lock",reason="forced"}`: 0,
			`dlock_hold_duration_seconds_count{end="lost",kind="multilock"}`: 1, `dlock_held{kind="multilock"}`: 0,
		})
	})
}

func TestRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, a, _ side, _ *mortisetest.Server) {
		h, _ := take(t, a.Lock("x"))
		time.Sleep(2*ttl + ttl/6)
		got := scrape(t, a.metrics)
		wants(t, got, map[string]float64{
			`dlock_renewals_total{outcome="renewed"}`: 6, `dlock_renewals_total{outcome="failed"}`: 0,
			`dlock_lease_margin_seconds_count`: 6, `dlock_lease_margin_seconds_bucket{le="1"}`: 0, `dlock_lease_margin_seconds_bucket{le="2.5"}`: 6,
		})
		a.link.Partition()
		time.Sleep(ttl / 2)
		a.link.Heal() // in time
		time.Sleep(ttl)
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		got = scrape(t, a.metrics)
		if n := got[`dlock_renewals_total{outcome="failed"}`]; n < 1 {
			t.Errorf("renewals that have failed: %v, want some", n)
		}
		wants(t, got, map[string]float64{`dlock_lost_total{kind="lock",reason="unreachable"}`: 0})
		if got[`dlock_lease_margin_seconds_bucket{le="1"}`] < 1 {
			t.Errorf("no renewal came late: %v", only(got, "dlock_lease_margin_seconds_bucket"))
		}
	})
}

func TestDeadlockGapAndAsking(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, _ *mortisetest.Server) {
		fails := mortise.LockOptions{Deadlock: mortise.DeadlockFail}
		ended := make(chan error, 2)
		cross := func(c side, first, second string) {
			err := c.Lock(first).Do(t.Context(), func(ctx context.Context) error {
				time.Sleep(time.Second)
				return c.Lock(second).With(fails).Do(ctx, func(context.Context) error { return nil })
			})
			ended <- err
		}
		go cross(a, "x", "y")
		go cross(b, "y", "x")
		if err := errors.Join(<-ended, <-ended); !errors.Is(err, mortise.ErrDeadlock) {
			t.Fatalf("the calls return %v, want a deadlock", err)
		}
		const failed = `dlock_acquire_duration_seconds_count{contended="true",kind="lock",outcome="deadlock"}`
		victim, other := scrape(t, a.metrics), scrape(t, b.metrics)
		if other[failed] > 0 {
			victim, other = other, victim
		}
		wants(t, victim, map[string]float64{"dlock_deadlocks_total": 1, failed: 1, `dlock_waiters{kind="lock"}`: 0})
		wants(t, other, map[string]float64{`dlock_waiters{kind="lock"}`: 0})
		if other[failed] > 0 {
			t.Error("both calls have failed because of one deadlock")
		}

		h, _ := take(t, a.Lock("x"))
		time.AfterFunc(time.Second, func() { b.link.Cut(0) })
		time.AfterFunc(2*time.Second, func() { _, _ = b.Ask(t.Context(), "x", "a test") })
		time.AfterFunc(5*time.Second, func() { _ = h.Unlock() })
		theirs, _ := take(t, b.Lock("x"))
		_ = theirs.Unlock()
		wants(t, scrape(t, a.metrics), map[string]float64{"dlock_asked_total": 1, "dlock_subscription_gaps_total": 0})
		wants(t, scrape(t, b.metrics), map[string]float64{"dlock_asked_total": 0, "dlock_subscription_gaps_total": 1})
	})
}

// A MultiLock is one call, whichever of its locks it waits for.
func TestMultiLockWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, _ *mortisetest.Server) {
		h, _ := take(t, b.Lock("y"))
		time.AfterFunc(2*time.Second, func() { _ = h.Unlock() })
		both := mortise.NewMultiLock(a.Lock("x"), a.Lock("y"))
		if _, _, err := both.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Fatalf("TryLock: %v", err)
		}
		time.AfterFunc(time.Second, func() {
			wants(t, scrape(t, a.metrics), map[string]float64{`dlock_waiters{kind="multilock"}`: 1})
		})
		all, _, err := both.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = all.Unlock()
		const count = "dlock_acquire_duration_seconds_count"
		wants(t, scrape(t, a.metrics), map[string]float64{
			count + `{contended="true",kind="multilock",outcome="acquired"}`: 1, count + `{contended="false",kind="multilock",outcome="locked"}`: 1,
			`dlock_waiters{kind="multilock"}`: 0,
		})
	})
}

// What nobody holds afterwards is no hold.
func TestSemaphoresAndLatches(t *testing.T) {
	inBubble(t, func(t *testing.T, a, b side, _ *mortisetest.Server) {
		ctx := t.Context()
		semaphore, latch := a.Semaphore("permits"), a.CountDownLatch("latch")
		_, err := semaphore.TrySetPermits(ctx, 1)
		_, set := latch.TrySetCount(ctx, 1)
		if err := errors.Join(err, set, semaphore.Acquire(ctx, 1)); err != nil {
			t.Fatal(err)
		}
		if err := semaphore.TryAcquire(ctx, 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Fatalf("a second permit: %v", err)
		}
		wait := mortise.WaitOptions{Wait: time.Second}
		if err := b.Semaphore("permits").With(wait).Acquire(ctx, 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Fatalf("waiting for a permit: %v", err)
		}
		if err := b.CountDownLatch("latch").With(wait).Wait(ctx); !errors.Is(err, mortise.ErrMissing) {
			t.Fatalf("waiting for the latch: %v", err)
		}
		const count = "dlock_acquire_duration_seconds_count"
		wants(t, scrape(t, a.metrics), map[string]float64{
			count + `{contended="false",kind="semaphore",outcome="acquired"}`: 1, count + `{contended="false",kind="semaphore",outcome="locked"}`: 1,
			`dlock_held{kind="semaphore"}`: 0,
		})
		wants(t, scrape(t, b.metrics), map[string]float64{
			count + `{contended="true",kind="semaphore",outcome="timeout"}`: 1, count + `{contended="true",kind="latch",outcome="timeout"}`: 1,
			`dlock_waiters{kind="semaphore"}`: 0, `dlock_waiters{kind="latch"}`: 0,
		})
	})
}

// The losses of each kind of object are there before the first one, so the collector must know all kinds.
func TestKnowsAllKinds(t *testing.T) {
	inBubble(t, func(t *testing.T, a, _ side, _ *mortisetest.Server) {
		before := scrape(t, a.metrics)
		ctx := t.Context()
		var holds []*mortise.Hold
		note := func(h *mortise.Hold, _ context.Context, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		note(a.Lock("lock").Lock(ctx))
		note(a.SpinLock("spin").Lock(ctx))
		note(a.FairLock("fair").Lock(ctx))
		note(a.RWLock("write").Write().Lock(ctx))
		note(a.RWLock("read").Read().Lock(ctx))
		note(a.GroupLock("group", "value").Lock(ctx))
		note(mortise.NewMultiLock(a.Lock("m1"), a.Lock("m2")).Lock(ctx))
		note(mortise.NewRedlock("redlock", a.Client).Lock(ctx))
		note(a.FencedLock("fenced").Lock(ctx))
		permits := a.PermitSemaphore("permits")
		if _, err := permits.TrySetPermits(ctx, 1); err != nil {
			t.Fatal(err)
		}
		note(permits.Acquire(ctx))
		term, _, err := a.Election("election").Campaign(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = term.Resign() }()
		member, _, err := a.DoubleBarrier("barrier", 1).Enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = member.Leave(ctx) }()
		kinds := make(map[string]bool)
		for name, held := range scrape(t, a.metrics) {
			if rest, ok := strings.CutPrefix(name, `dlock_held{kind="`); ok {
				kind := strings.TrimSuffix(rest, `"}`)
				if kinds[kind] = true; held != 1 {
					t.Errorf("%s: %v are held, want 1", kind, held)
				}
				if _, known := before[`dlock_lost_total{kind="`+kind+`",reason="forced"}`]; !known {
					t.Errorf("the losses of %s are not there from the beginning", kind)
				}
			}
		}
		if len(kinds) < 12 {
			t.Errorf("only these kinds were acquired: %v", slices.Sorted(maps.Keys(kinds)))
		}
		for _, h := range holds {
			_ = h.Unlock()
		}
	})
}
