package mortisetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

var everything = mortisetest.Rates{
	RequestLost: 0.05, ReplyLost: 0.05, Late: 0.05, Slow: 0.05, NotConnected: 0.05, Refused: 0.05,
	Partition: 0.05, Freeze: 0.05, Cut: 0.05,
	MessageLost: 0.1, MessageLate: 0.1, MessageDoubled: 0.1,
}

// Chaos draws all that it can, from its seed only, and ends when it is told.
func TestChaos(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, seed uint64) (story string, hits map[mortisetest.Hit]int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := mortisetest.NewServer()
			defer s.Close()
			l := s.Link()
			defer l.Close()
			_, heard := listen(t, l, "a")
			l.Chaos(seed, everything)
			for range 120 {
				n, err := add(t.Context(), l, "n")
				story += fmt.Sprint(n, err, time.Now(), "\n")
				time.Sleep(10 * time.Second) // what was late has arrived, and an outage is over
				s.Publish("a", "x")
				synctest.Wait()
			}
			time.Sleep(10 * time.Second)
			heard.mu.Lock()
			story += fmt.Sprint(heard.all)
			heard.all = nil
			heard.mu.Unlock()
			hits = s.Hits()
			l.Chaos(0, mortisetest.Rates{})
			for range 50 {
				mustAdd(t, l, "n")
			}
			if got := s.Hits(); !maps.Equal(got, hits) {
				t.Errorf("after the end of chaos %v, before %v", got, hits)
			}
		})
		return story, hits
	}
	first, hits := story(t, 1)
	if again, _ := story(t, 1); again != first {
		t.Error("two runs with one seed differ")
	}
	if other, _ := story(t, 2); other == first {
		t.Error("two seeds have one story")
	}
	for _, hit := range []mortisetest.Hit{
		mortisetest.RequestLost, mortisetest.ReplyLost, mortisetest.RanLate, mortisetest.Slow, mortisetest.NotConnected, mortisetest.Refused,
		mortisetest.WasPartitioned, mortisetest.WasFrozen, mortisetest.WasCut,
		mortisetest.MessageLost, mortisetest.MessageLate, mortisetest.MessageDoubled,
	} {
		if hits[hit] == 0 {
			t.Errorf("no %s", hit)
		}
	}
}

// A server's chaos follows the scripts that run.
func TestServerChaos(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		s.Chaos(1, mortisetest.ServerRates{FailOver: 0.1, Restart: 0.1, Evict: 0.1, Jump: 0.1, Forget: 3, JumpBy: time.Minute})
		for range 100 {
			mustAdd(t, l, "n")
		}
		for _, hit := range []mortisetest.Hit{
			mortisetest.FailedOver, mortisetest.Forgotten, mortisetest.Restarted, mortisetest.Evicted, mortisetest.Jumped,
		} {
			if s.Hits()[hit] == 0 {
				t.Errorf("no %s", hit)
			}
		}
		s.Chaos(1, mortisetest.ServerRates{})
		hits := s.Hits()
		mustAdd(t, l, "n")
		if got := s.Hits(); !maps.Equal(got, hits) {
			t.Errorf("after the end of chaos %v, before %v", got, hits)
		}
	})
}

// Locks work on a bad network.
func TestLocksInChaos(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		client := mortise.New(l, nil)
		defer client.Close()
		l.Chaos(1, mortisetest.Rates{ReplyLost: 0.3, Late: 0.2})
		for range 20 {
			err := client.Lock("job").Do(t.Context(), func(ctx context.Context) error { return ctx.Err() })
			if err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) && !errors.Is(err, mortise.ErrUnreachable) {
				t.Fatal(err)
			}
		}
		l.Calm()
		if hits := l.Hits(); hits[mortisetest.ReplyLost] < 5 || hits[mortisetest.RanLate] < 5 {
			t.Errorf("%v, want five lost replies and five late calls at least", hits)
		}
	})
}

// A partition or a freeze of the test's own lasts until the test ends it, also if chaos has begun
// one before.
func TestChaosEndsOnlyItsOwn(t *testing.T) {
	for name, r := range map[string]struct {
		rates      mortisetest.Rates
		begin, end func(l *mortisetest.Link)
	}{
		"partition": {mortisetest.Rates{Partition: 1}, (*mortisetest.Link).Partition, (*mortisetest.Link).Heal},
		"freeze":    {mortisetest.Rates{Freeze: 1}, (*mortisetest.Link).Freeze, (*mortisetest.Link).Thaw},
	} {
		for _, first := range []string{"chaos", "the test"} {
			t.Run(name+" begun by "+first, func(t *testing.T) {
				bubble(t, func(t *testing.T, _ *mortisetest.Server, l *mortisetest.Link) {
					if first == "the test" {
						r.begin(l)
					}
					l.Chaos(1, r.rates)
					go func() { _, _ = add(t.Context(), l, "n") }()
					synctest.Wait()
					l.Chaos(1, mortisetest.Rates{})
					if first == "chaos" {
						r.begin(l)
					}
					time.Sleep(time.Minute) // chaos has ended its own after 5 s
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if n, err := add(ctx, l, "n"); err == nil {
						t.Errorf("a call got the reply %d: the outage was ended", n)
					}
					r.end(l)
					mustAdd(t, l, "n")
				})
			})
		}
	}
}

// Rates that mean nothing are refused before anything goes wrong.
func TestRatesThatMeanNothing(t *testing.T) {
	t.Parallel()
	s := mortisetest.NewServer()
	defer s.Close()
	l := s.Link()
	for what, chaos := range map[string]func(){
		"percent":         func() { l.Chaos(1, mortisetest.Rates{ReplyLost: 10}) },
		"negative":        func() { l.Chaos(1, mortisetest.Rates{Late: -0.1}) },
		"no number":       func() { l.Chaos(1, mortisetest.Rates{Cut: math.NaN()}) },
		"too many calls":  func() { l.Chaos(1, mortisetest.Rates{Slow: 0.6, Cut: 0.6}) },
		"too many others": func() { l.Chaos(1, mortisetest.Rates{MessageLost: 0.6, MessageLate: 0.6}) },
		"negative time":   func() { l.Chaos(1, mortisetest.Rates{Late: 1, Delay: -time.Second}) },
		"jumps of 0":      func() { s.Chaos(1, mortisetest.ServerRates{Jump: 1}) },
		"fewer than none": func() { s.Chaos(1, mortisetest.ServerRates{FailOver: 1, Forget: -5}) },
	} {
		func() {
			defer func() {
				if why := recover(); why == nil || !strings.HasPrefix(fmt.Sprint(why), "mortisetest: ") {
					t.Errorf("%s: %v, want a panic that says what is wrong", what, why)
				}
			}()
			chaos()
		}()
	}
	l.Chaos(1, mortisetest.Rates{RequestLost: 0.5, ReplyLost: 0.5, MessageLost: 1})
	s.Chaos(1, mortisetest.ServerRates{FailOver: 1})
}
