package alertstest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/mortisetest"
)

// expect checks which alerts were fired, and returns the first of the names.
func expect(t *testing.T, scrapes []scrape, names ...string) *fired {
	t.Helper()
	alerts := load(t, scrapes).alerts(t)
	if got := slices.Sorted(maps.Keys(alerts)); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		t.Fatalf("alerts: %q, want %q", got, names)
	}
	for name, a := range alerts {
		t.Logf("%s from %v until %v: %v: %s", name, a.from, a.until, a.labels, a.annotations.Get("summary"))
		if s := a.annotations.Get("summary"); s == "" || strings.Contains(s, "<no value>") || strings.Contains(s, "  ") || strings.Contains(s, "()") {
			t.Errorf("the summary of %s is %q", name, s)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return alerts[names[0]]
}

func TestNoAlertInUsualWork(t *testing.T) {
	expect(t, run(t, func(f *fleet) {
		f.work()
		h := f.take(f.a, "kept")
		f.pass(5 * time.Minute)
		f.a.link.Next("lock_renew", 1, mortisetest.Fault{Lose: mortisetest.Request, Silent: true})
		f.pass(5 * time.Minute)
		if hits := f.a.link.Hits(); hits[mortisetest.RequestLost] != 1 || !h.Valid() {
			f.Errorf("what happened: %v; still held: %t", hits, h.Valid())
		}
		f.a.Close() // under the hold
		f.pass(5 * time.Minute)
	}))
}

func TestLockLost(t *testing.T) {
	const before = 5 * time.Minute
	alert := expect(t, run(t, func(f *fleet) {
		f.pass(before)
		h := f.take(f.a, "report")
		f.server.Evict("report")
		f.pass(8 * time.Minute)
		f.release(h)
		f.work()
	}), "LockLost")
	if alert.from <= before || alert.from > before+time.Minute {
		t.Errorf("fired after %v; the lock was lost after %v", alert.from, before)
	}
	if alert.until > before+6*time.Minute {
		t.Errorf("fired until %v; the lock was lost after %v", alert.until, before)
	}
	for name, want := range map[string]string{"instance": "api-1:9090", "kind": "lock", "reason": "forced", "severity": "critical"} {
		if got := alert.labels.Get(name); got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
}

// It is fired while the lock is still held.
func TestLockRenewalsFailing(t *testing.T) {
	const before = 5 * time.Minute
	alert := expect(t, run(t, func(f *fleet) {
		h := f.take(f.a, "report")
		f.pass(before)
		time.Sleep(time.Second) // a renewal is due at `before`; the link must not be cut in that very instant
		f.a.link.Partition()
		f.pass(every)
		time.Sleep(5 * time.Second)
		f.a.link.Heal()
		f.pass(5 * time.Minute)
		if err := h.Unlock(); err != nil {
			f.Errorf("the lock was lost: %v", err)
		}
	}), "LockRenewalsFailing")
	if alert.from <= before || alert.from > before+time.Minute || alert.until > before+3*time.Minute {
		t.Errorf("fired from %v until %v; renewals failed for 20 s after %v", alert.from, alert.until, before)
	}
}

// A failure that lasts is told no later than the loss.
func TestRenewalsFailNoLaterThanTheLoss(t *testing.T) {
	scrapes := run(t, func(f *fleet) {
		h := f.take(f.a, "report")
		f.pass(5 * time.Minute)
		f.a.link.Partition()
		f.pass(5 * time.Minute)
		f.a.link.Heal()
		f.release(h)
	})
	failing := expect(t, scrapes, "LockRenewalsFailing", "LockLost")
	if lost := load(t, scrapes).alerts(t)["LockLost"]; failing.from > lost.from || lost.labels.Get("reason") != "unreachable" {
		t.Errorf("renewals are said to fail from %v on, and the lock to be lost (%s) at %v", failing.from, lost.labels.Get("reason"), lost.from)
	}
}

func TestLockDeadlock(t *testing.T) {
	const before = 5 * time.Minute
	alert := expect(t, run(t, func(f *fleet) {
		f.pass(before)
		ended := f.cross()
		f.pass(2 * time.Minute)
		<-ended
		<-ended
	}), "LockDeadlock")
	if alert.from <= before || alert.from > before+time.Minute {
		t.Errorf("fired after %v; the deadlock began after %v", alert.from, before)
	}
}

func TestLockWaitIsLong(t *testing.T) {
	const before, wait = 8 * time.Minute, 12 * time.Minute
	alert := expect(t, run(t, func(f *fleet) {
		h := f.take(f.a, "report")
		f.pass(before)
		acquired := make(chan struct{})
		go func() {
			defer close(acquired)
			f.release(f.take(f.b, "report"))
		}()
		f.pass(wait)
		f.release(h)
		<-acquired
		f.pass(5 * time.Minute)
	}), "LockWaitIsLong")
	if alert.from < before+5*time.Minute || alert.from > before+6*time.Minute || alert.until > before+wait+every {
		t.Errorf("fired from %v until %v; the wait lasted from %v until %v", alert.from, alert.until, before, before+wait)
	}
	if got := alert.labels.Get("kind"); got != "lock" {
		t.Errorf("kind is %q, want lock", got)
	}
}
