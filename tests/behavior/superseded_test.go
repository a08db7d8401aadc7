package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Another waiter of the same client may have the lock before the caller of Unlock
// learns that it was released. For a sibling of that caller nothing was lost: it waits
// for its turn.
func TestSiblingOfOneThatReleases(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]func(c *mortise.Client) taker{
		"FairLock":   func(c *mortise.Client) taker { return c.FairLock("job") },
		"FencedLock": func(c *mortise.Client) taker { return c.FencedLock("job") },
		"Lock with a lease": func(c *mortise.Client) taker {
			return c.Lock("job").With(mortise.LockOptions{MaxHold: time.Minute})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				owner := mortise.WithOwner(t.Context())
				first, _, err := lock(c).Lock(owner)
				if err != nil {
					t.Fatal(err)
				}
				next := later(t, t.Context(), lock(c))
				time.Sleep(time.Second)
				f.Set(nil, func(_ context.Context, name string) error {
					if name == "fair_release" || name == "lock_release" {
						time.Sleep(10 * time.Millisecond) // the reply is on its way
					}
					return nil
				})
				released := make(chan error, 1)
				go func() { released <- first.Unlock() }()
				time.Sleep(time.Millisecond)
				sibling := later(t, owner, lock(c)) // which fails the test if that is refused
				if err := <-released; err != nil {
					t.Errorf("Unlock: %v", err)
				}
				mustUnlock(t, <-next)
				if hold, ok := <-sibling; ok {
					mustUnlock(t, hold)
				}
				f.Set(nil, nil)
			})
		})
	}
}

// A Redlock whose context ends says so, with what was in the way if anything was.
func TestRedlockSaysThatItsContextHasEnded(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"no server answers", "it is held", "it is held by several", "it is held on two servers"} {
		t.Run(way, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				var clients, others []*mortise.Client
				var drivers []*faults
				for _, s := range servers {
					c, f := open(t, s, nil)
					way := time.Duration(len(clients)) * 130 * time.Microsecond
					f.Set(func(_ context.Context, name string) error {
						if time.Sleep(way); name == "lock_release" {
							time.Sleep(400 * time.Microsecond)
						}
						return nil
					}, nil)
					clients, drivers = append(clients, c), append(drivers, f)
					other, _ := open(t, s, nil)
					others = append(others, other)
				}
				switch way {
				case "no server answers":
					for _, f := range drivers {
						f.Set(hang, nil)
					}
				case "it is held":
					hold, _, err := mortise.NewRedlock("job", others...).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer hold.Unlock()
				case "it is held by several", "it is held on two servers":
					if way == "it is held on two servers" { // what the third one grants is released
						others = others[1:]
					}
					for _, c := range others {
						defer mustTake(t, c.Lock("job")).Unlock()
					}
				}
				for micros := range 300 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(micros)*10*time.Microsecond)
					_, _, err := mortise.NewRedlock("job", clients...).Lock(ctx)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("after %v: %v, want that the context has ended", time.Duration(micros)*10*time.Microsecond, err)
					}
					if strings.Contains(err.Error(), "PANIC") {
						t.Fatalf("the error cannot be printed: %v", err)
					}
				}
				for _, f := range drivers {
					f.Set(nil, nil)
				}
			})
		})
	}
}

// Redis has lost a lock, and gives it to another owner of the same client.
func TestLeaseEndsWhenItsClientIsGivenTheLockAnew(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		first, ctx := mustLock(t, c.Lock("job"), t.Context())
		do(t, s, "DEL", "job")
		second, _, err := c.Lock("job").TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if first.Valid() || ctx.Err() == nil {
			t.Errorf("the hold of the lost lease is valid: %v, and its context's error is %v", first.Valid(), ctx.Err())
		}
		if !second.Valid() {
			t.Error("the hold of the new lease is not valid")
		}
		mustUnlock(t, second)
	})
}

// A lease is handed to an owner of which another goroutine waits behind a stranger. That
// one can re-enter at once.
func TestSiblingOfOneThatIsHandedALeaseEnters(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		block := mustTake(t, c.Lock("job"))
		first := later(t, owner, c.Lock("job"))
		stranger := later(t, t.Context(), c.Lock("job"))
		sibling := later(t, owner, c.Lock("job"))
		mustUnlock(t, block)
		hold := <-first
		select {
		case second := <-sibling:
			mustUnlock(t, second)
		case <-time.After(time.Second):
			t.Error("the sibling does not have the lock after a second, want at once")
		}
		mustUnlock(t, hold)
		mustUnlock(t, <-stranger)
	})
}
