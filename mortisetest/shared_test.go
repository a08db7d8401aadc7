package mortisetest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/mortisetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs f in virtual time with a server and a link to it.
func bubble(t *testing.T, f func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		l := s.Link()
		defer l.Close()
		f(t, s, l)
	})
}

// incr has a name that Next knows.
var incr = driver.NewScript("semaphore_add", `return redis.call('incr', KEYS[1])`)

func add(ctx context.Context, l *mortisetest.Link, key string) (int64, error) {
	v, err := l.Eval(ctx, driver.Call{Script: incr, Keys: []string{key}})
	return v.Int(), err
}

func mustAdd(t *testing.T, l *mortisetest.Link, key string) {
	t.Helper()
	if _, err := add(t.Context(), l, key); err != nil {
		t.Error(err)
	}
}

func wantClass(t *testing.T, err error, want driver.Class) {
	t.Helper()
	if err == nil || driver.ClassOf(err) != want {
		t.Errorf("error %v, want one of class %v", err, want)
	}
}

// want compares the reply to a command with the one that is wanted, as text.
func want(t *testing.T, s *mortisetest.Server, reply string, command ...string) {
	t.Helper()
	v, err := s.Do(command...)
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	if got := v.String(); got != reply {
		t.Errorf("%v = %s, want %s", command, got, reply)
	}
}

func wantHits(t *testing.T, hits map[mortisetest.Hit]int, want map[mortisetest.Hit]int) {
	t.Helper()
	for hit := range hits {
		if _, known := want[hit]; !known {
			t.Errorf("%d %s, want none", hits[hit], hit)
		}
	}
	for hit, n := range want {
		if hits[hit] != n {
			t.Errorf("%d %s, want %d", hits[hit], hit, n)
		}
	}
}

// took checks for how long f ran, in virtual time.
func took(t *testing.T, want time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d != want {
		t.Errorf("took %v, want %v", d, want)
	}
}

// events is a sink that keeps what it receives.
type events struct {
	mu  sync.Mutex // guards all
	all []string
}

func (e *events) add(s string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, s)
}

func (e *events) Message(channel, payload string)   { e.add(channel + ":" + payload) }
func (e *events) Subscribed(channel string)         { e.add("+" + channel) }
func (e *events) Refused(channel string, err error) { e.add("!" + channel) }

// want compares what has come since the last call, when nothing moves any more.
func (e *events) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.all, want) {
		t.Errorf("events %q, want %q", e.all, want)
	}
	e.all = nil
}

// listen subscribes to channels.
func listen(t *testing.T, l *mortisetest.Link, channels ...string) (driver.Subscriber, *events) {
	t.Helper()
	e := &events{}
	sub := l.Subscriber(e)
	t.Cleanup(func() { _ = sub.Close() })
	var all []string
	for _, c := range channels {
		sub.Subscribe(c, false)
		all = append(all, "+"+c)
	}
	e.want(t, all...)
	return sub, e
}
