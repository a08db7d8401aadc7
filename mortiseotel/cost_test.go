package mortiseotel_test

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// pair is what a lock tells that is acquired after a wait, and released.
func pair(o mortise.Observer) {
	ctx := context.Background()
	o.Observe(mortise.Event{Type: mortise.EventWaiting, Lock: "job", Kind: "lock", Call: 1, Context: ctx})
	o.Observe(mortise.Event{Type: mortise.EventAcquired, Lock: "job", Kind: "lock", Call: 1, Context: ctx, How: mortise.HowFree, Queued: true})
	o.Observe(mortise.Event{Type: mortise.EventReleased, Lock: "job", Kind: "lock", Call: 1, Context: ctx, Queued: true})
}

// Counting needs no allocation, since one set of attributes serves all; those that remain without spans are
// the options with which OpenTelemetry is asked for one.
func TestAllocations(t *testing.T) {
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, c := range []struct {
		name    string
		options []mortiseotel.Option
		most    float64
	}{
		{"metrics", []mortiseotel.Option{mortiseotel.WithMeterProvider(meter)}, 8},
		{"metrics with names", []mortiseotel.Option{mortiseotel.WithMeterProvider(meter), mortiseotel.WithLockName(func(name string) string { return name })}, 8},
		{"spans that are not sampled", []mortiseotel.Option{mortiseotel.WithMeterProvider(noop.NewMeterProvider()), mortiseotel.WithTracerProvider(never)}, 8},
		{"spans", []mortiseotel.Option{mortiseotel.WithTracerProvider(sdktrace.NewTracerProvider())}, 20},
		{"spans of holds", []mortiseotel.Option{mortiseotel.WithTracerProvider(sdktrace.NewTracerProvider()), mortiseotel.WithHoldSpans(true)}, 32},
	} {
		o := mortiseotel.New(c.options...)
		if got := testing.AllocsPerRun(1000, func() { pair(o) }); got > c.most {
			t.Errorf("%s: %v allocations, want %v at most", c.name, got, c.most)
		}
	}
}

func BenchmarkPair(b *testing.B) {
	o := mortiseotel.New(mortiseotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
	b.ReportAllocs()
	for b.Loop() {
		pair(o)
	}
}
