package mortiseprom_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseprom"
)

// tellAll tells a collector one event of each type about a lock.
func tellAll(c *mortiseprom.Collector, kind, lock string) {
	for _, e := range []mortise.Event{
		{Type: mortise.EventWaiting}, {Type: mortise.EventAcquired, Queued: true, Waited: time.Second, Owner: "a:1"},
		{Type: mortise.EventReleased, Held: time.Second}, {Type: mortise.EventAcquired, Owner: "a:1"},
		{Type: mortise.EventLost, Held: time.Second, Err: &mortise.LostError{Reason: mortise.LostTaken}},
		{Type: mortise.EventRefused, Err: mortise.ErrLocked},
		{Type: mortise.EventRenewed, Leases: 1, Margin: time.Second}, {Type: mortise.EventRenewalFailing, Leases: 1},
		{Type: mortise.EventGap}, {Type: mortise.EventPaused, Pause: 2 * time.Second}, {Type: mortise.EventDeadlock},
		{Type: mortise.EventAsked}, {Type: mortise.EventResolved}, {Type: mortise.EventPassedOver}, {Type: "of a later version"},
	} {
		e.Kind, e.Lock = kind, lock
		c.Observe(e)
	}
}

func TestMetricsFollowTheConventions(t *testing.T) {
	for _, o := range []*mortiseprom.Options{nil, {Name: mortiseprom.CollapseIDs}, {NativeHistograms: true}} {
		c := mortiseprom.New(o)
		tellAll(c, "lock", "x")
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Errorf("%+v: %v, %v", o, problems, err)
		}
	}
}

// What an alert compares with its value some time ago must be there before it happens.
func TestRareCountersBeginWithZero(t *testing.T) {
	start := map[string]float64{
		`dlock_renewals_total{outcome="failed"}`: 0, `dlock_renewals_total{outcome="renewed"}`: 0,
		"dlock_deadlocks_total": 0, "dlock_subscription_gaps_total": 0, "dlock_asked_total": 0, "dlock_pause_seconds_count": 0,
	}
	wants(t, scrape(t, mortiseprom.New(&mortiseprom.Options{Name: mortiseprom.CollapseIDs})), start)
	for _, reason := range []string{"expired", "taken", "forced", "unreachable", "closed"} {
		start[`dlock_lost_total{kind="lock",reason="`+reason+`"}`] = 0
		start[`dlock_lost_total{kind="rwlock.read",reason="`+reason+`"}`] = 0
	}
	wants(t, scrape(t, mortiseprom.New(nil)), start)

	named := mortiseprom.New(&mortiseprom.Options{Name: mortiseprom.CollapseIDs})
	named.Observe(mortise.Event{Type: mortise.EventAcquired, Kind: "lock", Lock: "order:7", Owner: "a:1"})
	wants(t, scrape(t, named), map[string]float64{
		`dlock_lost_total{kind="lock",lock="order:*",reason="forced"}`: 0, `dlock_held{kind="lock",lock="order:*"}`: 1,
	})
}

func TestPausesAndUnknownEvents(t *testing.T) {
	c := mortiseprom.New(nil)
	tellAll(c, "lock", "x")
	wants(t, scrape(t, c), map[string]float64{
		"dlock_pause_seconds_count": 1, "dlock_pause_seconds_sum": 2, `dlock_pause_seconds_bucket{le="1"}`: 0, `dlock_pause_seconds_bucket{le="2.5"}`: 1,
		"dlock_deadlocks_total": 1, "dlock_asked_total": 1, "dlock_subscription_gaps_total": 1,
		`dlock_waiters{kind="lock"}`: 0, `dlock_held{kind="lock"}`: 0,
	})
}

// Whatever the names are, there are only so many series.
func TestSeriesAreFew(t *testing.T) {
	without := mortiseprom.New(nil)
	tellAll(without, "lock", "x")
	few := len(scrape(t, without))
	for i := range 5000 {
		tellAll(without, "lock", fmt.Sprint("name ", i))
	}
	if n := len(scrape(t, without)); n != few {
		t.Errorf("5000 names without a label for them make %d series of %d", n, few)
	}

	name := func(lock string) string { return lock }
	limited := mortiseprom.New(&mortiseprom.Options{Name: name, MaxNames: 10})
	for i := range 10 {
		tellAll(limited, "lock", fmt.Sprint("name ", i))
	}
	tellAll(limited, "lock", "one too many")
	most := len(scrape(t, limited))
	for i := range 5000 {
		tellAll(limited, "lock", fmt.Sprint("name ", i))
	}
	got := scrape(t, limited)
	if len(got) != most {
		t.Errorf("5000 names make %d series, want the %d of 10 and the rest", len(got), most)
	}
	wants(t, got, map[string]float64{
		`dlock_lost_total{kind="lock",lock="name 3",reason="taken"}`: 2,
		`dlock_lost_total{kind="lock",lock="other",reason="taken"}`:  4991,
		`dlock_held{kind="lock",lock="other"}`:                       0,
		`dlock_waiters{kind="lock",lock="other"}`:                    0,
	})

	kinds := mortiseprom.New(nil)
	for i := range 1000 {
		tellAll(kinds, fmt.Sprint("kind ", i), "x")
	}
	if n := len(only(scrape(t, kinds), "dlock_hold_duration_seconds_count")); n > 2*33 {
		t.Errorf("1000 kinds make %d series of holds", n)
	}
}

