package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A client that listens, because one of its goroutines waits, looks at all of its leases as soon as it hears again: after a restart
// without data, all holders know of their loss.
func TestRealRestartIsNoticed(t *testing.T) {
	for _, leases := range []int{1, 1000} {
		t.Run(strconv.Itoa(leases)+" leases", func(t *testing.T) {
			eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, own *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
				var heard atomic.Pointer[time.Time]
				c := dial(own.Addr(), &mortise.Options{Observer: mortise.ObserverFunc(func(e mortise.Event) {
					if now := time.Now(); e.Type == mortise.EventGap {
						heard.CompareAndSwap(nil, &now)
					}
				})})
				listen(t, c, dial(own.Addr(), nil))
				ends := acquireMany(t, c, leases)
				heard.Store(nil)
				own.Restart(t)
				for _, ctx := range ends {
					<-ctx.Done()
				}
				known, at := time.Now(), heard.Load()
				if at == nil {
					t.Fatal("all leases were lost before the subscription was confirmed again")
				}
				for _, ctx := range ends {
					if err := context.Cause(ctx); !errors.Is(err, mortise.ErrLost) || !strings.Contains(err.Error(), "a subscription was interrupted since") {
						t.Fatalf("lost with %v, want ErrLost and a word of the interruption", err)
					}
				}
				b.Within("the last loss after the subscription is confirmed", known.Sub(*at), 300*time.Millisecond)
			})
		})
	}
}

// listen has a goroutine of c wait for a lock that other holds.
func listen(t *testing.T, c, other *mortise.Client) {
	t.Helper()
	if _, _, err := other.Lock("busy").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, _, _ = c.Lock("busy").Lock(ctx) // nobody releases it but the restart
	}()
	t.Cleanup(func() { cancel(); <-waited })
	redistest.Eventually(t, "it waits", func() error {
		if c.Stats().Waiting != 1 {
			return errors.New("nobody waits")
		}
		return nil
	})
}

// acquireMany has c acquire that many locks, and returns the contexts of its holds.
func acquireMany(t *testing.T, c *mortise.Client, n int) []context.Context {
	t.Helper()
	const workers = 32
	ends := make([]context.Context, n)
	var all sync.WaitGroup
	for first := range workers {
		all.Go(func() {
			for i := first; i < n; i += workers {
				_, ctx, err := c.Lock("job:" + strconv.Itoa(i)).TryLock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				ends[i] = ctx
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ends
}
