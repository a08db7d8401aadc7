package watch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
	"github.com/mortise-go/mortise/watch"
)

func isFarKey(key string) bool { return strings.HasPrefix(key, "far:") || key == "mortise:watch:{1}" }

// masters returns the driver of two masters, of which the second one has these keys.
func masters(l *mortisetest.Link, isFar func(key string) bool) *twoMasters {
	d := &twoMasters{Link: l}
	d.far.Store(&isFar)
	return d
}

// noSearch is a driver of two masters that deny searches.
type noSearch struct{ *twoMasters }

func (d noSearch) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() == "search" {
		return driver.Value{}, &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM no scan"), Reply: "NOPERM no scan"}
	}
	return d.twoMasters.Eval(ctx, call)
}

// A server that denies a search answers: what records name is read from it.
func TestWatcherWithoutTheRightToSearchACluster(t *testing.T) {
	by := func(l *mortisetest.Link) scanningDriver { return noSearch{masters(l, isFarKey)} }
	watchedBy(t, watch.Options{Load: 1000}, by, func(b *bench) {
		b.lock(b.client("api-7"), "near:x")
		time.Sleep(10 * time.Second)
		b.do("DEL", "near:x")
		time.Sleep(10 * time.Second)
		if l := b.w.Load(); l.Missing != nil || l.Search.Err == nil {
			b.t.Errorf("%q are missing, the search ended with %v", l.Missing, l.Search.Err)
		}
		for _, n := range b.notes.all() {
			if strings.Contains(n, " of the cluster can") {
				b.t.Errorf("it says %q", n)
			}
		}
		if events := b.events.all(); len(events) != 2 || !strings.HasSuffix(events[1], " near:x api-7") { // lost, or released if its client is faster
			b.t.Errorf("the events are %q, want the end of near:x", events)
		}
	})
}

// holes is a driver of two masters that have not all slots.
type holes struct{ *twoMasters }

func (d holes) Shard(key string) string {
	if strings.HasPrefix(key, "mortise:watch:{7") {
		return ""
	}
	return d.twoMasters.Shard(key)
}

func (d holes) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if d.Shard(call.Keys[0]) == "" {
		const down = "CLUSTERDOWN Hash slot not served"
		return driver.Value{}, &driver.Error{Class: driver.Passing, Err: errors.New(down), Reply: down}
	}
	return d.twoMasters.Eval(ctx, call)
}

// A slot that no server has keeps nobody from searching the servers.
func TestWatcherOfAClusterWithoutASlot(t *testing.T) {
	by := func(l *mortisetest.Link) scanningDriver { return holes{masters(l, isFarKey)} }
	watchedBy(t, watch.Options{Load: 1000}, by, func(b *bench) {
		b.do("HSET", "near:foreign", foreign, "1")
		time.Sleep(20 * time.Second)
		if n := len(b.last().Locks()); n != 1 {
			b.t.Errorf("%d locks are shown, want one", n)
		}
	})
}

// longSearch is a driver of two masters whose keys take a long search.
type longSearch struct{ *twoMasters }

func (d longSearch) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() != "search" || d.Shard(call.Keys[0]) == "far:1" && d.frozen.Load() {
		return d.twoMasters.Eval(ctx, call)
	}
	var n int
	if _, err := fmt.Sscan(call.Args[0], &n); err != nil || n >= 300 {
		return driver.ArrayValue([]driver.Value{driver.StringValue("0")}), err
	}
	return driver.ArrayValue([]driver.Value{driver.StringValue(fmt.Sprint(n + 1))}), nil
}

