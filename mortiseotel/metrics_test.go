package mortiseotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortiseotel"
	"github.com/mortise-go/mortise/mortisetest"
)

func TestMetricsOfOneLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t)
		a, b := client(t, s, m), client(t, s, m)
		ctx := t.Context()

		hold, inner, err := a.Lock("job").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := a.Lock("job").Lock(inner)
		if err != nil {
			t.Fatal(err)
		}
		refuse(t, b)
		done := make(chan error)
		go func() {
			waiter, _, err := b.Lock("job").Lock(ctx)
			if err == nil {
				time.Sleep(time.Second / 2)
				err = waiter.Unlock()
			}
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		for _, want := range []string{"dlock.waiter.count{kind=lock}: 1", "dlock.held.count{kind=lock}: 2"} {
			if !strings.Contains(strings.Join(m.points(), "\n"), want) {
				t.Errorf("meanwhile: %s, want %s", m.points(), want)
			}
		}
		if err := errors.Join(again.Unlock(), hold.Unlock(), <-done); err != nil {
			t.Fatal(err)
		}
		m.wantPoints(
			"dlock.acquire.duration{contended=false,kind=lock,outcome=acquired}: 2, 0s",
			"dlock.acquire.duration{contended=true,kind=lock,outcome=acquired}: 1, 0.1s",
			"dlock.acquire.duration{contended=false,kind=lock,outcome=locked}: 1, 0s",
			"dlock.acquire.duration{contended=true,kind=lock,outcome=timeout}: 2, 0.2s",
			"dlock.acquire.duration{contended=true,kind=lock,outcome=canceled}: 1, 0.1s",
			"dlock.acquire.duration{contended=false,kind=lock,outcome=error,error.type=invalid}: 1, 0s",
			"dlock.hold.duration{end=released,kind=lock}: 3, 1.3s",
			"dlock.held.count{kind=lock}: 0",
			"dlock.waiter.count{kind=lock}: 0",
		)
		m.wantNothingHeld()
	})
}

// refuse has c fail to acquire a lock that another client holds, in each way.
func refuse(t *testing.T, c *mortise.Client) {
	t.Helper()
	ctx := t.Context()
	if _, _, err := c.Lock("job").TryLock(ctx); !errors.Is(err, mortise.ErrLocked) {
		t.Fatalf("TryLock: %v", err)
	}
	if _, _, err := c.Lock("job").With(mortise.LockOptions{Wait: 100 * time.Millisecond}).Lock(ctx); !errors.Is(err, mortise.ErrLocked) {
		t.Fatalf("Lock with Wait: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, _, err := c.Lock("job").Lock(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Lock with a deadline: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	time.AfterFunc(100*time.Millisecond, end)
	if _, _, err := c.Lock("job").Lock(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("Lock that is canceled: %v", err)
	}
	if _, _, err := c.Lock("").Lock(ctx); !errors.Is(err, mortise.ErrInvalid) {
		t.Fatalf("Lock without a name: %v", err)
	}
}

func TestMetricsOfLosses(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t)
		link := s.Link()
		c := mortise.New(link, &mortise.Options{Observer: m, TTL: 3 * time.Second})
		lock := func(name string, o mortise.LockOptions) context.Context {
			_, ctx, err := c.Lock(name).With(o).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return ctx
		}
		<-lock("expired", mortise.LockOptions{MaxHold: time.Second}).Done()
		forced := lock("forced", mortise.LockOptions{})
		if _, err := c.Lock("forced").ForceUnlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-forced.Done()
		cut := lock("unreachable", mortise.LockOptions{})
		link.Partition()
		<-cut.Done()
		link.Heal()
		lock("closed", mortise.LockOptions{})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		m.wantNothingHeld()
		points := strings.Join(m.points(), "\n")
		for _, want := range []string{
			"dlock.lost{kind=lock,reason=expired}: 1", "dlock.lost{kind=lock,reason=forced}: 1",
			"dlock.lost{kind=lock,reason=unreachable}: 1", "dlock.lost{kind=lock,reason=closed}: 1",
			"dlock.hold.duration{end=lost,kind=lock}: 3, ", "dlock.hold.duration{end=expired,kind=lock}: 1, ", "dlock.renewals{outcome=failed}: ",
		} {
			if !strings.Contains(points, want) {
				t.Errorf("metrics:\n%s\nwant %s", points, want)
			}
		}
	})
}

func TestMetricsOfRenewalsGapsAndAsking(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t)
		a, link := client(t, s, m), s.Link()
		b := mortise.New(link, &mortise.Options{Observer: m})
		defer b.Close()
		hold, ctx, err := a.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, _, err := b.Lock("job").Lock(waiting)
			done <- err
		}()
		time.Sleep(2500 * time.Millisecond)
		link.Cut(0)
		time.Sleep(500 * time.Millisecond)
		if _, err := b.Ask(t.Context(), "job", "deploy"); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		points := strings.Join(m.points(), "\n")
		for _, want := range []string{
			"dlock.renewals{outcome=renewed}: 3", "dlock.lease.margin{}: 3, ", "dlock.subscription.gaps{}: 1", "dlock.asked{kind=lock}: 1",
		} {
			if !strings.Contains(points, want) {
				t.Errorf("metrics:\n%s\nwant %s", points, want)
			}
		}
		m.wantNothingHeld()
	})
}

func TestLockNames(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server) {
		m := newTelemetry(t, mortiseotel.WithLockName(func(name string) string {
			kind, _, _ := strings.Cut(name, ":")
			return kind
		}))
		c := client(t, s, m)
		for _, name := range []string{"order:1", "order:2", ":3"} {
			hold, _, err := c.Lock(name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := hold.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		m.wantPoints(
			"dlock.acquire.duration{contended=false,kind=lock,name=order,outcome=acquired}: 2, 0s",
			"dlock.acquire.duration{contended=false,kind=lock,outcome=acquired}: 1, 0s",
			"dlock.hold.duration{end=released,kind=lock,name=order}: 2, 0s",
			"dlock.hold.duration{end=released,kind=lock}: 1, 0s",
			"dlock.held.count{kind=lock,name=order}: 0",
			"dlock.held.count{kind=lock}: 0",
		)
	})
}
