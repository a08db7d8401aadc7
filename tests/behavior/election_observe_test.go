package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// watch observes in the background, and returns what came so far: the values,
// and "-" for nobody.
func watch(t *testing.T, ctx context.Context, e *mortise.Election) func() string {
	var mu sync.Mutex
	var seen []string
	go func() {
		for l, err := range e.Observe(ctx) {
			mu.Lock()
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				seen = append(seen, err.Error())
			case err != nil:
			case l == mortise.Leader{}:
				seen = append(seen, "-")
			default:
				seen = append(seen, fmt.Sprintf("%d%s", l.Term, l.Value))
			}
			mu.Unlock()
		}
	}()
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(seen, " ")
	}
}

func TestObserveSeesEveryChangeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		early := watch(t, ctx, other.Election("job"))
		want := func(seen func() string, want string) {
			t.Helper()
			if got := seen(); got != want {
				t.Errorf("observed %q, want %q", got, want)
			}
		}
		want(early, "-")
		e := c.Election("job")
		term, _ := mustLead(t, e, t.Context(), "a")
		want(early, "- 1a")
		if err := term.Proclaim(t.Context(), "b"); err != nil {
			t.Error(err)
		}
		want(early, "- 1a 1b")
		late := watch(t, ctx, other.Election("job"))
		want(late, "1b")
		mustResign(t, term)
		want(early, "- 1a 1b -")
		mustLead(t, e.With(mortise.LockOptions{MaxHold: 10 * time.Second}), t.Context(), "c")
		want(early, "- 1a 1b - 2c")
		time.Sleep(10*time.Second + time.Millisecond) // expires, without a message
		want(early, "- 1a 1b - 2c -")
		time.Sleep(5 * time.Minute)
		mustLead(t, e, t.Context(), "d")
		time.Sleep(5 * time.Minute)
		if _, err := other.Election("job").Depose(t.Context()); err != nil {
			t.Error(err)
		}
		want(early, "- 1a 1b - 2c - 3d -")
		want(late, "1b - 2c - 3d -")
		cancel()
	})
}

func TestObserveWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		deaf := mortise.New(deafDriver{s.Driver()}, nil)
		defer deaf.Close()
		c, _ := open(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		seen := watch(t, ctx, deaf.Election("job"))
		const second = 1100 * time.Millisecond // the poll, at its longest
		time.Sleep(time.Minute)
		term, _ := mustLead(t, c.Election("job"), t.Context(), "a")
		time.Sleep(second)
		_ = term.Proclaim(t.Context(), "b")
		_ = term.Proclaim(t.Context(), "c") // coalesced
		time.Sleep(second)
		mustResign(t, term)
		time.Sleep(second)
		if got, want := seen(), "- 1a 1c -"; got != want {
			t.Errorf("observed %q, want %q", got, want)
		}
		cancel()
	})
}

// An observer that is slow to look sees the last state.
func TestObserveWithASlowReader(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		e := c.Election("job")
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for l, err := range e.Observe(t.Context()) {
				seen = append(seen, l.Value)
				if err != nil || l.Value == "last" {
					return
				}
				time.Sleep(time.Minute)
			}
		}()
		synctest.Wait()
		for i := range 10 {
			value := fmt.Sprint(i)
			if i == 9 {
				value = "last"
			}
			term, _ := mustLead(t, e, t.Context(), value)
			time.Sleep(time.Second)
			if i < 9 {
				mustResign(t, term)
			}
		}
		<-done
		if !slices.Equal(seen, []string{"", "last"}) {
			t.Errorf("observed %q", seen)
		}
	})
}

func TestObserveDuringAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		seen := watch(t, t.Context(), c.Election("job"))
		synctest.Wait()
		refuse := func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		}
		f.Set(refuse, nil)
		time.Sleep(5 * time.Second)
		mustLead(t, other.Election("job"), t.Context(), "a")
		f.Set(nil, nil)
		time.Sleep(5 * time.Second)
		if got, want := seen(), "- 1a"; got != want {
			t.Errorf("after a short outage: observed %q, want %q", got, want)
		}
		f.Set(refuse, nil)
		time.Sleep(15 * time.Second) // longer than RetryFor
		if got := seen(); !strings.Contains(got, mortise.ErrUnreachable.Error()) {
			t.Errorf("after a long outage: observed %q, want ErrUnreachable", got)
		}
		f.Set(nil, nil)
	})
}

// Forged messages make nobody ask more than so often.
func TestObserveForgedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch(t, ctx, c.Election("job"))()
		before := f.Count("election_read")
		for range 1000 {
			do(t, s, "PUBLISH", "mortise:election_news:{job}", "x")
			time.Sleep(time.Millisecond)
		}
		if n := f.Count("election_read") - before; n > 250 {
			t.Errorf("a thousand messages in a second caused %d reads, want 200 or so at most", n)
		}
	})
}

// The client may be closed inside the loop.
func TestObserveAndCloseInside(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		var errs []error
		for _, err := range c.Election("job").Observe(t.Context()) {
			errs = append(errs, err)
			if err == nil {
				_ = c.Close()
			}
		}
		if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], mortise.ErrClosed) {
			t.Errorf("got %v, want one state and ErrClosed", errs)
		}
	})
}
