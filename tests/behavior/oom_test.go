package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// A waiter pauses between two attempts, since Redis refuses them, as when it is out
// of memory. It is granted the lock meanwhile, which ends the pause.
func TestGrantEndsThePauseOfAnAttempt(t *testing.T) {
	t.Parallel()
	errMemory := &driver.Error{Class: driver.Passing, Err: errors.New("OOM command not allowed when used memory > 'maxmemory'")}
	for what, refused := range map[string]func(k kind) string{
		"acquire": func(k kind) string { return k.Acquire },
		"tend":    func(kind) string { return "fair_tend" },
	} {
		t.Run(what, func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				holder, _ := open(t, s, nil)
				forger := &forgery{Driver: s.Driver()}
				defer forger.Close()
				for i := range 20 {
					c, f := open(t, s, nil)
					block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
					got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
					asked := f.Count(refused(k))
					f.Set(func(_ context.Context, name string) error {
						if name == refused(k) {
							return errMemory
						}
						return nil
					}, nil)
					// A hint makes a fair waiter ask, which a Lock's does once a second.
					for _, queued := range queueOf(t, holder) {
						client, _, _ := strings.Cut(queued, ":")
						forger.publish(t, keyspace.FairTurnChannel("job", client), "?"+queued)
					}
					for f.Count(refused(k)) < asked+8 {
						time.Sleep(10 * time.Millisecond)
						if what == "tend" && k.Acquire != "fair_acquire" {
							break // it tends nothing
						}
					}
					synctest.Wait()
					if i%2 == 0 {
						f.Set(nil, nil) // else it is refused for as long as it asks
					}
					from := time.Now()
					mustUnlock(t, block)
					hold := <-got
					f.Set(nil, nil)
					if d := time.Since(from); d > 0 {
						t.Errorf("the waiter has the lock after %v, want at once", d)
					}
					mustUnlock(t, hold)
					_ = c.Close()
				}
			})
		})
	}
}
