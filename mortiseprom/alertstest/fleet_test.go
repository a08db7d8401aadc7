package alertstest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseprom"
	"github.com/mortise-go/mortise/mortisetest"
)

// every is how often Prometheus reads metrics, and evaluates rules.
const every = 15 * time.Second

// scrape is what was read of one process.
type scrape struct {
	at       time.Time
	instance string
	samples  model.Vector
}

// process is a client with its metrics.
type process struct {
	*mortise.Client
	name     string
	link     *mortisetest.Link
	metrics  *mortiseprom.Collector
	registry *prometheus.Registry
}

// fleet is two processes that share locks, in virtual time.
type fleet struct {
	*testing.T
	server  *mortisetest.Server
	a, b    *process
	began   time.Time
	scrapes []scrape
}

// run starts two processes, lets f do something with them, and returns what was read of them.
func run(t *testing.T, f func(*fleet)) []scrape {
	t.Helper()
	fl := &fleet{}
	synctest.Test(t, func(t *testing.T) {
		fl.T, fl.server, fl.began = t, mortisetest.NewServer(), time.Now()
		defer fl.server.Close()
		fl.a, fl.b = fl.start("api-1:9090"), fl.start("api-2:9090")
		defer fl.a.Close()
		defer fl.b.Close()
		f(fl)
	})
	return fl.scrapes
}

func (f *fleet) start(name string) *process {
	p := &process{name: name, link: f.server.Link(), metrics: mortiseprom.New(nil), registry: prometheus.NewPedanticRegistry()}
	p.registry.MustRegister(p.metrics)
	p.Client = mortise.New(p.link, &mortise.Options{Observer: p.metrics})
	return p
}

// pass lets time pass, and reads the metrics meanwhile.
func (f *fleet) pass(d time.Duration) {
	f.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
		for _, p := range []*process{f.a, f.b} {
			families, err := p.registry.Gather()
			if err != nil {
				f.Fatal(err)
			}
			now := time.Now()
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())}, families...)
			if err != nil {
				f.Fatal(err)
			}
			f.scrapes = append(f.scrapes, scrape{now, p.name, samples})
		}
	}
}

// take acquires a lock that is free, or soon will be.
func (f *fleet) take(p *process, name string) *mortise.Hold {
	f.Helper()
	h, _, err := p.Lock(name).Lock(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return h
}

// release releases holds, of which some may be lost.
func (f *fleet) release(holds ...*mortise.Hold) {
	for _, h := range holds {
		_ = h.Unlock()
	}
}

// work makes both processes use a lock, as they usually do.
func (f *fleet) work() {
	f.Helper()
	for i := range 8 {
		h := f.take(f.a, "usual")
		if _, _, err := f.b.Lock("usual").TryLock(f.Context()); err == nil {
			f.Fatal("the lock was free")
		}
		go func() {
			time.Sleep(time.Second)
			f.release(h)
		}()
		theirs := f.take(f.b, "usual")
		if i == 0 {
			f.pass(2 * time.Minute)
		}
		f.release(theirs)
		f.pass(every)
	}
}

// cross makes both processes wait for each other, until one of them gives up.
func (f *fleet) cross() (ended chan struct{}) {
	ended = make(chan struct{}, 2)
	cross := func(p *process, first, second string) {
		_ = p.Lock(first).Do(f.Context(), func(ctx context.Context) error {
			time.Sleep(time.Second)
			fails := p.Lock(second).With(mortise.LockOptions{Deadlock: mortise.DeadlockFail})
			return fails.Do(ctx, func(context.Context) error { return nil })
		})
		ended <- struct{}{}
	}
	go cross(f.a, "crossed 1", "crossed 2")
	go cross(f.b, "crossed 2", "crossed 1")
	return ended
}
