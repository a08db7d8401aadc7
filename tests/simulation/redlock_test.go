package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// All that can go wrong at once, but that fewer than half of the servers forget:
// no two holds are valid at the same time, and nothing stays.
func TestRedlockSimulation(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			synctest.Test(t, func(t *testing.T) {
				var servers []*mortisetest.Server
				for range 3 + 2*(seed%2) {
					s := mortisetest.NewServer()
					defer s.Close()
					servers = append(servers, s)
				}
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
				for i, s := range servers {
					if left, err := left(t.Context(), s, false); err != nil || len(left) > 0 {
						t.Errorf("%q are left on server %d: %v", left, i, err)
					}
				}
			})
		})
	}
}

// redlockClients returns a client for each server, some of them on bad networks.
func redlockClients(servers []*mortisetest.Server, pick func(n int) int) []*mortise.Client {
	var clients []*mortise.Client
	for _, s := range servers {
		l := s.Link()
		switch script := []string{"lock_acquire", "lock_release", "lock_renew"}[pick(3)]; pick(6) {
		case 0:
			l.Next(script, 1+pick(3), mortisetest.Fault{Lose: mortisetest.Reply})
		case 1:
			l.Next(script, 1+pick(3), mortisetest.Fault{Lose: mortisetest.Request})
		case 2:
			l.Partition()
		case 3:
			delay := time.Duration(pick(100)) * time.Millisecond
			l.OnCall(func(string) mortisetest.Fault { return mortisetest.Fault{Before: delay} })
		}
		clients = append(clients, mortise.New(l, &mortise.Options{TTL: 2 * time.Second, RetryFor: 3 * time.Second}))
	}
	return clients
}
