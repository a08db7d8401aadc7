package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// The cause of a lost hold is one line: which lock, what has happened, since when, what to do. It does
// not speak of a time limit that the caller has not set.
func TestCauseOfALossIsOneSentence(t *testing.T) {
	t.Parallel()
	const stop = "; stop the work that it protects, others may begin theirs"
	for name, test := range map[string]struct {
		lose func(s *mortisetest.Server, l *mortisetest.Link)
		says string // of the lease
	}{
		"silence": {func(_ *mortisetest.Server, l *mortisetest.Link) { l.Partition() },
			"Redis has confirmed no renewal since SINCE: no reply in time"},
		"no connection": {func(_ *mortisetest.Server, l *mortisetest.Link) {
			l.OnCall(func(string) mortisetest.Fault { return mortisetest.Fault{Lose: mortisetest.Connection} })
		}, "Redis has confirmed no renewal since SINCE: mortisetest: connection refused"},
		"no connection, then silence": {func(_ *mortisetest.Server, l *mortisetest.Link) { refuseThenHang(l, 15*time.Second) },
			"Redis has confirmed no renewal since SINCE: mortisetest: connection refused"},
		"key is gone": {func(s *mortisetest.Server, _ *mortisetest.Link) { s.Evict("job") },
			"it was freed by force, its key was deleted, or Redis has restarted without it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				l := s.Link()
				c := mortise.New(l, nil)
				defer c.Close()
				hold, ctx := mustLock(t, c.Lock("job"), t.Context())
				since := time.Now()
				test.lose(s, l)
				<-ctx.Done()
				says := "the lease was lost: " + strings.ReplaceAll(test.says, "SINCE", since.Format("15:04:05.000"))
				cause := context.Cause(ctx)
				if want := `mortise: hold "job": ` + says + stop; cause.Error() != want {
					t.Errorf("the cause is\n%v\nwant\n%s", cause, want)
				}
				err := hold.Unlock()
				if want := `mortise: unlock "job": ` + says; fmt.Sprint(err) != want {
					t.Errorf("Unlock says\n%v\nwant\n%s", err, want)
				}
				for _, err := range []error{cause, err} {
					if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || !errors.Is(err, mortise.ErrLost) {
						t.Errorf("%v: must match ErrLost, and no error of a context", err)
					}
				}
			})
		})
	}
}

// refuseThenHang has a link refuse connections for a while, and then answer nothing until the limit of a call ends.
func refuseThenHang(l *mortisetest.Link, refuse time.Duration) {
	l.SetTimeout(time.Hour)
	until := time.Now().Add(refuse)
	l.OnCall(func(string) mortisetest.Fault {
		if time.Now().Before(until) {
			return mortisetest.Fault{Lose: mortisetest.Connection}
		}
		return mortisetest.Fault{Lose: mortisetest.Request, Silent: true}
	})
}

// A loss since an interruption says so, however long after it is noticed; one that has nothing to do with it does not.
func TestLossInARestartSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		l := s.Link()
		c, other := mortise.New(l, nil), mortise.New(s.Link(), nil)
		defer c.Close()
		defer other.Close()
		busy, _ := mustLock(t, other.Lock("busy"), t.Context())
		waiting, cancel := context.WithCancel(t.Context())
		waited := later(t, waiting, c.Lock("busy"))
		lose := func(interrupt func()) string {
			_, ctx := mustLock(t, c.Lock("job"), t.Context())
			time.Sleep(time.Second)
			interrupt()
			s.Evict("job")
			<-ctx.Done()
			return context.Cause(ctx).Error()
		}
		const word = "a subscription was interrupted since Redis confirmed it last"
		if got := lose(func() {
			until := time.Now().Add(8 * time.Second)
			l.Cut(300 * time.Millisecond)
			l.OnCall(func(string) (f mortisetest.Fault) {
				if time.Now().Before(until) {
					f.Lose = mortisetest.Connection
				}
				return f
			})
		}); !strings.Contains(got, word) {
			t.Errorf("after a cut the loss says %q", got)
		}
		if got := lose(func() {}); strings.Contains(got, word) {
			t.Errorf("long after the cut the loss says %q", got)
		}
		cancel()
		<-waited
		mustUnlock(t, busy)
	})
}

