package behavior

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// The names job and {job} are two locks, for which Redisson has one queue. Its
// waiters are in it together, and each lock goes to its own.
func TestFairLocksThatShareAQueue(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"job", "{job}"}, {"{job}", "job"}} {
		t.Run(names[0], func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				mine, theirs := names[0], names[1]
				if keyspace.FairQueue(mine) != keyspace.FairQueue(theirs) {
					t.Fatal("the names do not share a queue")
				}
				cs := clients(t, s, 3, nil)
				wait := func(c *mortise.Client, name string) <-chan *mortise.Hold {
					got := make(chan *mortise.Hold, 1)
					go func() {
						hold, _, err := c.FairLock(name).Lock(t.Context())
						if err != nil {
							t.Error(err)
						}
						got <- hold
					}()
					synctest.Wait()
					return got
				}
				a := mustTake(t, cs[0].FairLock(mine))
				b := mustTake(t, cs[1].FairLock(theirs))
				stranger := wait(cs[2], theirs)
				next := wait(cs[2], mine)
				start := time.Now()
				mustUnlock(t, a) // the head of the queue waits for the other lock
				hold := <-next
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("a waiter for the other lock delayed the next by %v, want %v at most", d, 10*time.Millisecond)
				}
				if len(stranger) != 0 {
					t.Fatalf("a waiter for %s has it, while another has it, because %s was released", theirs, mine)
				}
				wantTrusted(t, s, hold)
				mustUnlock(t, hold)
				// Without a waiter of its own the lock is free for all.
				mustUnlock(t, mustTake(t, cs[0].FairLock(mine)))
				if hold, _, err := cs[1].FairLock(mine).TryLock(t.Context()); err != nil {
					t.Errorf("TryLock of a free lock: %v", err)
				} else {
					mustUnlock(t, hold)
				}
				time.Sleep(30 * time.Second)
				if len(stranger) != 0 || !b.Valid() {
					t.Fatalf("a waiter for %s has it, while another has it", theirs)
				}
				start = time.Now()
				mustUnlock(t, b)
				mustUnlock(t, <-stranger)
				if d := time.Since(start); d > 10*time.Millisecond {
					t.Errorf("the one at the head had the lock after %v, want %v at most", d, 10*time.Millisecond)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// Its client died: it is in the way of Redisson's threads, which drop it when its
// deadline has passed. So does mortise.
func TestFairDeadWaiterForALockThatSharesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		dead, f := open(t, s, nil)
		block := mustTake(t, c.FairLock("{job}"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _, _ = dead.FairLock("{job}").Lock(ctx) }()
		synctest.Wait()
		f.Set(func(context.Context, string) error { return errCut }, nil)
		if err := dead.Close(); err != nil {
			t.Error(err)
		}
		mustUnlock(t, block)
		held := fairly(t, c)
		l := &line{t: t}
		l.join(t.Context(), c, 1, 0)
		time.Sleep(11 * time.Second)
		if queue := queueOf(t, c); len(queue) != 1 {
			t.Errorf("the queue is %v, want only the one that lives", queue)
		}
		mustUnlock(t, held)
		l.want(1)
		wantEmpty(t, s)
	})
}

// A waiter whose wait is about to end keeps its place until then, although others drop what they do
// not know when its deadline has passed.
func TestFairPlaceNearTheEndOfAWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 4, nil)
		held, others := fairly(t, cs[0]), mustTake(t, cs[1].FairLock("{job}"))
		l := &line{t: t}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		l.join(ctx, cs[2], 1, 0)
		l.join(t.Context(), cs[3], 2, 0)
		stranger := make(chan error, 1)
		go func() {
			stranger <- cs[3].FairLock("{job}").Do(t.Context(), func(context.Context) error { return nil })
		}()
		time.Sleep(11500 * time.Millisecond)
		mustUnlock(t, held)
		l.want(1, 2)
		mustUnlock(t, others)
		if err := <-stranger; err != nil {
			t.Error(err)
		}
		wantEmpty(t, s)
	})
}
