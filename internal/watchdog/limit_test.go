package watchdog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// A lease with a limit is renewed like any other, and lost at its limit.
func TestLimit(t *testing.T) {
	virtual(t, func(b *bench) {
		l := b.add("a", true)
		b.SetLimit(l, b.start.Add(55*time.Second))
		b.at(54 * time.Second)
		if got := b.Until(l).Sub(b.start); got != 55*time.Second {
			t.Errorf("trust ends at %v, want 55s", got)
		}
		b.at(2 * time.Minute)
		b.wantTimes("a", period, 2*period, 3*period, 4*period, 5*period)
		b.wantLost("a", 55*time.Second, watchdog.LostExpired)
	})
}

// A limit cuts the trust that a lease has. It can be raised and removed, and then the next
// confirmation counts in full.
func TestLimitThatChanges(t *testing.T) {
	virtual(t, func(b *bench) {
		cut, kept := b.add("a:cut", true), b.add("a:kept", true)
		for _, l := range []*watchdog.Lease{cut, kept} {
			b.SetLimit(l, b.start.Add(5*time.Second))
		}
		b.at(4 * time.Second)
		b.SetLimit(kept, b.start.Add(time.Minute))
		b.Confirm(kept, b.start.Add(4*time.Second), trust)
		b.at(5 * time.Minute)
		b.wantLost("a:cut", 5*time.Second, watchdog.LostExpired)
		b.wantLost("a:kept", time.Minute, watchdog.LostExpired)
		b.SetLimit(kept, time.Now()) // without effect or harm

		freed := b.add("b", true)
		b.SetLimit(freed, time.Now().Add(20*time.Second))
		b.SetLimit(freed, time.Time{})
		b.at(10 * time.Minute)
		b.wantKept("b")
	})
}

// A lease that cannot be renewed before its limit comes is lost because of that.
func TestLimitWhileTheServerIsDown(t *testing.T) {
	virtual(t, func(b *bench) {
		limited, other := b.add("a:limited", true), b.add("a:other", true)
		b.SetLimit(limited, b.start.Add(25*time.Second))
		b.SetLimit(other, b.start.Add(time.Hour))
		b.serve(func(context.Context, *watchdog.Lease) watchdog.Answer {
			return watchdog.Answer{State: watchdog.Failed, Err: errDown}
		})
		b.at(time.Minute)
		b.wantLost("a:limited", 25*time.Second, watchdog.LostExpired)
		b.wantLost("a:other", trust, watchdog.LostUnconfirmed)
	})
}

// The record of a lease with a limit is not handed on: the next holder has no limit.
func TestLimitIsNotHandedOn(t *testing.T) {
	virtual(t, func(b *bench) {
		l, heir := b.add("a", true), b.lease("a:heir")
		b.SetLimit(l, b.start.Add(time.Minute))
		if b.Hand(l, heir, 0) {
			t.Error("a lease with a limit was handed on")
		}
		b.SetLimit(l, time.Time{})
		if !b.Hand(l, heir, 0) {
			t.Error("a lease without a limit was not handed on")
		}
	})
}

// Leases whose limits come one after the other leave the others the time that a slow server needs.
func TestLimitsDoNotHurryOthers(t *testing.T) {
	virtual(t, func(b *bench) {
		const others = 10
		for i := range 200 {
			limited := b.add(fmt.Sprint("a:limited", i), true)
			b.SetLimit(limited, b.start.Add(period+time.Duration(i)*200*time.Millisecond))
		}
		for i := range others {
			b.add(fmt.Sprint("a:other", i), true)
		}
		b.serve(slowOnce(2 * time.Second))
		b.at(2 * trust)
		for i := range others {
			b.wantKept(fmt.Sprint("a:other", i))
		}
	})
}