// A server that is back is read at once, and not after the next search only.
func TestWatcherSeesThatAServerIsBack(t *testing.T) {
	var d *twoMasters
	by := func(l *mortisetest.Link) scanningDriver {
		d = masters(l, isFarKey)
		return longSearch{d}
	}
	watchedBy(t, watch.Options{Load: 20}, by, func(b *bench) {
		b.lock(b.client("api-7"), "far:1")
		time.Sleep(20 * time.Second)
		d.frozen.Store(true)
		for b.w.Load().Search.Err == nil {
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second)
		b.wantMissing("during the freeze", "far:1")
		d.frozen.Store(false)
		time.Sleep(5 * time.Second)
		b.wantMissing("after it")
		b.do("DEL", "far:1")
		time.Sleep(10 * time.Second)
		if events := b.events.all(); len(events) < 2 || !strings.HasSuffix(events[1], " far:1 api-7") { // lost, or released if its client is faster
			b.t.Errorf("the events are %q, want the end of far:1", events)
		}
		for _, n := range b.notes.all() {
			if strings.HasPrefix(n, "looking every") {
				b.t.Errorf("it says %q, which is no help", n)
			}
		}
	})
}

// A record that has expired while its server was frozen is renewed soon: what its client holds is not released meanwhile.
func TestWatcherAfterALongFreeze(t *testing.T) {
	for _, far := range []string{"a record", "the index of records"} {
		t.Run(far, func(t *testing.T) {
			var d, own *twoMasters
			by := func(l *mortisetest.Link) scanningDriver {
				d = masters(l, isFarKey)
				return d
			}
			watchedBy(t, watch.Options{}, by, func(b *bench) {
				own = masters(b.Link(), isFarKey)
				c := mortise.New(own, &mortise.Options{Identity: mortise.Identity{Host: "db-2"}})
				b.t.Cleanup(func() { _ = c.Close() })
				for i := range crowd {
					b.lock(c, fmt.Sprint("near:", i))
				}
				time.Sleep(15 * time.Second)
				d.moveFar(b, far)
				own.far.Store(d.far.Load())
				d.frozen.Store(true)
				own.frozen.Store(true)
				time.Sleep(40 * time.Second)
				d.frozen.Store(false)
				time.Sleep(5 * time.Second) // until the client renews it
				own.frozen.Store(false)
				time.Sleep(20 * time.Second)
				if events := b.events.all()[crowd:]; len(events) > 0 {
					b.t.Errorf("there are the events %q, although nothing has happened", events)
				}
			})
		})
	}
}

// A client that leaves during a freeze of the server that has its record is shown as silent, and no lock that it had is.
func TestWatcherOfWhoHasLeftDuringAFreeze(t *testing.T) {
	var d *twoMasters
	by := func(l *mortisetest.Link) scanningDriver {
		d = masters(l, isFarKey)
		return d
	}
	watchedBy(t, watch.Options{}, by, func(b *bench) {
		b.lock(b.client("other"), "near:other")
		c := mortise.New(b.Link(), &mortise.Options{Identity: mortise.Identity{Host: "db-2"}})
		hold := b.lock(c, "near:x")
		time.Sleep(5 * time.Second)
		d.moveFar(b, "a record")
		if _, err := b.client("op").Ask(b.t.Context(), "near:x", "please"); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		d.frozen.Store(true)
		time.Sleep(3 * time.Second)
		if err := hold.Unlock(); err != nil {
			b.t.Error(err)
		}
		_ = c.Close()
		time.Sleep(2 * time.Minute)
		for _, one := range b.last().Clients {
			if one.Host == "db-2" && (one.Silent < 2*time.Minute || one.Silent > 140*time.Second) {
				b.t.Errorf("it is silent for %v, want the two minutes of the freeze and up to ten seconds before", one.Silent)
			}
		}
		d.frozen.Store(false)
		time.Sleep(30 * time.Second)
		if n := len(b.last().Clients); n != 1 {
			b.t.Errorf("%d clients are shown after the freeze, want one", n)
		}
		if locks := b.last().Locks(); len(locks) != 1 || locks[0].Name != "near:other" {
			b.t.Errorf("the locks are %+v, want near:other", locks)
		}
	})
}
