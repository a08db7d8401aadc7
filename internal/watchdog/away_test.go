package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// server answers for the leases of a script after cost, one script after the other. It executes what was sent to it,
// also if the sender has gone.
type server struct {
	cost time.Duration

	mu   sync.Mutex
	free time.Time // when it has executed all that was sent
}

// away makes the server stand still until back.
func (s *server) away(back time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = back
}

const script = 100 // leases

func (s *server) renew(ctx context.Context, leases []*watchdog.Lease) []watchdog.Answer {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration((len(leases)+script-1)/script) * s.cost)
	done := s.free
	s.mu.Unlock()
	answers := make([]watchdog.Answer, len(leases))
	select {
	case <-time.After(time.Until(done)):
	case <-ctx.Done():
		for i := range answers {
			answers[i] = watchdog.Answer{State: watchdog.Failed, Err: errDown}
		}
	}
	return answers
}

// A server that stood still for less than the leases last loses none of those that have a second left, however many
// there are. What it costs to renew them all takes most of its time, or little.
func TestServerThatWasAway(t *testing.T) {
	for _, leases := range []int{1, 100, 101, 5_000, 5_001} {
		for _, cost := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			for _, away := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 18 * time.Second, 19 * time.Second, 40 * time.Second} {
				serverThatWasAway(t, leases, &server{cost: cost}, away)
			}
		}
	}
}

// A server that needs a tenth of a second and more for each script: an attempt needs time even if one of its leases has
// hardly any left.
func TestSlowServerThatWasAway(t *testing.T) {
	serverThatWasAway(t, 1000, &server{cost: 100 * time.Millisecond}, 19*time.Second)
	serverThatWasAway(t, 2000, &server{cost: 150 * time.Millisecond}, 18*time.Second)
}

func serverThatWasAway(t *testing.T, leases int, s *server, away time.Duration) {
	t.Run(fmt.Sprintf("%d, %v, %v", leases, s.cost, away), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { wantOnlyBriefOnesLost(t, leases, s, away) })
	})
}

func wantOnlyBriefOnesLost(t *testing.T, leases int, s *server, away time.Duration) {
	var mu sync.Mutex // guards the next two
	lost := make(map[*watchdog.Lease]error)
	var back time.Time
	var w *watchdog.Watchdog
	w = watchdog.New(watchdog.Config{Renew: s.renew, Shard: func(*watchdog.Lease) string { return "" }, Lost: func(l *watchdog.Lease, why watchdog.Reason, err error) {
		mu.Lock()
		defer mu.Unlock()
		if late := time.Since(w.Until(l)); late != 0 || why != watchdog.LostUnconfirmed || err == nil {
			t.Errorf("lost %v after the end, reason %v: %v", late, why, err)
		}
		if time.Now().Before(back) && !errors.Is(err, errDown) {
			t.Errorf("lost while the server is away, because of %v", err)
		}
		lost[l] = err
	}})
	defer w.Close()
	all := make([]*watchdog.Lease, leases)
	steps := min(leases, 1000)
	for i := range all { // over a period
		all[i] = &watchdog.Lease{Of: "", Terms: &terms}
		w.Add(all[i], time.Now(), trust, true)
		if (i+1)*steps/leases > i*steps/leases {
			time.Sleep(period / time.Duration(steps))
		}
	}
	time.Sleep(2 * period)
	mu.Lock()
	back = time.Now().Add(away)
	s.away(back)
	mu.Unlock()
	time.Sleep(away)
	mustLive := make(map[*watchdog.Lease]time.Duration)
	for _, l := range all {
		if left := time.Until(w.Until(l)); left >= time.Second {
			mustLive[l] = left
		}
	}
	time.Sleep(2 * trust)
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d of %d had a second left, %d were lost", len(mustLive), leases, len(lost))
	for l, left := range mustLive {
		if _, ok := lost[l]; ok {
			t.Fatalf("a lease with %v left was lost; %d of %d had a second left, %d were lost", left, len(mustLive), leases, len(lost))
		}
	}
}
