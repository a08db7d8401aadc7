package mortisetest_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// A history may be looked at while it is recorded, whatever is asked: what a call has begun is
// whole when others see it. The race detector is the judge.
func TestHistoryIsLookedAtMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		h := mortisetest.NewHistory()
		h.Latency = 400 * time.Millisecond
		h.SetPermits("permits", 3)
		setUp := mortise.New(s.Link(), nil)
		defer setUp.Close()
		if err := setUp.PermitSemaphore("permits").SetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Latch("set up", setUp.CountDownLatch("latch")).TrySetCount(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Semaphore("set up", setUp.Semaphore("semaphore")).TrySetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var all, look sync.WaitGroup
		done := make(chan struct{})
		for i := range 3 {
			all.Go(func() {
				l := s.Link()
				l.OnCall(func(string) mortisetest.Fault { return mortisetest.Fault{Before: 400 * time.Millisecond} })
				c := mortise.New(l, nil)
				defer c.Close()
				visit(t, h, fmt.Sprint("client ", i), c)
			})
		}
		look.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(700 * time.Millisecond):
					_, _ = h.Len()
					_ = h.String()
					if err := h.Err(); err != nil {
						t.Error(err)
					}
				}
			}
		})
		all.Wait()
		close(done)
		look.Wait()
		h.Check(t)
	})
}

// Two clients are two owners, for the history as for mortise, although their contexts carry the same
// one. Here each has its own server, so that nothing keeps them apart.
func TestOneOwnerOfTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mortisetest.NewHistory()
		ctx := mortisetest.WithOwner(t.Context())
		var holds []*mortisetest.Hold
		for _, name := range []string{"a", "b"} {
			s := mortisetest.NewServer()
			defer s.Close()
			c := mortise.New(s.Link(), nil)
			defer c.Close()
			hold, lctx, err := h.Lock(ctx, name, c.Lock("job"))
			if err != nil {
				t.Fatal(err)
			}
			inner, _, err := h.Lock(lctx, name, c.Lock("job"))
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, hold, inner)
		}
		time.Sleep(time.Second)
		for _, hold := range holds {
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if h.Err() == nil {
			t.Error("two clients have had one lock at once, and the history is right")
		}
	})
}
