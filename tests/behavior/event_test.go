package behavior

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// What became of a call is one of the words that docs/observability.md names.
func TestOutcomeOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		queued bool
		err    error
		want   string
	}{
		{false, mortise.ErrLocked, "locked"},
		{true, mortise.ErrLocked, "timeout"},
		{false, errors.Join(mortise.ErrLocked, context.DeadlineExceeded), "timeout"},
		{true, context.DeadlineExceeded, "timeout"},
		{true, errors.Join(mortise.ErrUnreachable, context.DeadlineExceeded), "error"},
		{true, errors.Join(mortise.ErrUnreachable, context.Canceled), "canceled"},
		{true, errors.Join(mortise.ErrLocked, context.Canceled), "canceled"},
		{true, errors.Join(mortise.ErrClosed, context.Canceled), "error"},
		{false, mortise.ErrNoPermits, "locked"},
		{true, mortise.ErrNoPermits, "timeout"},
		{false, errors.Join(mortise.ErrNotSet, mortise.ErrNoPermits), "error"},
		{true, &mortise.MissingError{Missing: 1}, "timeout"},
		{true, fmt.Errorf("%w", &mortise.DeadlockError{}), "deadlock"},
		{false, mortise.ErrReentry, "error"},
		{false, nil, "error"},
	} {
		e := mortise.Event{Type: mortise.EventRefused, Queued: c.queued, Err: c.err}
		if got := e.Outcome(); got != c.want {
			t.Errorf("queued %t, %v: the outcome is %q, want %q", c.queued, c.err, got, c.want)
		}
		if end, reason := e.End(); end != "" || reason != "" {
			t.Errorf("%v: a call that was refused ends as %q, %q", c.err, end, reason)
		}
		wantDocumented(t, "`outcome`", c.want)
	}
	acquired := mortise.Event{Type: mortise.EventAcquired}
	if got := acquired.Outcome(); got != "acquired" {
		t.Errorf("the outcome of an acquisition is %q", got)
	}
}

// How a hold has ended is one of the words that docs/observability.md names.
func TestEndOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		of          mortise.EventType
		err         error
		end, reason string
	}{
		{mortise.EventReleased, nil, "released", ""},
		{mortise.EventReleased, mortise.ErrUnreachable, "released", ""},
		{mortise.EventReleased, &mortise.LostError{Reason: mortise.LostTaken}, "lost", "taken"},
		{mortise.EventLost, &mortise.LostError{Reason: mortise.LostExpired}, "expired", "expired"},
		{mortise.EventLost, fmt.Errorf("%w", &mortise.LostError{Reason: mortise.LostForced}), "lost", "forced"},
		{mortise.EventLost, &mortise.LostError{Reason: mortise.LostUnreachable}, "lost", "unreachable"},
		{mortise.EventLost, &mortise.LostError{Reason: "of tomorrow"}, "lost", "other"},
		{mortise.EventLost, mortise.ErrClosed, "lost", "closed"},
		{mortise.EventLost, nil, "lost", "other"},
	} {
		e := mortise.Event{Type: c.of, Err: c.err}
		if end, reason := e.End(); end != c.end || reason != c.reason {
			t.Errorf("%s, %v: ends as %q, %q; want %q, %q", c.of, c.err, end, reason, c.end, c.reason)
		}
		if got := e.Outcome(); got != "" {
			t.Errorf("%s has the outcome %q", c.of, got)
		}
		wantDocumented(t, "`end`", c.end)
		if c.reason != "" {
			wantDocumented(t, "`reason`", c.reason)
		}
	}
}

// wantDocumented checks that the line of the words of a label has that one.
func wantDocumented(t *testing.T, label, word string) {
	t.Helper()
	for line := range strings.Lines(observability(t)) {
		if strings.HasPrefix(line, "| "+label) && strings.Contains(line, "`"+word+"`") {
			return
		}
	}
	t.Errorf("docs/observability.md has no word %q for %s", word, label)
}

func observability(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A hold whose release waits for that of a sibling when the client is closed is lost, and not released.
func TestReleaseThatFindsTheClientClosedIsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var mu sync.Mutex
		var ends []string
		c, f := open(t, s, &mortise.Options{Observer: mortise.ObserverFunc(func(e mortise.Event) {
			if e.Type == mortise.EventReleased || e.Type == mortise.EventLost {
				time.Sleep(time.Millisecond) // so that the release tells of its hold before Close comes to it
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, fmt.Sprintf("%s %v", e.Type, e.Err))
			}
		})})
		k := c.Lock("job")
		_, ctx := mustLock(t, k, t.Context())
		first, _ := mustLock(t, k, ctx)
		second, _ := mustLock(t, k, ctx)
		f.Set(func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }, nil)
		var all sync.WaitGroup
		all.Go(func() { _ = first.Unlock() })
		synctest.Wait()
		all.Go(func() {
			if err := second.Unlock(); !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("Unlock: %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		_ = c.Close()
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, end := range ends {
			if strings.HasPrefix(end, "released") && end != "released <nil>" {
				t.Errorf("told: %s", end)
			}
		}
		if len(ends) != 3 {
			t.Errorf("told of the ends %q, want three", ends)
		}
	})
}
