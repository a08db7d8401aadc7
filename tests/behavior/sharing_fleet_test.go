package behavior

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// wantShare checks which part of all holds one of the sides had, beside an even one.
func wantShare(t *testing.T, who string, had, others, clients, rivals int) {
	t.Helper()
	share, even := float64(had)/float64(had+others), float64(clients)/float64(clients+rivals)
	if t.Logf("%s had it %d times of %d", who, had, had+others); share < even/2 {
		t.Errorf("the share of %s is %.2f of an even one, want half at least", who, share/even)
	}
}

// A client that has died while it waited has no turn: neither is the lock left to Redisson's threads with its turn as the first.
func TestDeadWaitersKeepNoTurn(t *testing.T) {
	t.Parallel()
	for _, fleet := range chosen([]struct{ gos, javas int }{{2, 1}, {2, 2}, {4, 4}}, 0, 1) {
		for _, dead := range chosen([]int{1, 2, 3}, 0, 2) {
			t.Run(fmt.Sprintf("%d clients and %d of Redisson's, %d dead", fleet.gos, fleet.javas, dead), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					before, after := minuteOfFleet(t, s, "job", fleet.gos, fleet.javas, 0), minuteOfFleet(t, s, "job:2", fleet.gos, fleet.javas, dead)
					if t.Logf("mortise had it %d times, and %d times behind the dead", before, after); after < before*9/10 {
						t.Errorf("behind dead waiters mortise's clients had it %d times, and %d times without these", after, before)
					}
				})
			})
		}
	}
}

// minuteOfFleet returns how often mortise's clients have a lock in a minute, behind so many that have died while they waited.
func minuteOfFleet(t *testing.T, s *memredis.Server, name string, gos, javas, dead int) (had int) {
	t.Helper()
	const hold = 20 * time.Millisecond
	var threads []*javaProcess
	for range javas {
		threads = append(threads, javaLock.listen(t, s, name))
	}
	synctest.Wait()
	do(t, s, "HSET", name, "b2000000-0000-4000-8000-000000000002:99", "1")
	do(t, s, "PEXPIRE", name, "60000")
	var all sync.WaitGroup
	for range dead {
		gone := &faults{Driver: s.Driver()}
		c := mortise.New(gone, nil)
		all.Go(func() { _, _, _ = c.Lock(name).Lock(t.Context()) })
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond) // it has asked again, as a client that listens
		gone.Set(func(context.Context, string) error { return errCut }, nil)
		_ = c.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range clients(t, s, gos, nil) {
		all.Go(func() {
			for {
				h, _, err := c.Lock(name).Lock(ctx)
				if err != nil {
					return
				}
				had++ // guarded by the lock
				time.Sleep(hold)
				mustUnlock(t, h)
				time.Sleep(5 * hold)
			}
		})
	}
	for i, java := range threads {
		for j := range 2 {
			all.Go(func() { java.run(ctx, t, 10*i+j, func(time.Duration) { time.Sleep(hold) }) })
		}
	}
	time.Sleep(3 * time.Second)
	do(t, s, "DEL", name)
	do(t, s, "PUBLISH", keyspace.LockChannel(name), "0")
	time.Sleep(time.Minute)
	cancel()
	all.Wait()
	return had
}

// Clients that do something else between two holds have their part beside Redisson's, although only the first of those that take
// turns listen where Redisson's do.
func TestShareOfClientsThatPause(t *testing.T) {
	t.Parallel()
	const hold = 20 * time.Millisecond
	for _, fleet := range chosen([]struct{ gos, javas, pause int }{{2, 2, 2}, {4, 4, 1}, {4, 4, 2}, {4, 4, 5}, {8, 4, 2}, {8, 4, 5}, {4, 2, 2}, {8, 1, 2}}, 0, 3, 5) {
		t.Run(fmt.Sprintf("%d clients and %d of Redisson's, pauses of %d holds", fleet.gos, fleet.javas, fleet.pause), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				var threads []*javaProcess
				for range fleet.javas {
					threads = append(threads, javaLock.listen(t, s, "job"))
				}
				synctest.Wait()
				var all sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				javas, gos := 0, 0 // guarded by the lock
				for i, c := range clients(t, s, fleet.gos, nil) {
					rnd := rand.New(rand.NewPCG(uint64(i), 1))
					all.Go(func() {
						for {
							h, _, err := c.Lock("job").Lock(ctx)
							if err != nil {
								return
							}
							gos++
							time.Sleep(hold)
							mustUnlock(t, h)
							time.Sleep(time.Duration((0.5 + rnd.Float64()) * float64(fleet.pause) * float64(hold)))
						}
					})
				}
				for i, java := range threads {
					for j := range 2 {
						all.Go(func() { java.run(ctx, t, 10*i+j, func(time.Duration) { javas++; time.Sleep(hold) }) })
					}
				}
				time.Sleep(time.Minute)
				cancel()
				all.Wait()
				wantShare(t, "mortise", gos, javas, fleet.gos, fleet.javas)
				wantShare(t, "Redisson", javas, gos, fleet.javas, fleet.gos)
			})
		})
	}
}

// Redisson's threads have their part of a lock without turns also if each of its holders takes other locks, so that only every
// second owner of a client, or every third, is one of this lock.
func TestShareDoesNotDependOnOtherLocks(t *testing.T) {
	t.Parallel()
	for _, n := range chosen([]int{2, 4}, 0) {
		for _, others := range chosen([]int{0, 1, 2, 3}, 0, 1, 2) {
			for _, inside := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d clients, %d other locks, inside=%v", n, others, inside), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						java := javaRW.listen(t, s, "job")
						synctest.Wait()
						const hold = 20 * time.Millisecond
						ctx, cancel := context.WithCancel(t.Context())
						var all sync.WaitGroup
						javas, gos := 0, 0 // guarded by the lock
						for i, c := range clients(t, s, n, nil) {
							rest := func() {
								for j := range others {
									if h, _, err := c.Lock(fmt.Sprintf("own:%d:%d", i, j)).Lock(t.Context()); err != nil {
										t.Error(err)
									} else {
										mustUnlock(t, h)
									}
								}
							}
							all.Go(func() {
								for {
									if !inside {
										rest()
									}
									h, _, err := c.RWLock("job").Write().Lock(ctx)
									if err != nil {
										return
									}
									gos++
									if inside {
										rest()
									}
									time.Sleep(hold)
									mustUnlock(t, h)
									time.Sleep(200 * time.Microsecond)
								}
							})
						}
						for i := range 4 {
							all.Go(func() { java.run(ctx, t, i, func(time.Duration) { javas++; time.Sleep(hold) }) })
						}
						time.Sleep(20 * time.Second)
						cancel()
						all.Wait()
						wantShare(t, "Redisson", javas, gos, 1, n)
						wantShare(t, "mortise", gos, javas, n, 1)
					})
				})
			}
		}
	}
}
