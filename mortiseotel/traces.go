package mortiseotel

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traces makes spans, and knows what links to them.
type traces struct {
	tracer    trace.Tracer
	holdSpans bool

	mu    *sync.Mutex // guards calls; OpenTelemetry is not called under it
	calls map[uint64]call
}

// call is what is kept of a call that waits, or whose hold lasts.
type call struct {
	queued time.Time         // when it began to wait
	cycle  *cycle            // the cycle of waits that it was found in, or nil
	linked trace.SpanContext // of the span that others link to
	hold   trace.Span        // nil if there is none
}

// cycle is a cycle of waits, and when it was found.
type cycle struct {
	found time.Time
	text  string
}

// mostCalls bounds what is kept, should the end of calls not be told.
const mostCalls = 100_000

func newTraces(c config) traces {
	return traces{tracer: c.tracers.Tracer(scope), holdSpans: c.holdSpans, mu: new(sync.Mutex), calls: make(map[uint64]call)}
}

// keep keeps c, unless too much is kept. It reports whether it does. Number 0 is that of no call.
func (t *traces) keep(number uint64, c call) bool {
	if number == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.calls[number]
	if !known && len(t.calls) >= mostCalls {
		return false
	}
	t.calls[number] = c
	return true
}

// take returns what is kept of a call, and keeps it no longer.
func (t *traces) take(number uint64) call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[number]
	delete(t.calls, number)
	return c
}

// waiting notes when a call began to wait.
func (t *traces) waiting(e *mortise.Event, now time.Time) { t.keep(e.Call, call{queued: now}) }

// deadlock notes that a call waits in a cycle. It may have got on meanwhile.
func (t *traces) deadlock(e *mortise.Event, now time.Time) {
	text := message(e.Err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.calls[e.Call]; ok && !c.queued.IsZero() {
		c.cycle = &cycle{now, text}
		t.calls[e.Call] = c
	}
}

// concluded makes the span of a call that has ended, and begins that of its hold. It returns the context
// of the span of the call.
func (t *traces) concluded(e *mortise.Event, now time.Time, what, failure string) context.Context {
	c := t.take(e.Call)
	parent := e.Context
	ctx, span := t.tracer.Start(parent, "dlock.acquire", trace.WithTimestamp(now.Add(-max(e.Waited, 0))),
		trace.WithAttributes(nameKey.String(e.Lock), kindKey.String(e.Kind)))
	if span.IsRecording() {
		c.describe(span, e)
		span.SetAttributes(outcomeKey.String(what))
		if failure != "" {
			span.SetAttributes(failureKey.String(failure))
		}
		if failure != "" || what == "deadlock" {
			span.SetStatus(codes.Error, message(e.Err))
		}
		linkTo(span, e.Blocker)
		span.End(trace.WithTimestamp(now))
	}
	if hasHold(e) {
		t.held(parent, e, now, span.SpanContext())
	}
	return ctx
}

// describe writes what happened to the call into its span.
func (c *call) describe(span trace.Span, e *mortise.Event) {
	list := append(make([]attribute.KeyValue, 0, 6), attribute.Float64("dlock.waited", e.Waited.Seconds()), attribute.Bool("dlock.queued", e.Queued))
	if e.How != "" {
		list = append(list, attribute.String("dlock.how", string(e.How)))
	}
	list = append(list, holdAttributes(e)...)
	if e.Blocker != nil {
		list = append(list, attribute.String("dlock.blocker", e.Blocker.String()))
	}
	span.SetAttributes(list...)
	if !c.queued.IsZero() {
		span.AddEvent("queued", trace.WithTimestamp(c.queued))
	}
	if c.cycle != nil {
		span.AddEvent("deadlock", trace.WithTimestamp(c.cycle.found), trace.WithAttributes(attribute.String("dlock.deadlock", c.cycle.text)))
	}
}

// holdAttributes returns what names a hold in Redis.
func holdAttributes(e *mortise.Event) (list []attribute.KeyValue) {
	if e.Owner != "" {
		list = append(list, attribute.String("dlock.owner", e.Owner))
	}
	if e.Token != 0 {
		list = append(list, attribute.Int64("dlock.token", e.Token))
	}
	return list
}

// linkTo links span to that of the holder that was waited for. Its text may have been written by anybody.
func linkTo(span trace.Span, b *mortise.Blocker) {
	if b == nil || len(b.Link) != linkLength {
		return
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: b.Link})
	if at := trace.SpanContextFromContext(ctx); at.IsValid() {
		span.AddLink(trace.Link{SpanContext: at, Attributes: []attribute.KeyValue{attribute.String("dlock.blocker", b.String())}})
	}
}

const (
	traceparent = "traceparent"
	linkLength  = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
)

// held keeps what others link to while the lock is held, and begins the span of the hold.
func (t *traces) held(parent context.Context, e *mortise.Event, now time.Time, at trace.SpanContext) {
	c := call{linked: at}
	if t.holdSpans {
		_, span := t.tracer.Start(parent, "dlock.hold", trace.WithTimestamp(now), trace.WithAttributes(nameKey.String(e.Lock), kindKey.String(e.Kind)))
		c.linked = span.SpanContext()
		if span.IsRecording() {
			span.SetAttributes(holdAttributes(e)...)
			c.hold = span
		}
	}
	if c.linked.IsSampled() || c.hold != nil {
		if !t.keep(e.Call, c) && c.hold != nil {
			c.hold.End(trace.WithTimestamp(now)) // nobody would end it
		}
	}
}

// asked notes that the holder was asked to release the lock.
func (t *traces) asked(e *mortise.Event, now time.Time) {
	t.mu.Lock()
	span := t.calls[e.Call].hold
	t.mu.Unlock()
	if span != nil {
		span.AddEvent("asked", trace.WithTimestamp(now), trace.WithAttributes(attribute.String("dlock.asked", message(e.Err))))
	}
}

// ended ends the span of a hold, that was lost for reason, or released if that is empty. It returns the
// context of that span.
func (t *traces) ended(e *mortise.Event, now time.Time, reason string) context.Context {
	span := t.take(e.Call).hold
	if span == nil {
		return e.Context
	}
	if reason != "" {
		span.AddEvent("lost", trace.WithTimestamp(now), trace.WithAttributes(reasonKey.String(reason)))
		span.SetAttributes(reasonKey.String(reason))
		span.SetStatus(codes.Error, message(e.Err))
	}
	span.End(trace.WithTimestamp(now))
	return trace.ContextWithSpan(e.Context, span)
}

// link returns the traceparent for waiters for the hold of a call.
func (t *traces) link(number uint64) string {
	t.mu.Lock()
	at := t.calls[number].linked
	t.mu.Unlock()
	if !at.IsValid() || !at.IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), at), carrier)
	return carrier[traceparent]
}

// message returns the text of an error.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