// Each renewal that fails is told with what is known of the outage, also if it only ran into its own limit.
func TestFailingRenewalSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		l := s.Link()
		var silent atomic.Int32
		until := time.Now().Add(15 * time.Second)
		c := mortise.New(l, &mortise.Options{Observer: mortise.ObserverFunc(func(e mortise.Event) {
			if e.Type != mortise.EventRenewalFailing {
				return
			}
			if time.Now().After(until) {
				silent.Add(1)
			}
			if !strings.Contains(e.Err.Error(), "connection refused") {
				t.Errorf("a renewal failed with %v, want the refused connection", e.Err)
			}
		})})
		defer c.Close()
		_, ctx := mustLock(t, c.Lock("job"), t.Context())
		refuseThenHang(l, time.Until(until))
		<-ctx.Done()
		if silent.Load() < 2 {
			t.Errorf("%d renewals ran into their own limit, want several", silent.Load())
		}
	})
}

// Unlock says what is known of the outage, also if its last attempt only ran into its own limit.
func TestUnlockSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	const goesOn = "redis cannot be reached or cannot serve in time: the release goes on in the background until the lease ends: mortisetest: connection refused"
	const ends = "redis cannot be reached or cannot serve: mortisetest: connection refused; the lock ends by itself with its lease"
	multi := func(c *mortise.Client) taker { return mortise.NewMultiLock(c.Lock("job"), c.Lock("{job}:2")) }
	for name, test := range map[string]struct {
		open        func(c *mortise.Client) taker
		slow, never string // with Options.UnlockFor, and without
	}{
		"Lock":      {func(c *mortise.Client) taker { return c.Lock("job") }, goesOn, ends},
		"MultiLock": {multi, goesOn, `"job": ` + ends + "\n" + `"{job}:2": ` + ends},
		"Redlock":   {func(c *mortise.Client) taker { return mortise.NewRedlock("job", c) }, goesOn, "server 1 of 1: " + ends},
	} {
		for limit, want := range map[time.Duration]string{0: test.slow, -1: test.never} {
			t.Run(fmt.Sprint(name, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mortisetest.NewServer()
					defer s.Close()
					l := s.Link()
					c := mortise.New(l, &mortise.Options{UnlockFor: limit})
					defer c.Close()
					hold, _, err := test.open(c).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					refuseThenHang(l, 2*time.Second)
					if err := hold.Unlock(); !strings.HasSuffix(fmt.Sprint(err), want) {
						t.Errorf("Unlock says\n%v\nwant at its end\n%s", err, want)
					}
				})
			})
		}
	}
}

// A lock that was granted is trusted for the short lease of a grant at first. If it is lost then, that
// was not confirmed since the grant, and not since half a minute before.
func TestLossOfAGrantedLockSaysSinceWhen(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(c *mortise.Client) taker{
		"Lock":     func(c *mortise.Client) taker { return c.Lock("job") },
		"FairLock": func(c *mortise.Client) taker { return c.FairLock("job") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				l := s.Link()
				first, c := mortise.New(s.Link(), nil), mortise.New(l, nil)
				defer first.Close()
				defer c.Close()
				holder, _, err := open(first).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				granted := later(t, t.Context(), open(c))
				time.Sleep(40 * time.Second)
				l.OnCall(func(string) mortisetest.Fault { return mortisetest.Fault{Lose: mortisetest.Request} }) // messages arrive
				mustUnlock(t, holder)
				at := time.Now()
				hold := <-granted
				time.Sleep(10 * time.Second)
				lost, ok := errors.AsType[*mortise.LostError](hold.Unlock())
				if !ok || lost.Since.Before(at.Add(-2*time.Second)) || lost.Since.After(at.Add(2*time.Second)) {
					t.Errorf("lost with %+v, want a loss since %v", lost, at)
				}
			})
		})
	}
}

// One of the locks of a MultiLock, and the loss that f returns from Do, are told once, in one line.
func TestLossIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		c := mortise.New(s.Link(), nil)
		defer c.Close()
		lost := func(ctx context.Context) error {
			s.Evict("job")
			<-ctx.Done()
			return context.Cause(ctx)
		}
		const want = `mortise: hold "job": the lease was lost: it was freed by force, its key was deleted, or Redis has restarted without it; stop the work that it protects, others may begin theirs`
		if err := c.Lock("job").Do(t.Context(), lost); fmt.Sprint(err) != want {
			t.Errorf("Do says\n%v\nwant\n%s", err, want)
		}
		if err := mortise.NewMultiLock(c.Lock("job"), c.Lock("other")).Do(t.Context(), lost); fmt.Sprint(err) != want {
			t.Errorf("Do of a MultiLock says\n%v\nwant\n%s", err, want)
		}
		quiet := func(ctx context.Context) error { _ = lost(ctx); return errors.New("its own") }
		if err := c.Lock("job").Do(t.Context(), quiet); !errors.Is(err, mortise.ErrLost) || !strings.HasPrefix(err.Error(), "its own") {
			t.Errorf("Do says\n%v\nwant the error of f and ErrLost", err)
		}
	})
}
