package mortiseotel

import (
	"sync"

	"github.com/mortise-go/mortise"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// metrics are the instruments.
type metrics struct {
	acquire, hold, margin, pauses          metric.Float64Histogram
	waiting, held                          metric.Int64UpDownCounter
	lost, renewals, gaps, deadlocks, asked metric.Int64Counter

	lockName func(string) string // nil if names are in no metric

	mu   *sync.RWMutex // guards sets
	sets map[key]*set
}

// Bounds of the buckets, in seconds.
var (
	waits   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	margins = []float64{0, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 300}
	stops   = []float64{.25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
)

func newMetrics(c config) metrics {
	m := c.meters.Meter(scope)
	seconds := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		return made[metric.Float64Histogram](h, err, noop.Float64Histogram{})
	}
	counts := func(name, unit, description string) metric.Int64Counter {
		n, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		return made[metric.Int64Counter](n, err, noop.Int64Counter{})
	}
	current := func(name, unit, description string) metric.Int64UpDownCounter {
		n, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		return made[metric.Int64UpDownCounter](n, err, noop.Int64UpDownCounter{})
	}
	return metrics{
		acquire:   seconds("dlock.acquire.duration", "How long calls took until they had a lock, or had failed.", waits),
		hold:      seconds("dlock.hold.duration", "How long locks were held.", waits),
		margin:    seconds("dlock.lease.margin", "How long the most urgent lease of a renewal would have been trusted without it.", margins),
		pauses:    seconds("dlock.pauses", "How long the process stood still while it held locks.", stops),
		waiting:   current("dlock.waiter.count", "{waiter}", "Calls that wait for other owners."),
		held:      current("dlock.held.count", "{hold}", "Holds, re-entries included."),
		lost:      counts("dlock.lost", "{hold}", "Holds that were lost before they were released."),
		renewals:  counts("dlock.renewals", "{lease}", "Renewals of leases."),
		gaps:      counts("dlock.subscription.gaps", "{gap}", "Interruptions of subscriptions, in which messages were missed."),
		deadlocks: counts("dlock.deadlocks", "{waiter}", "Waiters that were found in a cycle of waits."),
		asked:     counts("dlock.asked", "{request}", "Requests to holders to release their locks."),
		lockName:  c.lockName, mu: new(sync.RWMutex), sets: make(map[key]*set),
	}
}

// made returns an instrument, or none if there is an error.
func made[T any](instrument T, err error, none T) T {
	if err != nil {
		otel.Handle(err)
		return none
	}
	return instrument
}

// key names a set of attributes. An empty text is no attribute.
type key struct {
	kind, outcome, failure, end, reason, name string
	call, contended                           bool // contended is an attribute only of a call
}

// set is a set of attributes, made once: making it costs more than counting.
type set struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

// mostSets is how many sets are kept. There are fewer, unless a program has more names of locks than a
// metric should have.
const mostSets = 1000

// of returns the set of k with the name of the lock of e; e is nil if the metric has none.
func (m *metrics) of(k key, e *mortise.Event) *set {
	if m.lockName != nil && e != nil {
		k.name = m.lockName(e.Lock)
	}
	m.mu.RLock()
	s := m.sets[k]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	s = k.set()
	m.mu.Lock()
	if len(m.sets) < mostSets {
		m.sets[k] = s
	}
	m.mu.Unlock()
	return s
}

// set makes the set of k.
func (k key) set() *set {
	var list []attribute.KeyValue
	for _, one := range []struct {
		key   attribute.Key
		value string
	}{
		{kindKey, k.kind}, {outcomeKey, k.outcome}, {failureKey, k.failure}, {"dlock.end", k.end}, {reasonKey, k.reason}, {nameKey, k.name},
	} {
		if one.value != "" {
			list = append(list, one.key.String(one.value))
		}
	}
	if k.call {
		list = append(list, attribute.Bool("dlock.contended", k.contended))
	}
	option := metric.WithAttributeSet(attribute.NewSet(list...))
	return &set{[]metric.RecordOption{option}, []metric.AddOption{option}}
}

// Attributes of metrics and spans.
const (
	kindKey    attribute.Key = "dlock.kind"
	nameKey    attribute.Key = "dlock.name"
	outcomeKey attribute.Key = "dlock.outcome"
	reasonKey  attribute.Key = "dlock.reason"
	failureKey attribute.Key = "error.type"
)
