package mortiseotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// types are all events, and one that there is not.
var types = []mortise.EventType{
	mortise.EventWaiting, mortise.EventAcquired, mortise.EventRefused, mortise.EventRenewed, mortise.EventRenewalFailing,
	mortise.EventLost, mortise.EventReleased, mortise.EventResolved, mortise.EventGap, mortise.EventPassedOver,
	mortise.EventPaused, mortise.EventDeadlock, mortise.EventAsked, "odd", "",
}

func TestOddEvents(t *testing.T) {
	for _, o := range map[string]*mortiseotel.Observer{
		"sdk":    newTelemetry(t, mortiseotel.WithHoldSpans(true), mortiseotel.WithLockName(strings.ToLower)).Observer,
		"global": mortiseotel.New(nil, mortiseotel.WithHoldSpans(true), mortiseotel.WithMeterProvider(nil), mortiseotel.WithTracerProvider(nil)),
		"none":   mortiseotel.New(mortiseotel.WithMeterProvider(metricnoop.NewMeterProvider())),
	} {
		for _, kind := range types {
			for _, e := range []mortise.Event{
				{},
				{Call: 7, Blocker: &mortise.Blocker{}, Err: errors.New("odd"), Waited: -time.Hour, Held: -1, Margin: -1, Pause: -1, Leases: -1, Queued: true},
				{Call: 7, Blocker: &mortise.Blocker{Link: "00-"}, Err: &mortise.LostError{Reason: "odd"}},
				{Call: 8, Err: fmt.Errorf("%w", mortise.ErrLost)},
			} {
				e.Type = kind
				o.Observe(e)
				_ = o.Link(e.Call)
			}
		}
		for call := range uint64(10) {
			o.Observe(mortise.Event{Type: mortise.EventReleased, Call: call})
		}
		if n := o.Kept(); n != 0 {
			t.Errorf("something is kept of %d calls", n)
		}
	}
}

// What is kept is bounded, even if no hold ever ends.
func TestEndsThatAreNotTold(t *testing.T) {
	m := newTelemetry(t, mortiseotel.WithHoldSpans(true))
	for call := range uint64(100_010) {
		m.Observe(mortise.Event{Type: mortise.EventWaiting, Call: call + 1})
	}
	if n := m.Kept(); n != 100_000 {
		t.Errorf("something is kept of %d calls, want 100,000", n)
	}
	m.Observe(mortise.Event{Type: mortise.EventAcquired, Call: 200_000})
	if link := m.Link(200_000); link != "" {
		t.Errorf("Link returned %q for a hold that is not kept", link)
	}
	if started, ended := len(m.spans.Started()), len(m.spans.Ended()); started != ended {
		t.Errorf("%d spans were begun, and %d ended", started, ended)
	}
}

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestHostileLinks(t *testing.T) {
	for text, valid := range map[string]bool{
		good:                                     true,
		strings.TrimSuffix(good, "01") + "00":    true,
		"":                                       false,
		"00":                                     false,
		good + "-":                               false,
		good + "-00":                             false,
		good + "\n":                              false,
		" " + good:                               false,
		strings.ToUpper(good):                    false,
		strings.Replace(good, "0af7", "0ag7", 1): false,
		strings.TrimSuffix(good, "1"):            false,
		"ff" + good[2:]:                          false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":            false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":            false,
		"01" + good[2:] + "-" + strings.Repeat("x", 200):                     false,
		strings.Repeat("\xff", len(good)):                                    false,
		"http://example.com/00-0af7651916cd43dd8448eb211c80319c-b7ad6b71-01": false,
	} {
		m := newTelemetry(t)
		m.Observe(mortise.Event{Type: mortise.EventAcquired, Call: 1, Blocker: &mortise.Blocker{Link: text}})
		links := m.one("dlock.acquire").Links()
		if valid != (len(links) == 1) {
			t.Errorf("%q made %d links, valid: %t", text, len(links), valid)
		}
		if valid && (!links[0].SpanContext.IsRemote() || links[0].SpanContext.TraceID().String() != good[3:35] || links[0].SpanContext.SpanID().String() != good[36:52]) {
			t.Errorf("%q links to %v", text, links[0].SpanContext)
		}
	}
}

// A link to a span that is not exported leads nowhere.
func TestSpansThatAreNotSampledAreNotLinkedTo(t *testing.T) {
	for _, holds := range []bool{false, true} {
		m := newTelemetry(t, mortiseotel.WithHoldSpans(holds), mortiseotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))
		m.Observe(mortise.Event{Type: mortise.EventAcquired, Call: 1, Owner: "a:1"})
		if link := m.Link(1); link != "" {
			t.Errorf("Link returned %q", link)
		}
		if n := m.Kept(); n != 0 {
			t.Errorf("something is kept of %d calls", n)
		}
	}
}

// Without an SDK the span of the caller, which is from elsewhere, is what can be linked to.
func TestLinkWithoutSDK(t *testing.T) {
	o := mortiseotel.New()
	at := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	o.Observe(mortise.Event{Type: mortise.EventAcquired, Call: 1, Owner: "a:1", Context: trace.ContextWithSpanContext(context.Background(), at)})
	if got, want := o.Link(1), "00-01000000000000000000000000000000-0200000000000000-01"; got != want {
		t.Errorf("Link returned %q, want %q", got, want)
	}
}

func TestOutcomes(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	over, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	<-over.Done()
	for i, c := range []struct {
		ctx    context.Context
		queued bool
		err    error
		want   string
	}{
		{t.Context(), false, mortise.ErrLocked, "outcome=locked"},
		{t.Context(), true, mortise.ErrLocked, "outcome=timeout"},
		{over, false, errors.Join(mortise.ErrLocked, context.DeadlineExceeded), "outcome=timeout"},
		{over, true, context.DeadlineExceeded, "outcome=timeout"},
		{over, true, errors.Join(mortise.ErrUnreachable, context.DeadlineExceeded), "outcome=error,error.type=unreachable"},
		{canceled, true, errors.Join(mortise.ErrLocked, context.Canceled), "outcome=canceled"},
		{canceled, true, mortise.ErrClosed, "outcome=error,error.type=closed"},
		{t.Context(), false, mortise.ErrNoPermits, "outcome=locked"},
		{t.Context(), false, errors.Join(mortise.ErrNotSet, mortise.ErrNoPermits), "outcome=error,error.type=not_set"},
		{t.Context(), true, fmt.Errorf("%w", &mortise.DeadlockError{}), "outcome=deadlock"},
		{t.Context(), false, mortise.ErrReentry, "outcome=error,error.type=reentry"},
		{t.Context(), false, nil, "outcome=error,error.type=_OTHER"},
	} {
		m := newTelemetry(t)
		m.Observe(mortise.Event{Type: mortise.EventRefused, Call: 1, Kind: "lock", Context: c.ctx, Queued: c.queued, Err: c.err})
		want := fmt.Sprintf("dlock.acquire.duration{contended=%t,kind=lock,%s}: 1, 0s", c.queued, c.want)
		if points := strings.Join(m.points(), "\n"); !strings.Contains(points, want) {
			t.Errorf("case %d, %v:\n%s\nwant %s", i, c.err, points, want)
		}
	}
}
