package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// All that can go wrong at once: clients that die, callers that give up, replies
// that are lost. No lock has two valid holds, and nothing stays.
func TestMultiLockSimulation(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			bubble(t, func(t *testing.T, s *memredis.Server) {
				var mu sync.Mutex // guards holders
				holders := map[string]*mortise.Hold{}
				names := []string{"a", "b", "c", "d"}
				var all sync.WaitGroup
				for i := range uint64(6) {
					all.Go(func() {
						pick := rand.New(rand.NewPCG(seed, i)).IntN
						for range 12 {
							f := &faults{Driver: s.Driver()}
							c := mortise.New(f, &mortise.Options{TTL: 2 * time.Second})
							d := mortise.New(s.Driver(), &mortise.Options{TTL: 2 * time.Second})
							i, j := pick(4), pick(4)
							m := multi(c, names[i], names[j])
							if pick(2) == 0 {
								m = mortise.NewMultiLock(c.Lock(names[i]), d.Lock(names[j]), c.Lock(names[(j+1)%4]))
							}
							if pick(3) == 0 {
								m = m.With(mortise.LockOptions{MaxHold: time.Duration(1+pick(1000)) * time.Millisecond})
							}
							script := []string{"multi_acquire", "multi_release", "lock_acquire", "lock_release", "lock_renew"}[pick(5)]
							if pick(2) == 0 {
								f.Set(nil, loseReplies(script, 1+pick(3)))
							}
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+pick(10000))*time.Millisecond)
							hold, _, err := m.Lock(ctx)
							if err == nil {
								mu.Lock()
								for _, name := range strings.Split(m.Name(), ", ") {
									if before := holders[name]; before != nil && before.Valid() && hold.Valid() {
										t.Errorf("%s has two valid holders", name)
									}
									holders[name] = hold
								}
								mu.Unlock()
								time.Sleep(time.Duration(pick(1500)) * time.Millisecond)
								if pick(5) > 0 {
									_ = hold.Unlock()
								}
							}
							cancel()
							_ = c.Close()
							_ = d.Close()
						}
					})
				}
				all.Wait()
				wantEmpty(t, s)
			})
		})
	}
}
