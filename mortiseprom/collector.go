package mortiseprom

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mortise-go/mortise"
)

// Collector counts what clients report to their observer. It is safe for concurrent use.
//
// To tell it something takes no I/O, and waits for nothing but other goroutines that tell it
// something. It keeps no more than its metrics, of which there are only so many.
type Collector struct {
	name  func(lock string) string // nil if there is no label for it
	kinds *values
	names *values
	all   []prometheus.Collector

	acquire, hold          *prometheus.HistogramVec
	waiters, held          *prometheus.GaugeVec
	lost                   *prometheus.CounterVec
	margin, pause          prometheus.Histogram
	renewed, failed        prometheus.Counter // renewals
	gaps, deadlocks, asked prometheus.Counter

	mu     sync.RWMutex // guards series
	series map[labels]*series
}

var (
	_ prometheus.Collector = (*Collector)(nil)
	_ mortise.Observer     = (*Collector)(nil)
)

// labels are the values of the labels kind and lock.
type labels struct{ kind, lock string }

// with returns the values of the labels of a metric that has others as well.
func (c *Collector) with(l labels, others ...string) []string {
	if c.name == nil {
		return append([]string{l.kind}, others...)
	}
	return append([]string{l.kind, l.lock}, others...)
}

// series are those of a kind and a name that every call changes.
type series struct {
	labels
	waiters, held prometheus.Gauge
}

// knownKinds are the kinds of objects that have holds.
var knownKinds = []string{
	"doublebarrier", "election", "fairlock", "fencedlock", "grouplock", "lock", "multilock",
	"permitsemaphore", "redlock", "rwlock.read", "rwlock.write", "spinlock",
}

// mostKinds is more than there are: one that is not known here gets a value of its own, too.
const mostKinds = 32

// The buckets of calls and holds, of margins, and of pauses, in seconds.
var (
	durations = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	margins   = []float64{0, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 300}
	pauses    = []float64{.25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
)

// New returns a collector that has counted nothing yet. o may be nil.
func New(o *Options) *Collector {
	with := o.withDefaults()
	c := &Collector{
		name: with.Name, kinds: newValues(mostKinds, knownKinds...), names: newValues(with.MaxNames), series: make(map[labels]*series),
	}
	of := []string{"kind"}
	if c.name != nil {
		of = append(of, "lock")
	}
	also := func(others ...string) []string { return append(of[:len(of):len(of)], others...) }
	c.acquire = prometheus.NewHistogramVec(with.histogram("dlock_acquire_duration_seconds",
		"How long a call took until it had acquired the lock, or had failed.", durations), also("outcome", "contended"))
	c.hold = prometheus.NewHistogramVec(with.histogram("dlock_hold_duration_seconds",
		"How long a hold lasted.", durations), also("end"))
	c.waiters = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dlock_waiters",
		Help: "Calls that wait for other owners."}, of)
	c.held = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dlock_held",
		Help: "Holds that were neither released nor lost, re-entries included."}, of)
	c.lost = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dlock_lost_total",
		Help: "Holds that were lost."}, also("reason"))
	c.margin = prometheus.NewHistogram(with.histogram("dlock_lease_margin_seconds",
		"For how long the most urgent lease of a confirmed renewal would have been trusted without it.", margins))
	c.pause = prometheus.NewHistogram(with.histogram("dlock_pause_seconds",
		"How long the process stood still while it held locks.", pauses))
	c.all = append(c.all, c.acquire, c.hold, c.waiters, c.held, c.lost, c.margin, c.pause)
	c.addCounters()
	if c.name == nil {
		for _, kind := range knownKinds {
			c.countLosses(labels{kind: kind})
		}
	}
	return c
}

// addCounters makes the counters that have no label kind.
func (c *Collector) addCounters() {
	renewals := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dlock_renewals_total",
		Help: "Renewals of a lease."}, []string{"outcome"})
	c.renewed, c.failed = renewals.WithLabelValues("renewed"), renewals.WithLabelValues("failed")
	c.gaps = prometheus.NewCounter(prometheus.CounterOpts{Name: "dlock_subscription_gaps_total",
		Help: "Interruptions of a subscription, after which waiters asked instead."})
	c.deadlocks = prometheus.NewCounter(prometheus.CounterOpts{Name: "dlock_deadlocks_total",
		Help: "Waits of this process that are part of a deadlock."})
	c.asked = prometheus.NewCounter(prometheus.CounterOpts{Name: "dlock_asked_total",
		Help: "Requests to this process to release a lock."})
	c.all = append(c.all, renewals, c.gaps, c.deadlocks, c.asked)
}

// histogram returns the options of a histogram.
func (o *Options) histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	h := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	if o.NativeHistograms {
		h.NativeHistogramBucketFactor = 1.1
		h.NativeHistogramMaxBucketNumber = 160
		h.NativeHistogramMinResetDuration = time.Hour
	}
	return h
}

// countLosses makes the counters of losses be there before the first one.
func (c *Collector) countLosses(l labels) {
	for _, reason := range lostReasons {
		c.lost.WithLabelValues(c.with(l, reason)...)
	}
}

// of returns the series of what e is about.
func (c *Collector) of(e *mortise.Event) *series {
	l := labels{kind: c.kinds.of(e.Kind)}
	if c.name != nil {
		l.lock = c.names.of(c.name(e.Lock))
	}
	c.mu.RLock()
	s := c.series[l]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s = c.series[l]; s == nil {
		with := c.with(l)
		s = &series{labels: l, waiters: c.waiters.WithLabelValues(with...), held: c.held.WithLabelValues(with...)}
		c.countLosses(l)
		c.series[l] = s
	}
	return s
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, one := range c.all {
		one.Describe(to)
	}
}

// Collect sends all metrics. While it waits for the receiver, nothing waits for it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	collected := make(chan prometheus.Metric)
	go func() {
		defer close(collected)
		for _, one := range c.all { // which are locked while they send
			one.Collect(collected)
		}
	}()
	var metrics []prometheus.Metric
	for m := range collected {
		metrics = append(metrics, m)
	}
	for _, m := range metrics {
		to <- m
	}
}
