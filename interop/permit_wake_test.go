//go:build interop

package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

func goPermitWakesJava(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-wake-java", 1)
	hold, _ := takePermits(t, sem.With(mortise.PermitOptions{TTL: longLease, MaxHold: longLease}))
	waiting := java.waits(1, longLease)
	released := time.Now()
	mustUnlock(t, hold)
	w.inTime("Java", waiting.must(t).received.Sub(released))
}

func javaPermitWakesGo(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-wake-go", 1)
	var took []time.Duration
	for range 5 {
		id := java.take(1, longLease)
		waiting := w.permitsAwaited(t, sem)
		released := time.Now()
		java.say("release", id).must(t)
		got := mustGain(t, waiting)
		took = append(took, got.at.Sub(released))
		mustUnlock(t, got.hold)
	}
	w.wantPrompt(t, took)
}

func goPermitsWakeJavas(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-wake-javas", 3)
	hold, _ := takePermits(t, sem.With(mortise.PermitOptions{Permits: 3, TTL: longLease, MaxHold: longLease}))
	var waiting []*reply
	for i := range 3 {
		waiting = append(waiting, java.as(fmt.Sprint("waiter", i)).waits(1, longLease))
	}
	released := time.Now()
	mustUnlock(t, hold)
	for _, one := range waiting {
		w.inTime("Java", one.must(t).received.Sub(released))
	}
}

func goPermitsWakeJavaForSeveral(t *testing.T, w *world) {
	if w.lacks(t, "3.51.0") {
		return
	}
	sem, java := w.permits(t, "permits-several-java", 3)
	one, _ := takePermits(t, sem.With(mortise.PermitOptions{TTL: longLease, MaxHold: longLease}))
	two, _ := takePermits(t, sem.With(mortise.PermitOptions{Permits: 2, TTL: longLease, MaxHold: longLease}))
	waiting := java.waits(3, longLease)
	mustUnlock(t, one)
	released := time.Now()
	mustUnlock(t, two)
	w.inTime("Java", waiting.must(t).received.Sub(released))
}

func javaPermitsWakeGoForSeveral(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-several-go", 3)
	var ids []string
	for range 3 {
		ids = append(ids, java.take(1, longLease)...)
	}
	waiting := w.permitsAwaited(t, sem.With(mortise.PermitOptions{Permits: 3}))
	java.say("release", ids[0]).must(t)
	released := time.Now()
	if atLeast(t, w.version, manyPermits) {
		java.say("release", ids[1:]).must(t)
	} else {
		java.say("release", ids[1]).must(t)
		java.say("release", ids[2]).must(t)
	}
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	mustUnlock(t, got.hold)
}

func goPermitsAddedWakeJava(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-more-java", 0)
	for what, more := range map[string]func() error{
		"AddPermits": func() error { return sem.AddPermits(t.Context(), 1) },
		"SetPermits": func() error { return sem.SetPermits(t.Context(), 1) },
	} {
		waiting := java.waits(1, longLease)
		start := time.Now()
		if err := more(); err != nil {
			t.Fatal(err)
		}
		answer := waiting.must(t)
		w.inTime(what+", Java", answer.received.Sub(start))
		if err := sem.SetPermits(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		list, err := sem.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		java.say("release", list[0].ID).must(t)
	}
}

func javaPermitsAddedWakeGo(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-more-go", 0)
	waiting := w.permitsAwaited(t, sem)
	start := time.Now()
	java.say("addPermits", 1).must(t)
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(start))
	mustUnlock(t, got.hold)
}
