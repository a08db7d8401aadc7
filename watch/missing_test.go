package watch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/scan"
	"github.com/mortise-go/mortise/mortisetest"
	"github.com/mortise-go/mortise/watch"
)

// twoMasters is the driver of a cluster of two servers, "near:1" and "far:1", of which the second one may be frozen.
type twoMasters struct {
	*mortisetest.Link
	far    atomic.Pointer[func(key string) bool]
	frozen atomic.Bool
}

func (d *twoMasters) isFar(key string) bool { return (*d.far.Load())(key) }

func (d *twoMasters) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

func (d *twoMasters) Shard(key string) string {
	if d.isFar(key) {
		return "far:1"
	}
	return "near:1"
}

func (d *twoMasters) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return scan.All(ctx, []string{"far:1", "near:1"}, func(ctx context.Context, server string, fn func([]string) error) error {
		if server == "far:1" && d.frozen.Load() {
			<-ctx.Done()
			return driver.ContextError(ctx, driver.Unknown)
		}
		return d.Link.Scan(ctx, match, func(keys []string) error { return fn(d.on(server, keys)) })
	}, fn)
}

// on returns the keys that a server has.
func (d *twoMasters) on(server string, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return d.Shard(key) != server })
}

func (d *twoMasters) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	server := d.Shard(call.Keys[0])
	if server == "far:1" && d.frozen.Load() {
		<-ctx.Done()
		return driver.Value{}, driver.ContextError(ctx, driver.Unknown)
	}
	v, err := d.Link.Eval(ctx, call)
	if err == nil && call.Script.Name() == "search" {
		page := []driver.Value{v.At(0)}
		for i := 1; i < v.Len(); i++ {
			if d.Shard(v.At(i).Str()) == server {
				page = append(page, v.At(i))
			}
		}
		v = driver.ArrayValue(page)
	}
	return v, err
}

func (d *twoMasters) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = d.Eval(ctx, call)
	}
	return results
}

// While a server of a cluster is frozen, a Watcher shows what the others have, and what that one had, and says so.
func TestWatcherBesideAFrozenServer(t *testing.T) {
	for _, far := range []string{"some keys", "a record", "the index of records", "the clock"} {
		t.Run(far, func(t *testing.T) {
			var d *twoMasters
			by := func(l *mortisetest.Link) scanningDriver {
				d = &twoMasters{Link: l}
				first := func(key string) bool { return strings.HasPrefix(key, "far:") || key == "mortise:watch:{1}" }
				d.far.Store(&first)
				return d
			}
			watchedBy(t, watch.Options{}, by, func(b *bench) { besideAFrozenServer(b, d, far) })
		})
	}
}

// A look that has waited for the clock of a frozen server is not slow because of the load.
func TestWatcherWhoseClockIsFrozen(t *testing.T) {
	var d *twoMasters
	by := func(l *mortisetest.Link) scanningDriver {
		d = &twoMasters{Link: l}
		far := func(key string) bool { return key == "mortise:watch:{0}" }
		d.far.Store(&far)
		return d
	}
	watchedBy(t, watch.Options{Pattern: "job"}, by, func(b *bench) {
		time.Sleep(10 * time.Second)
		d.frozen.Store(true)
		time.Sleep(time.Minute)
		b.wantMissing("during the freeze", "far:1")
		notes := b.notes.all()
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "far:1 of the cluster cannot be read") {
			t.Errorf("it says %q, want that far:1 cannot be read", notes)
		}
	})
}

const (
	foreign = "8f1c2b3a-0000-4000-8000-000000000001:77"
	crowd   = 40 // of locks of others on the server that freezes: more than are read in a look
)

