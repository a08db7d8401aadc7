package gentle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/memredis"
)

// A meter lets as many commands pass at once as in a second, and then so many a second.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(100)
		start := time.Now()
		for i, test := range []struct {
			n    int
			want time.Duration
		}{
			{60, 0}, {40, 0}, {50, 500 * time.Millisecond}, {300, 1500 * time.Millisecond}, {1, 3510 * time.Millisecond},
		} {
			if err := m.wait(t.Context(), test.n); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start) - test.want; d < -time.Microsecond || d > time.Millisecond {
				t.Errorf("step %d passes after %v, want %v", i, time.Since(start), test.want)
			}
		}
		time.Sleep(time.Hour)
		if d := m.Owed(100); d != 0 {
			t.Errorf("after a pause 100 commands have to wait for %v", d)
		}
		if n := m.Sent(); n != 451 {
			t.Errorf("%d were sent, want 451", n)
		}
	})
}

// A caller whose batches are small does not pass over one that wants to send more at once.
func TestMeterServesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(100)
		ctx, cancel := context.WithCancel(t.Context())
		searched := make(chan struct{})
		go func() {
			defer close(searched)
			for m.wait(ctx, 50) == nil {
			}
		}()
		time.Sleep(time.Minute)
		look, giveUp := context.WithTimeout(t.Context(), 4*time.Second)
		defer giveUp()
		for i := range 3 {
			if err := m.wait(look, 64); err != nil {
				t.Errorf("batch %d of 64 does not get its turn within 4s of a search: %v", i, err)
			}
		}
		cancel()
		<-searched
		time.Sleep(2 * time.Second)
		if d := m.Owed(100); d != 0 {
			t.Errorf("%v is owed for what was not sent", d)
		}
	})
}

// silent is a driver that counts what it is sent.
type silent struct {
	driver.Driver
	calls int
}

func (s *silent) Eval(context.Context, driver.Call) (driver.Value, error) {
	s.calls++
	return driver.Value{}, nil
}

func (s *silent) Batch(_ context.Context, calls []driver.Call) []driver.Result {
	s.calls += len(calls)
	return make([]driver.Result, len(calls))
}

func TestDriverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &silent{}
		d := &Driver{Driver: below, Meter: NewMeter(10)}
		start := time.Now()
		for range 10 {
			if _, err := d.Eval(t.Context(), driver.Call{}); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("the first commands took %v", time.Since(start))
		}
		d.Batch(t.Context(), make([]driver.Call, 5))
		if took := time.Since(start); took < 500*time.Millisecond || took > 501*time.Millisecond || below.calls != 15 {
			t.Errorf("%d commands took %v, want 15, 500ms", below.calls, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for _, r := range d.Batch(ctx, make([]driver.Call, 6)) {
			if r.Err == nil || driver.ClassOf(r.Err) != driver.NotSent || !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("a batch whose context has ended returned %v", r.Err)
			}
		}
		if below.calls != 15 || d.Meter.Waited() < 500*time.Millisecond {
			t.Errorf("%d commands were sent after %v, want 15 after half a second", below.calls, d.Meter.Waited())
		}
		start = time.Now()
		d.Batch(t.Context(), make([]driver.Call, small))
		if owed := d.Meter.Owed(10); time.Since(start) != 0 || owed < 1300*time.Millisecond {
			t.Errorf("a small batch took %v, and leaves %v to wait, want none, and 1.4s", time.Since(start), owed)
		}
	})
}

// A page that takes long is followed by a longer pause and by shorter pages.
func TestPagesAdapt(t *testing.T) {
	s := &Searcher{Share: 0.01, page: 400}
	s.Trip(time.Millisecond)
	if pause := s.took(11*time.Millisecond, 400); pause != 990*time.Millisecond || s.page != 200 {
		t.Errorf("after 10 ms: pause %v, pages of %d, want 990ms, 200", pause, s.page)
	}
	for range 20 {
		s.took(time.Second, s.page)
	}
	if s.page != leastPage {
		t.Errorf("pages of %d, want %d", s.page, leastPage)
	}
	for range 40 {
		s.took(time.Millisecond, s.page)
	}
	if pause := s.took(time.Millisecond, s.page); s.page != mostPage || pause != 9900*time.Microsecond {
		t.Errorf("pages of %d, pause %v; want %d, 9.9ms", s.page, pause, mostPage)
	}
	if s.Keys() == 0 {
		t.Error("no keys are counted")
	}
}

