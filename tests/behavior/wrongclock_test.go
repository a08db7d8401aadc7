package behavior

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// Leases are of the server's clock: a client whose own clock is two hours off keeps others out for
// its lease, and no longer.
func TestClientWhoseClockIsWrong(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		for name, k := range holdables() {
			t.Run(off.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := mortisetest.NewServer()
					defer s.Close()
					s.Jump(-off) // the clocks of the clients are those of the bubble
					c, other := mortise.New(s.Link(), nil), mortise.New(s.Link(), nil)
					defer c.Close()
					defer other.Close()
					ctx, _, err := k(t.Context(), c, mortise.LockOptions{TTL: 10 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					next := make(chan time.Time, 1)
					go func() { next <- k.next(t, name, other) }()
					select {
					case <-next:
						t.Fatal("two hold it at once")
					case <-time.After(25 * time.Second):
					}
					if ctx.Err() != nil {
						t.Error("it was lost while it was renewed")
					}
					died := time.Now()
					_ = c.Close()
					if d := (<-next).Sub(died); d < 5*time.Second || d > 10*time.Second+slack(name) {
						t.Errorf("the next had it %v after the client died, want a lease of 10s at most", d)
					}
				})
			})
		}
	}
}
