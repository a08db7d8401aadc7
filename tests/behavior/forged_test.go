package behavior

// What messages can do that nobody had a reason to send. A user that may publish
// and list channels knows the channels of clients, and so their UUIDs.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// turnChannels returns the channels on which clients are told of their turns, with the
// UUID of each.
func turnChannels(t *testing.T, s *memredis.Server) map[string]string {
	t.Helper()
	channels := make(map[string]string)
	v := do(t, s, "PUBSUB", "CHANNELS", "mortise:turn:*")
	for i := range v.Len() {
		channel := v.At(i).Str()
		channels[channel] = channel[strings.LastIndexByte(channel, ':')+1:]
	}
	return channels
}

// A message that names an id makes no hold, whatever the id: one that a forger can
// guess, that of an earlier lease, or that of the holder.
func TestForgedGrantIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Lock", "FencedLock"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				k := kinds[name]
				holder, _ := open(t, s, nil)
				c, f := open(t, s, nil)
				former := mustTake(t, k.Open(c, "job", mortise.LockOptions{}))
				mustUnlock(t, former)
				block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
				got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				time.Sleep(1500 * time.Millisecond) // it has its turn
				channels := turnChannels(t, s)
				if len(channels) != 1 {
					t.Fatalf("clients listen to %v, want one channel", channels)
				}
				for channel, client := range channels {
					ids := []string{former.Owner(), block.Owner(), "x", ""}
					for serial := range 200 {
						ids = append(ids, fmt.Sprintf("%s:%d", client, serial))
					}
					for _, id := range ids {
						do(t, s, "PUBLISH", channel, id+" 1")
					}
				}
				synctest.Wait()
				select {
				case hold := <-got:
					t.Fatalf("a waiter has the hold %s by a forged message, while %s has the lock", hold.Owner(), block.Owner())
				default:
				}
				if !block.Valid() {
					t.Error("the holder has lost the lock")
				}
				before := f.Total()
				mustUnlock(t, block)
				hold := <-got
				if n := f.Total() - before; n > 1 { // a FencedLock asks for its token
					t.Errorf("the next took %d scripts after the release, want a grant", n)
				}
				wantTrusted(t, s, hold)
				mustUnlock(t, hold)
				wantEmpty(t, s)
			})
		})
	}
}

// A message that names the very id with which a client is asking makes it release
// nothing.
func TestForgedGrantReleasesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		// The client listens to its channel for a moment after a wait.
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		got := later(t, t.Context(), k)
		mustUnlock(t, block)
		mustUnlock(t, <-got)
		channels := turnChannels(t, s)
		if len(channels) != 1 {
			t.Fatalf("clients listen to %v, want one channel", channels)
		}
		thaw := make(chan struct{})
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "lock_acquire" {
				<-thaw // the reply is on its way
			}
			return nil
		})
		var hold *mortise.Hold
		var all sync.WaitGroup
		all.Go(func() { hold, _, _ = k.TryLock(t.Context()) })
		synctest.Wait()
		owner := do(t, s, "HKEYS", "job").At(0).Str()
		for channel := range channels {
			do(t, s, "PUBLISH", channel, owner+" 1")
		}
		time.Sleep(time.Millisecond)
		f.Set(nil, nil)
		close(thaw)
		all.Wait()
		if hold == nil || !hold.Valid() {
			t.Fatalf("the client has the hold %v, want the lock", hold)
		}
		if _, _, err := other.Lock("job").TryLock(t.Context()); err == nil {
			t.Error("another client has the lock, too")
		}
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}

