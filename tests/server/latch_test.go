package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestRealLatch(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		waiter, counter := dial(s.Addr(), nil), dial(p.Addr(), nil)
		l := closedLatch(t, counter, "job", 4)
		mustCountDown(t, l) // every script is known to the server from here on
		var waiting []<-chan error
		for range 10 {
			waiting = append(waiting, waitLater(t.Context(), waiter.CountDownLatch("job")))
		}
		for left := 2; left >= 0; left-- {
			cut := p.LoseReply("job", 1)
			mustCountDown(t, l)
			<-cut
			wantCount(t, l, left)
		}
		for _, w := range waiting {
			if err := <-w; err != nil {
				t.Error(err)
			}
		}
	})
}

// numbersUseTheirRights does all that semaphores and latches can do.
func numbersUseTheirRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	sem := permitted(t, c, name, 1)
	mustAcquire(t, sem, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := other.Semaphore(name).Acquire(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v, want the deadline's error", err)
	}
	waiting := acquireLater(t.Context(), other.Semaphore(name), 2)
	mustRelease(t, sem, 1)
	if err := sem.AddPermits(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if _, err := sem.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := sem.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	l := closedLatch(t, c, name, 2)
	opened := waitLater(t.Context(), other.CountDownLatch(name))
	mustCountDown(t, l)
	mustCountDown(t, l)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// On a cluster messages travel another way, and keys must share a slot.
func TestRealClusterOfNumbers(t *testing.T) {
	onCluster(t, func(t *testing.T, name string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		for _, mode := range []mortise.PubSub{mortise.PubSubAuto, mortise.PubSubClassic, mortise.PubSubBoth} {
			releaser, taker := dial(&mortise.Options{PubSub: mode}), dial(&mortise.Options{PubSub: mode})
			for i, master := range set.Masters {
				key := set.KeyOn(t, master, fmt.Sprint(name, mode, i))
				sem := permitted(t, releaser, "{"+key+"}:permits", 1)
				mustAcquire(t, sem, 1)
				permit := acquireLater(t.Context(), taker.Semaphore(sem.Name()), 1)
				latch := closedLatch(t, releaser, key, 1)
				done := waitLater(t.Context(), taker.CountDownLatch(key))
				redistest.Eventually(t, "both wait", func() error {
					if master.Int(t, "EXISTS", keyspace.Claims(sem.Name())) == 0 {
						return errors.New("no claim yet")
					}
					return nil
				})
				mustRelease(t, sem, 1)
				mustCountDown(t, latch)
				if err := <-permit; err != nil {
					t.Error(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		c := dial(nil)
		l := c.CountDownLatch("{order}:42")
		_, setErr := l.TrySetCount(t.Context(), 1)
		_, delErr := l.Delete(t.Context())
		for op, err := range map[string]error{"TrySetCount": setErr, "Delete": delErr, "CountDown": l.CountDown(t.Context()), "Wait": l.Wait(t.Context())} {
			if !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%s of a latch with braces on a cluster: %v, want ErrInvalid", op, err)
			}
		}
	})
}
