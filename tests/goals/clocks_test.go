package goals

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

// wrongClock is the connection of a client whose clock is off: all times that it sends are, and all
// that it is told differ by as much from its own. Everything else about time is a duration, which
// is the same by any clock.
type wrongClock struct {
	*mortisetest.Link
	off time.Duration
	// The mistake that others make: scripts use the clock of the client that sends them.
	mistaken bool
	shifted  func() // called when a time was in what it sent
}

func (w *wrongClock) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	v, err := w.Link.Eval(ctx, w.sent(call))
	return w.told(v), err
}

func (w *wrongClock) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i] = w.sent(calls[i])
	}
	results := w.Link.Batch(ctx, calls)
	for i := range results {
		results[i].Value = w.told(results[i].Value)
	}
	return results
}

// time returns n as the other one's clock says it, if n is a time within a day of now.
func (w *wrongClock) time(n int64, by time.Duration) (int64, bool) {
	for unit, now := range map[time.Duration]int64{
		time.Second: time.Now().Unix(), time.Millisecond: time.Now().UnixMilli(),
		time.Microsecond: time.Now().UnixMicro(), time.Nanosecond: time.Now().UnixNano(),
	} {
		if d := n - now; d > -int64(24*time.Hour/unit) && d < int64(24*time.Hour/unit) {
			return n + int64(by/unit), true
		}
	}
	return n, false
}

var numbers = regexp.MustCompile(`\d{9,}`)

func (w *wrongClock) sent(call driver.Call) driver.Call {
	if call.Script.Name() == "client_record" {
		return call // it tells people when the process was started, by its own clock; nothing decides by that
	}
	call.Args = slices.Clone(call.Args)
	for i, arg := range call.Args {
		call.Args[i] = numbers.ReplaceAllStringFunc(arg, func(text string) string {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return text
			}
			n, is := w.time(n, w.off)
			if !is {
				return text
			}
			w.shifted()
			return strconv.FormatInt(n, 10)
		})
	}
	if w.mistaken {
		call.Script = mistaken(call.Script, time.Now().Add(w.off))
	}
	return call
}

// mistaken returns a script that takes its time from the client.
func mistaken(s *driver.Script, now time.Time) *driver.Script {
	told := fmt.Sprintf("({'%d', '%06d'})", now.Unix(), now.Nanosecond()/1000)
	return driver.NewScript(s.Name(), strings.ReplaceAll(s.Source(), "redis.call('time')", told))
}

func (w *wrongClock) told(v driver.Value) driver.Value {
	switch {
	case v.Len() > 0:
		values := make([]driver.Value, v.Len())
		for i := range values {
			values[i] = w.told(v.At(i))
		}
		return driver.ArrayValue(values)
	case v.Int() != 0:
		if n, is := w.time(v.Int(), w.off); is {
			return driver.IntValue(n)
		}
	}
	return v
}

// harm is what came of many clients whose clocks differ by hours.
type harm struct {
	evicted int // fair waiters that were served after one that came later
	over    int // permits and locks that were granted though all were taken
	lost    int // holds
	served  int
	jumps   int // of Redis' clock that a client reported
}

// The clocks of a hundred clients are wrong, by up to two hours either way. No fair waiter loses its
// place, no permit is granted twice, and no hold is lost: no script uses the clock of a client.
func TestClientsWhoseClocksAreWrong(t *testing.T) {
	clients := times(10, 100)
	got := contendByWrongClocks(t, clients, false)
	t.Logf("%d clients: %+v", clients, got)
	if got != (harm{served: 2 * clients}) {
		t.Errorf("%+v, want %d served, and nothing else", got, 2*clients)
	}
}

// The same where scripts do use it: this is found.
func TestClocksOfClientsThatAreUsed(t *testing.T) {
	got := contendByWrongClocks(t, 15, true)
	t.Logf("%+v", got)
	if got.evicted+got.lost == 0 || got.over == 0 {
		t.Errorf("%+v, want that the clocks of clients do harm", got)
	}
}

// skewed is a crowd of such clients, which want a fair lock and permits.
type skewed struct {
	t     *testing.T
	mu    sync.Mutex // guards what follows
	got   harm
	last  int            // the client that had the fair lock last
	in    map[string]int // how many hold each thing
	users sync.WaitGroup
}

func contendByWrongClocks(t *testing.T, clients int, mistake bool) (got harm) {
	synctest.Test(t, func(t *testing.T) {
		w := &skewed{t: t, in: make(map[string]int)}
		s := mortisetest.NewServer()
		defer s.Close()
		setter := mortise.New(s.Link(), nil)
		defer setter.Close()
		if err := setter.PermitSemaphore("permits").SetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		first, _, err := setter.FairLock("fair").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range clients {
			off := []time.Duration{2 * time.Hour, -2 * time.Hour, random(r, 4*time.Hour) - 2*time.Hour}[i%3]
			link := &wrongClock{Link: s.Link(), off: off, mistaken: mistake, shifted: func() { t.Error("a script was sent the time of a client") }}
			c := mortise.New(link, &mortise.Options{TTL: 10 * time.Second, RetryFor: time.Minute, OnClockJump: w.jumped})
			defer c.Close()
			w.users.Go(func() {
				hold, lctx, err := c.FairLock("fair").Lock(t.Context())
				w.use("fair", i, 1, 500*time.Millisecond, hold, lctx, err)
			})
			w.users.Go(func() {
				hold, lctx, err := c.PermitSemaphore("permits").Acquire(t.Context())
				w.use("permits", i, 3, 15*time.Second, hold, lctx, err) // longer than a lease
			})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		_ = first.Unlock()
		w.users.Wait()
		got = w.got
	})
	return got
}

func (w *skewed) jumped(*mortise.ClockError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got.jumps++
}

// use keeps what client i has for a while, if most may have it.
func (w *skewed) use(what string, i, most int, keep time.Duration, hold *mortise.Hold, lctx context.Context, err error) {
	if err != nil {
		w.t.Errorf("client %d: %v", i, err)
		return
	}
	w.mu.Lock()
	if w.in[what]++; w.in[what] > most {
		w.got.over++
	}
	if what == "fair" {
		if i < w.last {
			w.got.evicted++
		}
		w.last = i
	}
	w.mu.Unlock()
	time.Sleep(keep)
	w.mu.Lock()
	w.in[what]--
	w.got.served++
	if lctx.Err() != nil {
		w.got.lost++
	}
	w.mu.Unlock()
	_ = hold.Unlock() // the mistake may have cost it
}