// However many messages come, and whatever they say, a client asks Redis at a
// bounded rate, whether somebody waits there or has just stopped to.
func TestFloodOfForgedMessages(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		for _, message := range []string{"?", "~", "x", "x 1", "%s:7 1", "0"} {
			t.Run(fmt.Sprintf("%q, waits: %v", message, waits), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					holder, _ := open(t, s, nil)
					c, f := open(t, s, nil)
					block, _ := mustLock(t, holder.Lock("job"), t.Context())
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					got := later(t, ctx, c.Lock("job"))
					time.Sleep(1500 * time.Millisecond)
					if !waits {
						cancel()
						<-got
						synctest.Wait()
					}
					before := f.Total()
					const seconds, rate = 2, 1000
					for channel, client := range turnChannels(t, s) {
						text := message
						if strings.Contains(text, "%s") {
							text = fmt.Sprintf(text, client)
						}
						for range seconds * rate { // one by one: those of one instant are one hint
							do(t, s, "PUBLISH", channel, text)
							do(t, s, "PUBLISH", keyspace.LockChannel("job"), "0")
							time.Sleep(time.Second / rate)
						}
					}
					if n, most := f.Total()-before, seconds*220; n > most {
						t.Errorf("%d scripts for %d messages, want %d at most", n, seconds*rate, most)
					}
					if !waits {
						mustUnlock(t, block)
						wantEmpty(t, s)
						return
					}
					start := time.Now()
					mustUnlock(t, block)
					hold := <-got
					if d := time.Since(start); d > 100*time.Millisecond {
						t.Errorf("the waiter has the lock after %v, want soon", d)
					}
					mustUnlock(t, hold)
					wantEmpty(t, s)
				})
			})
		}
	}
}

// The names job and {job} are two locks, although Redisson derives the same names
// from both.
func TestNamesInBracesAreOtherLocks(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		if name == "FairLock" {
			continue // they share Redisson's queue
		}
		t.Run(name, func(t *testing.T) {
			for _, names := range [][2]string{{"job", "{job}"}, {"{job}", "job"}} {
				t.Run(names[0], func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						a, _ := open(t, s, nil)
						b, _ := open(t, s, nil)
						c, _ := open(t, s, nil)
						one := mustTake(t, k.Open(a, names[0], mortise.LockOptions{}))
						two := mustTake(t, k.Open(b, names[1], mortise.LockOptions{}))
						got := later(t, t.Context(), k.Open(c, names[1], mortise.LockOptions{}))
						time.Sleep(1500 * time.Millisecond)
						mustUnlock(t, one)
						time.Sleep(5 * time.Second)
						select {
						case hold := <-got:
							t.Fatalf("%s has %q at the same time as %s, by a release of %q", hold.Owner(), names[1], two.Owner(), names[0])
						default:
						}
						mustUnlock(t, two)
						hold := <-got
						wantState(t, a.Lock(names[0]), "", 0)
						mustUnlock(t, hold)
					})
				})
			}
		})
	}
}

// Messages that leave a free lock to Redisson's threads again and again keep nobody from it for long: they may be of another
// database, or forged.
func TestFloodThatLeavesTheLock(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		for _, pause := range []time.Duration{3 * time.Millisecond, 7 * time.Millisecond, 15 * time.Millisecond} {
			t.Run(fmt.Sprintf("each %v, on its own channel: %v", pause, own), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					javaLock.listen(t, s, "job")
					c, _ := open(t, s, nil)
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					var flood sync.WaitGroup
					flood.Go(func() {
						for ctx.Err() == nil {
							if own {
								for channel := range turnChannels(t, s) {
									do(t, s, "PUBLISH", channel, "~")
								}
							} else {
								do(t, s, "PUBLISH", keyspace.LockChannel("job"), "000")
							}
							time.Sleep(pause)
						}
					})
					longest, start := time.Duration(0), time.Now()
					for time.Since(start) < 10*time.Second {
						began := time.Now()
						hold, _, err := c.Lock("job").Lock(ctx)
						if err != nil {
							t.Error(err)
							break
						}
						longest = max(longest, time.Since(began))
						time.Sleep(2 * time.Millisecond)
						mustUnlock(t, hold)
					}
					cancel()
					flood.Wait()
					if longest > 100*time.Millisecond {
						t.Errorf("it has waited for %v, want 100ms at most", longest)
					}
				})
			})
		}
	}
}