func TestNamesThatAreNoLabels(t *testing.T) {
	c := mortiseprom.New(&mortiseprom.Options{Name: func(lock string) string { return lock }})
	tellAll(c, "lock", "a\xffb")
	tellAll(c, "lock", "")
	tellAll(c, "lock", strings.Repeat("é", 1000))
	tellAll(c, "\xff", "x\n\"\\")
	wants(t, scrape(t, c), map[string]float64{`dlock_lost_total{kind="lock",lock="a�b",reason="taken"}`: 1, `dlock_lost_total{kind="lock",lock="",reason="taken"}`: 1})
	for name := range scrape(t, c) {
		if len(name) > 400 {
			t.Errorf("a series with a name of %d bytes: %.100s", len(name), name)
		}
	}
}

func TestCollapseIDs(t *testing.T) {
	for name, want := range map[string]string{
		"order:4711": "order:*", "orders": "orders", "": "", "a1b22": "a*b*",
		"cart:6BA7b810-9dad-11d1-80b4-00c04fd430c8:pay": "cart:*:pay",
		"cart:6ba7b8109dad11d180b400c04fd430c8":         "cart:*",
		"job_01ARZ3NDEKTSV4RRFFQ69G5FAV":                "job_*",
		"deadbeef":                                      "deadbeef",
	} {
		if got := mortiseprom.CollapseIDs(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := mortiseprom.New(nil)
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	for _, again := range []*mortiseprom.Collector{c, mortiseprom.New(nil)} {
		if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](registry.Register(again)); !ok {
			t.Error("a second collector can be registered")
		}
	}
	labels := prometheus.NewRegistry()
	for _, client := range []string{"a", "b"} {
		labeled := prometheus.WrapRegistererWith(prometheus.Labels{"client": client}, labels)
		if err := labeled.Register(mortiseprom.New(nil)); err != nil {
			t.Errorf("with a label: %v", err)
		}
	}
}

// A registry that does not read on must not stop locks.
func TestCollectingBlocksNobody(t *testing.T) {
	c := mortiseprom.New(&mortiseprom.Options{Name: func(lock string) string { return lock }})
	tellAll(c, "lock", "x")
	metrics := make(chan prometheus.Metric)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Collect(metrics)
	}()
	<-metrics // it has begun
	tellAll(c, "lock", "a new name")
	go func() {
		for range metrics {
		}
	}()
	<-done
	close(metrics)
}

func TestConcurrent(t *testing.T) {
	const goroutines, rounds = 8, 200
	c := mortiseprom.New(&mortiseprom.Options{Name: func(lock string) string { return lock }, MaxNames: 20})
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range rounds {
				tellAll(c, "lock", fmt.Sprint((g+i)%50))
				if i%20 == 0 {
					scrape(t, c)
				}
			}
		})
	}
	group.Wait()
	got := scrape(t, c)
	lost := 0.0
	for name, n := range only(got, "dlock_lost_total") {
		if strings.Contains(name, `reason="taken"`) {
			lost += n
		}
	}
	if lost != goroutines*rounds {
		t.Errorf("losses: %v, want %d", lost, goroutines*rounds)
	}
	for _, gauge := range []string{"dlock_held", "dlock_waiters"} {
		if open := only(got, gauge); len(open) > 0 {
			t.Errorf("%v, want nothing", open)
		}
	}
}

func TestNativeHistograms(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := mortiseprom.New(&mortiseprom.Options{NativeHistograms: true})
	registry.MustRegister(c)
	tellAll(c, "lock", "x")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	native := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				if h.Schema == nil || len(h.GetBucket()) == 0 {
					t.Errorf("%s has no native histogram next to the other", family.GetName())
				}
				native++
			}
		}
	}
	if native < 4 {
		t.Errorf("%d histograms, want 4 or more", native)
	}
	wants(t, scrape(t, c), map[string]float64{`dlock_hold_duration_seconds_bucket{end="released",kind="lock",le="1"}`: 1})
}

func BenchmarkObserve(b *testing.B) {
	c := mortiseprom.New(nil)
	b.ReportAllocs()
	for b.Loop() {
		c.Observe(mortise.Event{Type: mortise.EventAcquired, Kind: "lock", Lock: "x", Waited: time.Millisecond})
		c.Observe(mortise.Event{Type: mortise.EventReleased, Kind: "lock", Lock: "x", Held: time.Millisecond})
	}
}
