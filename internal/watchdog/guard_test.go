package watchdog_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// guarded starts to watch a lease that is two minutes long, and must be checked every 7 s.
func (b *bench) guarded(key string, renew bool) *watchdog.Lease {
	l := &watchdog.Lease{Of: key, Terms: &watchdog.Terms{TTL: ttl, Trust: trust, Guard: 7 * time.Second}}
	b.Add(l, time.Now(), 2*time.Minute, renew)
	return l
}

// extends records for each attempt whether it extends the lease.
func (b *bench) extends(state watchdog.State) *[]bool {
	extended := new([]bool)
	b.serve(func(_ context.Context, l *watchdog.Lease) watchdog.Answer {
		*extended = append(*extended, l.Extends())
		return watchdog.Answer{State: state}
	})
	return extended
}

// A lease that is guarded and not renewed is checked until its end, which does not move.
func TestGuardedLeaseIsNotExtended(t *testing.T) {
	virtual(t, func(b *bench) {
		extended := b.extends(watchdog.Renewed)
		l := b.guarded("a", false)
		end := b.Until(l)
		b.at(3 * time.Minute)
		if got := b.times("a"); len(got) != 17 || got[0] != 7*time.Second || got[16] != 119*time.Second {
			t.Errorf("it was looked after at %v, want every 7s of two minutes", got)
		}
		if slices.Contains(*extended, true) || !b.Until(l).Equal(end) {
			t.Errorf("it was extended: %v, until %v", *extended, b.Until(l))
		}
		b.wantLost("a", 2*time.Minute, watchdog.LostExpired)
	})
}

// A guarded lease that is renewed is renewed as often as it would be checked.
func TestGuardedLeaseIsRenewed(t *testing.T) {
	virtual(t, func(b *bench) {
		extended := b.extends(watchdog.Renewed)
		b.guarded("a", true)
		b.at(5 * time.Minute)
		if got := b.times("a"); len(got) != 42 || slices.Contains(*extended, false) {
			t.Errorf("it was renewed at %v, want every 7s; %v", got, *extended)
		}
		b.wantKept("a")
	})
}

// It is renewed every third of its lease if that is more frequent.
func TestGuardedLeaseIsRenewedEveryThird(t *testing.T) {
	virtual(t, func(b *bench) {
		b.extends(watchdog.Renewed)
		l := &watchdog.Lease{Of: "a", Terms: &watchdog.Terms{TTL: ttl, Trust: trust, Guard: time.Minute}}
		b.Add(l, time.Now(), trust, true)
		b.at(35 * time.Second)
		b.wantTimes("a", 10*time.Second, 20*time.Second, 30*time.Second)
		b.wantKept("a")
	})
}

// A lease that becomes renewed is renewed in time, even if its next check was far away.
func TestGuardedLeaseBecomesRenewed(t *testing.T) {
	virtual(t, func(b *bench) {
		b.extends(watchdog.Renewed)
		l := &watchdog.Lease{Of: "a", Terms: &watchdog.Terms{TTL: 3 * time.Second, Trust: 2900 * time.Millisecond, Guard: 10 * time.Second}}
		b.Add(l, time.Now(), 5*time.Second, false)
		b.at(time.Second)
		b.SetRenew(l, true)
		b.at(4500 * time.Millisecond)
		b.wantTimes("a", 2*time.Second, 3*time.Second, 4*time.Second)
		b.SetRenew(l, false)
		b.at(time.Minute)
		b.wantLost("a", 6900*time.Millisecond, watchdog.LostExpired)
	})
}

// A check that finds the lease gone ends it.
func TestGuardedLeaseIsLost(t *testing.T) {
	for state, reason := range map[watchdog.State]watchdog.Reason{
		watchdog.Gone: watchdog.LostGone, watchdog.Taken: watchdog.LostTaken,
	} {
		virtual(t, func(b *bench) {
			b.extends(state)
			b.guarded("a", false)
			b.at(time.Minute)
			b.wantLost("a", 7*time.Second, reason)
		})
	}
}

// A failed check is tried again, and does not end a lease that does not depend on it.
func TestGuardThatFails(t *testing.T) {
	virtual(t, func(b *bench) {
		b.serve(failed)
		b.guarded("a", false)
		b.at(3 * time.Minute)
		if n := len(b.times("a")); n < 80 {
			t.Errorf("%d looks, want about one a second", n)
		}
		b.wantLost("a", 2*time.Minute, watchdog.LostExpired)
	})
}
