package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestRealSemaphore(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const permits = 3
		p := redistest.NewProxy(t, s.Addr())
		releaser := dial(s.Addr(), nil)
		sem := permitted(t, releaser, "job", permits)

		// Nobody has more than there are, over real connections.
		var out atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			c := dial(s.Addr(), nil)
			for i := range 4 {
				all.Go(func() {
					n := 1 + i%permits
					for range 10 {
						err := c.Semaphore("job").Do(t.Context(), n, func(context.Context) error {
							if now := out.Add(int32(n)); now > permits {
								t.Errorf("%d permits are out, want %v at most", now, permits)
							}
							out.Add(int32(-n))
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		wantAvailable(t, sem, permits)

		// The connection is cut after the script ran.
		c := dial(p.Addr(), nil)
		cutOff := c.Semaphore("job")
		mustAcquire(t, cutOff, 1) // every script is known to the server from here on
		mustRelease(t, cutOff, 1)
		cut := p.LoseReply("job", 1)
		mustAcquire(t, cutOff, 2)
		<-cut
		wantAvailable(t, sem, permits-2)
		cut = p.LoseReply("job", 1)
		mustRelease(t, cutOff, 2)
		<-cut
		wantAvailable(t, sem, permits)

		// The waiter is woken.
		mustAcquire(t, sem, permits)
		waiting := acquireLater(t.Context(), cutOff, permits)
		redistest.Eventually(t, "a claim", func() error {
			if s.Int(t, "EXISTS", "mortise:claim:{job}") == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		mustRelease(t, sem, permits)
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}
