package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// All that can go wrong at once, but that fewer than half of the servers forget:
// no two holds are valid at the same time, and nothing stays.
func TestRedlockSimulation(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			several(t, 3+2*int(seed%2), func(t *testing.T, servers []*memredis.Server) {
				var mu sync.Mutex // guards holder and got
				var holder *mortise.Hold
				got := 0
				var all sync.WaitGroup
				for i := range uint64(4) {
					all.Go(func() {
						pick := rand.New(rand.NewPCG(seed, i)).IntN
						for range 6 {
							clients := redlockClients(servers, pick)
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+pick(6000))*time.Millisecond)
							hold, _, err := mortise.NewRedlock("job", clients...).Lock(ctx)
							if err == nil {
								mu.Lock()
								if holder != nil && holder.Valid() && hold.Valid() {
									t.Error("there are two valid holders")
								}
								holder = hold
								got++
								mu.Unlock()
								time.Sleep(time.Duration(pick(1000)) * time.Millisecond)
								if pick(5) > 0 {
									_ = hold.Unlock()
								}
							}
							cancel()
							for _, c := range clients {
								_ = c.Close()
							}
						}
					})
				}
				all.Wait()
				if got == 0 {
					t.Error("nobody ever had the lock")
				}
				time.Sleep(time.Minute)
				if n := on(t, servers); n != 0 {
					t.Errorf("it is still on %d servers, want 0", n)
				}
			})
		})
	}
}

// redlockClients returns a client for each server, some of them on bad networks.
func redlockClients(servers []*memredis.Server, pick func(n int) int) []*mortise.Client {
	var clients []*mortise.Client
	for _, s := range servers {
		f := &faults{Driver: s.Driver()}
		switch script := []string{"lock_acquire", "lock_release", "lock_renew"}[pick(3)]; pick(6) {
		case 0:
			f.Set(nil, loseReplies(script, 1+pick(3)))
		case 1:
			f.Set(loseReplies(script, 1+pick(3)), nil)
		case 2:
			f.Set(hang, nil)
		case 3:
			delay := time.Duration(pick(100)) * time.Millisecond
			f.Set(func(context.Context, string) error { time.Sleep(delay); return nil }, nil)
		}
		clients = append(clients, mortise.New(f, &mortise.Options{TTL: 2 * time.Second, RetryFor: 3 * time.Second}))
	}
	return clients
}
