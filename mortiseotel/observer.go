package mortiseotel

import (
	"context"
	"time"

	"github.com/mortise-go/mortise"
	"go.opentelemetry.io/otel"
)

// scope is the name of the instrumentation.
const scope = "github.com/mortise-go/mortise/mortiseotel"

// Observer makes metrics and traces of the events of clients. It is a [mortise.Linker]. Several
// clients of a process can share one. Its methods are safe for concurrent use.
//
// It keeps what it must know of a call until the call fails, or its hold has ended; of at most
// 100,000 calls at once: further ones have neither links nor spans of holds. It locks nothing while it calls
// OpenTelemetry, and blocks only as long as the providers do, which should never be.
type Observer struct {
	metrics metrics
	traces  traces
}

var _ mortise.Linker = (*Observer)(nil)

// New returns an observer that uses the global providers of OpenTelemetry, unless options name others.
// A metric that the provider refuses is reported to OpenTelemetry's error handler, and left out.
func New(options ...Option) *Observer {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, set := range options {
		if set != nil {
			set(&c)
		}
	}
	return &Observer{newMetrics(c), newTraces(c)}
}

// Observe counts and traces e. It is called by the client.
func (o *Observer) Observe(e mortise.Event) {
	if e.Context == nil {
		e.Context = context.Background()
	}
	m, now := &o.metrics, time.Now()
	switch e.Type {
	case mortise.EventWaiting:
		o.traces.waiting(&e, now)
		m.waiting.Add(e.Context, 1, m.of(key{kind: e.Kind}, &e).add...)
	case mortise.EventAcquired, mortise.EventRefused:
		o.concluded(&e, now)
	case mortise.EventReleased, mortise.EventLost:
		o.ended(&e, now)
	case mortise.EventRenewed:
		m.renewals.Add(e.Context, int64(e.Leases), m.of(key{outcome: "renewed"}, nil).add...)
		m.margin.Record(e.Context, e.Margin.Seconds())
	case mortise.EventRenewalFailing:
		m.renewals.Add(e.Context, int64(e.Leases), m.of(key{outcome: "failed"}, nil).add...)
	case mortise.EventGap:
		m.gaps.Add(e.Context, 1)
	case mortise.EventPaused:
		m.pauses.Record(e.Context, e.Pause.Seconds())
	case mortise.EventDeadlock:
		o.traces.deadlock(&e, now)
		m.deadlocks.Add(e.Context, 1, m.of(key{kind: e.Kind}, &e).add...)
	case mortise.EventAsked:
		o.traces.asked(&e, now)
		m.asked.Add(e.Context, 1, m.of(key{kind: e.Kind}, &e).add...)
	}
}

// concluded reports a call that has acquired, or failed.
func (o *Observer) concluded(e *mortise.Event, now time.Time) {
	m := &o.metrics
	what := e.Outcome()
	failed := failure(e, what)
	ctx := o.traces.concluded(e, now, what, failed)
	kind := m.of(key{kind: e.Kind}, e).add
	if e.Queued {
		m.waiting.Add(ctx, -1, kind...)
	}
	if hasHold(e) {
		m.held.Add(ctx, 1, kind...)
	}
	m.acquire.Record(ctx, e.Waited.Seconds(), m.of(key{kind: e.Kind, outcome: what, failure: failed, contended: e.Queued, call: true}, e).record...)
}

// hasHold reports whether the call has acquired a hold, whose end is told. A latch was only waited for, and
// the permits of a plain semaphore belong to nobody.
func hasHold(e *mortise.Event) bool { return e.Type == mortise.EventAcquired && e.Owner != "" }

// ended reports a hold that was released or lost.
func (o *Observer) ended(e *mortise.Event, now time.Time) {
	m := &o.metrics
	end, reason := e.End()
	ctx := o.traces.ended(e, now, reason)
	m.held.Add(ctx, -1, m.of(key{kind: e.Kind}, e).add...)
	if reason != "" {
		m.lost.Add(ctx, 1, m.of(key{kind: e.Kind, reason: reason}, e).add...)
	}
	m.hold.Record(ctx, e.Held.Seconds(), m.of(key{kind: e.Kind, end: end}, e).record...)
}

// Link returns the traceparent of the span that waiters for the hold of a call link to, or "". It
// is called by the client.
func (o *Observer) Link(call uint64) string { return o.traces.link(call) }