func besideAFrozenServer(b *bench, d *twoMasters, far string) {
	t := b.t
	api, db := b.client("api-7"), b.client("db-2")
	ended, released := b.lock(db, "near:ended"), b.lock(api, "near:released")
	for _, name := range []string{"far:db", "near:db"} {
		b.lock(db, name)
	}
	b.lock(api, "far:api")
	foreigners := []string{"near:foreign", "near:ended foreign"}
	for i := range crowd {
		foreigners = append(foreigners, fmt.Sprintf("far:foreign %02d", i))
	}
	for _, name := range foreigners {
		b.do("HSET", name, foreign, "1")
	}
	go b.await(api, "near:db")
	go b.await(db, "far:api")
	time.Sleep(10 * time.Second)
	d.moveFar(b, far)
	b.wantShown("before", "far:api", "far:db", "near:db", "near:ended", "near:ended foreign", "near:foreign", "near:released")
	d.frozen.Store(true)
	time.Sleep(time.Second)
	for _, hold := range []*mortise.Hold{ended, released} {
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	}
	b.do("DEL", "near:ended foreign")
	b.do("HSET", "near:new foreign", foreign, "1") // only a search finds it
	b.lock(api, "near:new")
	time.Sleep(20 * time.Second)
	b.wantMissing("during the freeze", "far:1")
	looks := b.seen()
	time.Sleep(20 * time.Second)
	if n := b.seen() - looks; n < 8 {
		t.Errorf("%d looks in 20s of the freeze", n)
	}
	time.Sleep(40 * time.Second) // a search is over
	b.wantShown("during the freeze", "far:api", "far:db", "near:db", "near:foreign", "near:new", "near:new foreign")
	if waits := b.waits(); !slices.Equal(waits, []string{"api-7 for near:db", "db-2 for far:api"}) {
		t.Errorf("during the freeze these wait: %q", waits)
	}
	if n := len(b.last().Clients); n != 2 {
		t.Errorf("%d clients are shown during the freeze, want 2", n)
	}
	d.frozen.Store(false)
	time.Sleep(10 * time.Second)
	b.wantShown("after the freeze", "far:api", "far:db", "near:db", "near:foreign", "near:new", "near:new foreign")
	b.wantMissing("after the freeze")
	b.wantStory("far:1")
}

// moveFar lets the server that freezes have something more.
func (d *twoMasters) moveFar(b *bench, what string) {
	record := ""
	for _, c := range b.last().Clients {
		if c.Host == "db-2" {
			record = "mortise:client:{" + c.ID
		}
	}
	first := *d.far.Load()
	next := map[string]func(key string) bool{
		"some keys":            first,
		"a record":             func(key string) bool { return first(key) || strings.HasPrefix(key, record) },
		"the index of records": func(key string) bool { return first(key) || strings.HasPrefix(key, "mortise:clients") },
		"the clock":            func(key string) bool { return first(key) != strings.HasPrefix(key, "mortise:watch") },
	}[what]
	d.far.Store(&next)
}

// do sends a command.
func (b *bench) do(args ...string) {
	b.t.Helper()
	if _, err := b.Do(args...); err != nil {
		b.t.Fatal(err)
	}
}

// wantMissing fails unless just these servers are said to be missing.
func (b *bench) wantMissing(when string, want ...string) {
	b.t.Helper()
	if l := b.w.Load(); !slices.Equal(l.Missing, want) || l.Err != nil {
		b.t.Errorf("%s it says that %q are missing, and %v; want %q", when, l.Missing, l.Err, want)
	}
}

// wantStory fails unless what was told of the freeze of a server is right.
func (b *bench) wantStory(server string) {
	b.t.Helper()
	told := 0
	for _, n := range b.notes.all() {
		if strings.HasPrefix(n, "Redis cannot be read") {
			b.t.Errorf("it says %q", n)
		}
		if strings.HasPrefix(n, server+" of the cluster can") {
			told++
		}
	}
	if told != 2 {
		b.t.Errorf("it says %d times that %s can or cannot be read, want twice: %q", told, server, b.notes.all())
	}
	events := b.events.all()
	for _, want := range []string{"released near:ended db-2", "released near:released api-7", "released near:ended foreign ", "acquired near:new api-7"} {
		if !slices.Contains(events, want) {
			b.t.Errorf("there is no event %q", want)
		}
	}
	for _, e := range events {
		if strings.HasPrefix(e, "lost") || strings.HasPrefix(e, "gave up") || strings.Contains(e, "released far:") {
			b.t.Errorf("there is an event %q", e)
		}
	}
}

// wantShown fails unless these locks are shown, and the crowd.
func (b *bench) wantShown(when string, want ...string) {
	b.t.Helper()
	var names []string
	for _, l := range b.last().Locks() {
		if len(l.Holds) > 0 {
			names = append(names, l.Name)
		}
	}
	for i := range crowd {
		want = append(want, fmt.Sprintf("far:foreign %02d", i))
	}
	slices.Sort(want)
	if slices.Sort(names); !slices.Equal(names, want) {
		b.t.Errorf("%s %q are shown, want %q", when, names, want)
	}
}

// waits returns who waits for what.
func (b *bench) waits() (list []string) {
	for _, w := range b.last().Waits {
		list = append(list, fmt.Sprint(w.Party.Host, " for ", w.Lock))
	}
	slices.Sort(list)
	return list
}
