//go:build interop

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

func endlessPermit(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-endless", 1)
	id := java.take()
	list, err := sem.List(t.Context())
	if err != nil || len(list) != 1 || list[0] != (mortise.Permit{ID: id[0], TTL: -1}) {
		t.Errorf("Go lists %v, %v, want %q without end", list, err, id)
	}
	waiting := w.permitsAwaited(t, sem)
	released := time.Now()
	java.say("release", id).must(t)
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	mustUnlock(t, got.hold)
}

func goPermitOutlastsLease(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-outlast", 1)
	hold, held := takePermits(t, sem)
	if got := java.try(1, pastLease, longLease); len(got) != 0 {
		t.Errorf("Java took %q, which is Go's", got)
	}
	if held.Err() != nil {
		t.Errorf("Go's hold was lost: %v", context.Cause(held))
	}
	mustUnlock(t, hold)
}

func goPermitEnds(t *testing.T, w *world) {
	const name = "permits-end-go"
	sem, java := w.permits(t, name, 1)
	hold, held := takePermits(t, sem.With(mortise.PermitOptions{MaxHold: shortLease}))
	end := w.lastEnd(t, name)
	waiting := java.waits(1, longLease)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, end)
	wantLost(t, hold, held)
}

func javaPermitEnds(t *testing.T, w *world) {
	const name = "permits-end-java"
	sem, java := w.permits(t, name, 1)
	java.take(1, shortLease)
	end := w.lastEnd(t, name)
	got := mustGain(t, w.permitsAwaited(t, sem))
	w.wantAtExpiry(t, "Go", got.at, end)
	mustUnlock(t, got.hold)
}

func killedGoPermitHolder(t *testing.T, w *world) {
	const name = "permits-killed-go"
	_, java := w.permits(t, name, 1)
	of := *w
	of.kind = permitKind
	dead := of.startPeer(t, name)
	waiting := java.waits(1, longLease)
	dead.kill()
	end := w.lastEnd(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, end)
}

func killedJavaPermitHolder(t *testing.T, w *world) {
	const name = "permits-killed-java"
	sem, _ := w.permits(t, name, 1)
	dead := w.startAgent(t)
	dead.thread("holder").send("permits.acquire", name, "1", millis(2*shortLease)).must(t)
	waiting := w.permitsAwaited(t, sem)
	dead.kill()
	end := w.lastEnd(t, name)
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, end)
	mustUnlock(t, got.hold)
}

func frozenGoPermitHolder(t *testing.T, w *world) {
	const name = "permits-frozen-go"
	_, java := w.permits(t, name, 1)
	of := *w
	of.kind = permitKind
	frozen := of.startPeer(t, name)
	waiting := java.waits(1, longLease)
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	end := w.lastEnd(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, end)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the Go holder woke and found that it lost the permit: %s", frozen.says(t, peerLost))
	if got := java.available(); got != 0 {
		t.Errorf("Java counts %d available, want 0", got)
	}
}
