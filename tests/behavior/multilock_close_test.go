package behavior

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A client that is closed while a MultiLock is being acquired releases the locks that it has
// already: no caller works under them. It leaves one that the owner held before. The slots of the
// names make "a" the last one.
func TestMultiLockThatIsNotFormedIsReleasedByClose(t *testing.T) {
	for kind, of := range map[string]func(c *mortise.Client, name string) mortise.Locker{
		"Lock":     func(c *mortise.Client, name string) mortise.Locker { return c.Lock(name) },
		"FairLock": func(c *mortise.Client, name string) mortise.Locker { return c.FairLock(name) },
		"Write":    func(c *mortise.Client, name string) mortise.Locker { return c.RWLock(name).Write() },
		"Read":     func(c *mortise.Client, name string) mortise.Locker { return c.RWLock(name).Read() },
	} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				other, _ := open(t, s, nil)
				var c *mortise.Client
				var closing sync.WaitGroup
				had := false
				d := &hook{Driver: s.Driver()}
				d.eval = func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
					if len(call.Keys) == 0 || call.Keys[0] != "a" || c == nil {
						return driver.Value{}, nil, false
					}
					st, _ := other.Lock("first").Inspect(context.Background())
					had = st.Locked
					closing.Go(func() { _ = c.Close() })
					time.Sleep(100 * time.Millisecond) // meanwhile the client ends its leases
					return driver.Value{}, driver.ReplyError(errCut, "ERR closed"), true
				}
				defer d.Close()
				c = mortise.New(d, nil)
				owner := mortise.WithOwner(t.Context())
				if _, _, err := c.Lock("before").Lock(owner); err != nil {
					t.Fatal(err)
				}
				_, _, err := mortise.NewMultiLock(of(c, "first"), c.Lock("before"), c.FencedLock("a")).Lock(owner)
				closing.Wait()
				if !had || err == nil {
					t.Fatalf("not the schedule intended: %v, %v", had, err)
				}
				time.Sleep(2 * time.Second)
				if st, err := other.Lock("first").Inspect(t.Context()); err != nil || st.Locked {
					t.Errorf("%s lasts for another %v (%v), want free", kind, st.TTL, err)
				}
				if st, err := other.Lock("before").Inspect(t.Context()); err != nil || !st.Locked {
					t.Errorf("the lock that was held before is free (%v), want held until its lease ends", err)
				}
			})
		})
	}
}
