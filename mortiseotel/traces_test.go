package mortiseotel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	"github.com/mortise-go/mortise/mortisetest"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// holdFor has c hold the lock called job for that long, in a span called name, and reports when it has it.
func holdFor(t *testing.T, m *telemetry, c *mortise.Client, name string, d time.Duration) {
	t.Helper()
	held := make(chan error, 2)
	go func() {
		ctx, span := m.tracer.Tracer("test").Start(t.Context(), name)
		defer span.End()
		hold, _, err := c.Lock("job").Lock(ctx)
		held <- err
		if err == nil {
			time.Sleep(d)
			held <- hold.Unlock()
		}
	}()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := <-held; err != nil {
			t.Error(err)
		}
	})
}

func TestWaiterLinksToItsHolder(t *testing.T) {
	for _, holds := range []bool{false, true} {
		t.Run(map[bool]string{false: "Acquire", true: "Hold"}[holds], func(t *testing.T) {
			bubble(t, func(t *testing.T, s *mortisetest.Server) {
				m, n := newTelemetry(t, mortiseotel.WithHoldSpans(holds)), newTelemetry(t)
				a, b := client(t, s, m), client(t, s, n)
				holdFor(t, m, a, "deploy", 3*time.Second)
				ctx, span := n.tracer.Tracer("test").Start(t.Context(), "request")
				began := time.Now()
				hold, _, err := b.Lock("job").Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := hold.Unlock(); err != nil {
					t.Fatal(err)
				}
				span.End()
				time.Sleep(time.Second) // the holder has noted its release
				target := m.one(map[bool]string{false: "dlock.acquire", true: "dlock.hold"}[holds])
				waiter := n.one("dlock.acquire")
				if len(waiter.Links()) != 1 {
					t.Fatalf("the span of the waiter has %d links, want one", len(waiter.Links()))
				}
				to := waiter.Links()[0].SpanContext
				if to.TraceID() != target.SpanContext().TraceID() || to.SpanID() != target.SpanContext().SpanID() || !to.IsRemote() {
					t.Errorf("it links to %v, want the span of the holder, %v, as a remote one", to, target.SpanContext())
				}
				if got, want := target.Parent().SpanID(), m.one("deploy").SpanContext().SpanID(); got != want {
					t.Errorf("the parent of the span of the holder is %v, want %v", got, want)
				}
				wantAcquire(t, waiter, span, began)
				m.wantNothingHeld()
				n.wantNothingHeld()
			})
		})
	}
}

// wantAcquire compares the span of a call that waited for three seconds with what is wanted.
func wantAcquire(t *testing.T, got sdktrace.ReadOnlySpan, parent trace.Span, began time.Time) {
	t.Helper()
	if got.Parent().SpanID() != parent.SpanContext().SpanID() || got.SpanKind() != trace.SpanKindInternal || got.Status().Code != codes.Unset {
		t.Errorf("span with the parent %v, kind %v, status %v", got.Parent(), got.SpanKind(), got.Status())
	}
	if !got.StartTime().Equal(began) || got.EndTime().Sub(began) != 3*time.Second {
		t.Errorf("span from %v to %v, want 3 s from %v", got.StartTime(), got.EndTime(), began)
	}
	for name, want := range map[string]string{"dlock.name": "job", "dlock.kind": "lock", "dlock.outcome": "acquired", "dlock.waited": "3", "dlock.queued": "true"} {
		for _, a := range got.Attributes() {
			if string(a.Key) == name && a.Value.String() == want {
				want = ""
			}
		}
		if want != "" {
			t.Errorf("attributes %v, want %s = %s", got.Attributes(), name, want)
		}
	}
	if !strings.Contains(attributeOf(got, "dlock.blocker"), " pid ") {
		t.Errorf("dlock.blocker is %q, want the process of the holder", attributeOf(got, "dlock.blocker"))
	}
	if e := got.Events(); len(e) != 1 || e[0].Name != "queued" || !e[0].Time.Equal(began) {
		t.Errorf("events %v, want that it was queued at %v", e, began)
	}
}

func TestSpansOfHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t, mortiseotel.WithHoldSpans(true))
		a := client(t, s, m)
		hold, ctx, err := a.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inner, _, err := a.Lock("job").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := inner.Unlock(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Ask(t.Context(), "job", "deploy"); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if _, err := a.Lock("job").ForceUnlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Fatalf("Unlock: %v", err)
		}
		spans := m.named("dlock.hold")
		if len(spans) != 2 || len(m.named("dlock.acquire")) != 2 {
			t.Fatalf("spans of %d holds and %d calls, want two of each", len(spans), len(m.named("dlock.acquire")))
		}
		if d := spans[0].EndTime().Sub(spans[0].StartTime()); d != time.Second || spans[0].Status().Code != codes.Unset {
			t.Errorf("the re-entry lasted for %v, with the status %v", d, spans[0].Status())
		}
		if lost := spans[1]; lost.Status().Code != codes.Error || !slices.Equal(events(lost), []string{"asked", "lost"}) || attributeOf(lost, "dlock.reason") != "forced" {
			t.Errorf("the lost hold: status %v, events %v, reason %q", lost.Status(), events(lost), attributeOf(lost, "dlock.reason"))
		}
		m.wantNothingHeld()
	})
}

func TestDeadlocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t)
		a, b := client(t, s, m), client(t, s, m)
		cross := func(c *mortise.Client, outer, inner string) error {
			return c.Lock(outer).Do(t.Context(), func(ctx context.Context) error {
				time.Sleep(100 * time.Millisecond)
				return c.Lock(inner).With(mortise.LockOptions{Deadlock: mortise.DeadlockFail}).Do(ctx, func(context.Context) error { return nil })
			})
		}
		done := make(chan error, 2)
		go func() { done <- cross(a, "left", "right") }()
		go func() { done <- cross(b, "right", "left") }()
		if err := errors.Join(<-done, <-done); !errors.Is(err, mortise.ErrDeadlock) {
			t.Fatalf("%v, want a deadlock", err)
		}
		var outcomes []string
		for _, span := range m.named("dlock.acquire") {
			outcome := attributeOf(span, "dlock.outcome")
			outcomes = append(outcomes, outcome)
			if outcome == "deadlock" && (!slices.Contains(events(span), "deadlock") || span.Status().Code != codes.Error) {
				t.Errorf("the span of a deadlock has the status %v and the events %v", span.Status(), events(span))
			}
		}
		slices.Sort(outcomes)
		if want := []string{"acquired", "acquired", "acquired", "deadlock"}; !slices.Equal(outcomes, want) {
			t.Errorf("outcomes %v, want %v", outcomes, want)
		}
		if points := strings.Join(m.points(), "\n"); !strings.Contains(points, "dlock.deadlocks{kind=lock}: ") {
			t.Errorf("metrics without deadlocks:\n%s", points)
		}
		m.wantNothingHeld()
	})
}
