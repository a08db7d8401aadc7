package mortiseotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	"github.com/mortise-go/mortise/mortisetest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// telemetry is an observer, and what it has told.
type telemetry struct {
	*mortiseotel.Observer
	t      *testing.T
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
}

func newTelemetry(t *testing.T, options ...mortiseotel.Option) *telemetry {
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	meter := metric.NewMeterProvider(metric.WithReader(reader))
	all := append([]mortiseotel.Option{mortiseotel.WithMeterProvider(meter), mortiseotel.WithTracerProvider(tracer)}, options...)
	return &telemetry{mortiseotel.New(all...), t, reader, spans, tracer}
}

// points returns the points of all metrics as text, "name attributes: value"; of a histogram how many
// values it has, and their sum.
func (m *telemetry) points() (lines []string) {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		m.t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, one := range scope.Metrics {
			switch data := one.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s{%s}: %d, %.3gs", one.Name, encode(p.Attributes), p.Count, p.Sum))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s{%s}: %d", one.Name, encode(p.Attributes), p.Value))
				}
			default:
				m.t.Errorf("metric %s has %T", one.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func encode(set attribute.Set) string {
	return strings.ReplaceAll(set.Encoded(attribute.DefaultEncoder()), "dlock.", "")
}

// wantPoints compares all metrics with what is wanted.
func (m *telemetry) wantPoints(want ...string) {
	m.t.Helper()
	slices.Sort(want)
	if got := m.points(); !slices.Equal(got, want) {
		m.t.Errorf("metrics:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantNothingHeld demands that no waiter and no hold is counted any more, and nothing kept.
func (m *telemetry) wantNothingHeld() {
	m.t.Helper()
	for _, line := range m.points() {
		if (strings.HasPrefix(line, "dlock.waiter.count") || strings.HasPrefix(line, "dlock.held.count")) && !strings.HasSuffix(line, ": 0") {
			m.t.Errorf("at the end: %s", line)
		}
	}
	if n := m.Kept(); n != 0 {
		m.t.Errorf("something is kept of %d calls at the end", n)
	}
	if started, ended := len(m.spans.Started()), len(m.spans.Ended()); started != ended {
		m.t.Errorf("%d spans were begun, and %d ended", started, ended)
	}
}

// named returns the ended spans of that name.
func (m *telemetry) named(name string) (spans []sdktrace.ReadOnlySpan) {
	for _, s := range m.spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// one returns the only ended span of that name.
func (m *telemetry) one(name string) sdktrace.ReadOnlySpan {
	m.t.Helper()
	spans := m.named(name)
	if len(spans) != 1 {
		m.t.Fatalf("%d spans %s, want one", len(spans), name)
	}
	return spans[0]
}

// attribute returns an attribute of a span as text, and "" if it has none of that name.
func attributeOf(s sdktrace.ReadOnlySpan, name attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == name {
			return a.Value.String()
		}
	}
	return ""
}

// events returns the names of the events of a span.
func events(s sdktrace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

// bubble runs f in virtual time, with a server.
func bubble(t *testing.T, f func(t *testing.T, s *mortisetest.Server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		t.Cleanup(s.Close)
		f(t, s)
	})
}

// client returns a client of s that is observed.
func client(t *testing.T, s *mortisetest.Server, o mortise.Observer) *mortise.Client {
	c := mortise.New(s.Link(), &mortise.Options{Observer: o, TTL: 3 * time.Second})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
