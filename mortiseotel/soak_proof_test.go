//go:build proof

package mortiseotel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	"github.com/mortise-go/mortise/mortisetest"
)

// ledger checks that the events of a call come in an order that makes sense: at most one waiting, then
// one answer, then one end of what was acquired.
type ledger struct {
	*telemetry

	mu    sync.Mutex // guards the fields below
	calls map[uint64]*entry
	seen  map[string]int
	wrong []string
}

// entry is what was told of one call.
type entry struct {
	kind, lock string
	told       []mortise.EventType
}

func (l *ledger) Observe(e mortise.Event) {
	l.telemetry.Observe(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	what := string(e.Type)
	switch e.Type {
	case mortise.EventWaiting, mortise.EventAcquired, mortise.EventRefused, mortise.EventReleased, mortise.EventLost:
		if l.calls[e.Call] == nil {
			l.calls[e.Call] = &entry{kind: e.Kind, lock: e.Lock}
		}
		c := l.calls[e.Call]
		c.told = append(c.told, e.Type)
		if e.Call == 0 || e.Kind == "" || e.Context == nil || e.Kind != c.kind || e.Lock != c.lock {
			l.wrong = append(l.wrong, fmt.Sprintf("after %s %q: %+v", c.kind, c.lock, e))
		}
		if e.Type == mortise.EventReleased && (e.Err != nil && isLoss(e.Err)) || e.Type == mortise.EventLost && !isLoss(e.Err) {
			l.wrong = append(l.wrong, fmt.Sprintf("%s of a %s, with the error %v", e.Type, e.Kind, e.Err))
		}
		if queued := slices.Contains(c.told, mortise.EventWaiting); queued != e.Queued {
			l.wrong = append(l.wrong, fmt.Sprintf("%s of a %s after %v, with Queued %t", e.Type, e.Kind, c.told, e.Queued))
		}
		what += " " + e.Kind
	}
	l.seen[what]++
}

// check demands that all calls are complete.
func (l *ledger) check() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, c := range l.calls {
		told := c.told
		if len(told) > 0 && told[0] == mortise.EventWaiting {
			told = told[1:]
		}
		switch {
		case slices.Equal(told, []mortise.EventType{mortise.EventRefused}):
		case (c.kind == "semaphore" || c.kind == "latch") && slices.Equal(told, []mortise.EventType{mortise.EventAcquired}):
		case len(told) == 2 && told[0] == mortise.EventAcquired && (told[1] == mortise.EventReleased || told[1] == mortise.EventLost):
		default:
			l.wrong = append(l.wrong, fmt.Sprintf("call %d, %s %q: %v", number, c.kind, c.lock, c.told))
		}
	}
	few := l.wrong[:min(len(l.wrong), 20)]
	if len(few) > 0 {
		l.t.Errorf("%d events or calls are wrong:\n%s", len(l.wrong), strings.Join(few, "\n"))
	}
}

// Whatever happens to locks, each call that waits has an answer, and each hold one end: otherwise
// counts of what waits and is held drift.
func TestEveryHoldEndsOnce(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { soak(t, seed) })
		})
	}
}

// soak lets clients contend for a while, and breaks what can be broken.
func soak(t *testing.T, seed uint64) {
	m := &ledger{telemetry: newTelemetry(t, mortiseotel.WithHoldSpans(true)), calls: make(map[uint64]*entry), seen: make(map[string]int)}
	var servers []*mortisetest.Server
	for range 3 {
		servers = append(servers, mortisetest.NewServer())
		t.Cleanup(servers[len(servers)-1].Close)
	}
	end := time.Now().Add(time.Minute)
	var workers sync.WaitGroup
	for n := range uint64(4) {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for time.Now().Before(end) {
				lifetime(t, m, servers, r)
			}
		})
	}
	workers.Wait()
	m.wantNothingHeld()
	m.check()
	t.Log(m.seen)
	for _, want := range []string{
		"waiting lock", "acquired lock", "refused lock", "released lock", "lost lock", "waiting fairlock", "acquired multilock",
		"acquired redlock", "waiting redlock", "waiting rwlock.write", "waiting semaphore", "acquired latch", "renewal_failing", "gap", "resolved",
	} {
		if m.seen[want] == 0 {
			t.Errorf("nothing was told of the type and kind %s", want)
		}
	}
}

// lifetime is that of a few clients, which are closed under some of their holds.
func lifetime(t *testing.T, m mortise.Observer, servers []*mortisetest.Server, r *rand.Rand) {
	var clients []*mortise.Client
	for i, s := range servers {
		link := s.Link()
		link.Chaos(r.Uint64(), mortisetest.Rates{
			RequestLost: .01, ReplyLost: .01, Late: .01, Slow: .02, NotConnected: .01, Refused: .005,
			Partition: .002, Freeze: .001, Cut: .005, MessageLost: .02, MessageLate: .02, MessageDoubled: .02,
		})
		clients = append(clients, mortise.New(link, &mortise.Options{Observer: m, TTL: 2 * time.Second, RetryFor: 3 * time.Second, History: i}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _ = clients[0].PermitSemaphore("permits").TrySetPermits(ctx, 2)
	_, _ = clients[0].Semaphore("numbers").TrySetPermits(ctx, 2)
	var tasks sync.WaitGroup
	for range 6 {
		r := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		tasks.Go(func() {
			for ctx.Err() == nil {
				task(ctx, clients, r)
			}
		})
	}
	time.Sleep(time.Duration(r.IntN(30_000)) * time.Millisecond)
	if r.IntN(2) == 0 {
		cancel()
		tasks.Wait()
	}
	for _, c := range clients {
		_ = c.Close()
	}
	cancel()
	tasks.Wait()
}