// The search finds what the library finds, and hardly more.
func TestSearchFindsLocks(t *testing.T) {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	testSearch(t, server.Addr(), 100)
}

// testSearch searches among others keys of either type that are no locks.
func testSearch(t *testing.T, addr string, others int) {
	d, err := connect.Open(t.Context(), "redis://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := redistest.Dial(addr, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const id = "8f1c2b3a-0000-4000-8000-00000000000"
	do := func(args ...string) {
		if _, err := conn.Do(args...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	do("HSET", "plain", id+"1:7", "1")
	do("HSET", "read", "mode", "read", id+"1:7", "1", id+"2:7", "2")
	do("HSET", "write", "mode", "write", id+"1:7:write", "1")
	do("HSET", "lead", "mode", "election", "value", "x", "term", "3", "edition", "4", id+"1:7", "1")
	do("HSET", "group", "v", id+"1:7", "v:"+id+"1:7:expire_time", "1", "v:"+id+"1:7:lock_count", "1")
	for i := range others {
		do("HSET", "hash:"+strconv.Itoa(i), "mode", "fast", "name", "x")
		do("SET", "text:"+strconv.Itoa(i), "x")
	}
	do("HSET", "one", "field", "1")
	do("HSET", "three", "a", "1", "b", "2", "c", "3")
	do("HSET", "long", "mode", fmt.Sprintf("%300d", 1))
	do("RPUSH", "list", "x")
	s := &Searcher{Driver: Driver{Driver: d, Meter: NewMeter(1e6)}, Pages: NewMeter(1e6), Share: 0.5}
	var keys []string
	if err := s.Scan(t.Context(), "*", func(page []string) error { keys = append(keys, page...); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if want := []string{"group", "lead", "plain", "read", "write"}; !slices.Equal(slices.Compact(keys), want) {
		t.Errorf("it finds %q, want %q", keys, want)
	}
	client := mortise.New(s, nil)
	defer client.Close()
	var names []string
	for state, err := range client.Locks(t.Context(), "*e*") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, state.Name)
	}
	slices.Sort(names)
	if want := []string{"lead", "read", "write"}; !slices.Equal(names, want) {
		t.Errorf("the library finds %q with it, want %q", names, want)
	}
	before := time.Now().Truncate(time.Millisecond) // a server may know no more
	if now, took, err := NewClock(d).Time(t.Context()); err != nil || now.Before(before) || now.After(time.Now()) || took <= 0 {
		t.Errorf("the server's time is %v after %v, %v, %v", now, before, took, err)
	}
}

// paged is a driver whose server has pages without end.
type paged struct {
	driver.Driver
	script *driver.Script
	pages  int
}

func (p *paged) Topology(context.Context) (driver.Topology, error) { return driver.Topology{}, nil }

func (p *paged) Eval(_ context.Context, call driver.Call) (driver.Value, error) {
	p.script = call.Script
	p.pages++
	return driver.ArrayValue([]driver.Value{driver.StringValue(strconv.Itoa(p.pages)), driver.StringValue("key")}), nil
}

// A search ends when it has looked at enough keys, and looks with the script that it is given.
func TestSearchOfSomeKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, own := &paged{}, driver.NewScript("own", "return {'0'}")
		s := &Searcher{Driver: Driver{Driver: d, Meter: NewMeter(1000)}, Pages: NewMeter(1000), Share: 0.5, Find: own, Most: 1000}
		found := 0
		err := s.Scan(t.Context(), "*", func(keys []string) error { found += len(keys); return nil })
		if err != nil || found != d.pages || d.script != own {
			t.Errorf("Scan: %v, %d keys in %d pages, with the script %s", err, found, d.pages, d.script.Name())
		}
		if n := s.Keys(); n < 1000 || n >= 1000+mostPage {
			t.Errorf("looked at %d keys, want 1000, and less than a page more", n)
		}
	})
}
