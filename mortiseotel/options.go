package mortiseotel

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option changes a default of [New].
type Option func(*config)

type config struct {
	meters    metric.MeterProvider
	tracers   trace.TracerProvider
	lockName  func(string) string
	holdSpans bool
}

// WithMeterProvider replaces the global provider of meters. A nil provider changes nothing.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if p != nil {
			c.meters = p
		}
	}
}

// WithTracerProvider replaces the global provider of tracers. A nil provider changes nothing.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if p != nil {
			c.tracers = p
		}
	}
}

// WithLockName adds the attribute dlock.name to the metrics that have a kind, with what name returns
// for the name of a lock; if that is empty, there is no attribute. Each text makes time series of
// its own, so name should return few: "order" for order:4711. It must return the same text for the same
// name each time, or the counts of waiters and holds drift. It is called for every event, in the
// goroutine that locks: it must be quick, must not panic, and must be safe for concurrent use.
func WithLockName(name func(string) string) Option {
	return func(c *config) { c.lockName = name }
}

// WithHoldSpans adds the span dlock.hold, from the acquisition to the release or the loss. Links of
// waiters lead to it then.
//
// It is off by default. A span is exported when it ends: while a holder hangs, its span is not to be
// seen, and a process that dies takes it along; whereas dlock.acquire was exported before. Backends that
// gather the spans of a trace for some seconds do not take one of hours well, either, and
// dlock.hold.duration reports how long holds last. It is right for programs that have locks for as long
// as their requests last.
func WithHoldSpans(on bool) Option {
	return func(c *config) { c.holdSpans = on }
}
