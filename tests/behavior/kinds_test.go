package behavior

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestEachKindExcludes(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		inside, got := 0, 0
		var all sync.WaitGroup
		for range 3 {
			c, _ := open(t, s, nil)
			for range 5 {
				all.Go(func() {
					for range 4 {
						err := k.Open(c, "job", mortise.LockOptions{}).Do(t.Context(), func(ctx context.Context) error {
							if inside++; inside != 1 { // unprotected but for the lock
								t.Errorf("%d are inside", inside)
							}
							time.Sleep(10 * time.Millisecond)
							inside--
							got++
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		start := time.Now()
		all.Wait()
		if d, least := time.Since(start), 60*10*time.Millisecond; got != 60 || d > least+2*time.Second {
			t.Errorf("%d turns in %v, want 60 in little more than %v", got, d, least)
		}
		wantEmpty(t, s)
	})
}

func TestEachKindReenters(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		lock := k.Open(c, "job", mortise.LockOptions{})
		outer, ctx, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, lost := range []int{0, 1, 3} { // replies
			f.Set(nil, loseReplies(k.Reenter, lost))
			inner, _, err := lock.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if inner.Owner() != outer.Owner() {
				t.Errorf("a re-entry is held by %s, want %s", inner.Owner(), outer.Owner())
			}
			if _, _, err := k.Open(other, "job", mortise.LockOptions{}).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("TryLock of another: %v, want ErrLocked", err)
			}
			f.Set(nil, loseReplies(k.Leave, lost))
			mustUnlock(t, inner)
		}
		if _, _, err := lock.TryLock(mortise.Detach(ctx)); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock of a detached context: %v, want ErrLocked", err)
		}
		if _, _, err := k.Open(c, "job", mortise.LockOptions{NonReentrant: true}).Lock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("Lock without re-entry: %v, want ErrReentry", err)
		}
		mustUnlock(t, outer)
		if _, _, err := k.Open(other, "job", mortise.LockOptions{}).TryLock(t.Context()); err != nil {
			t.Errorf("TryLock of a released lock: %v", err)
		}
	})
}

// A reply can be lost after the script ran, or its only copy may never arrive.
func TestEachKindSurvivesLostRepliesAndRequests(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		lock, rival := k.Open(c, "job", mortise.LockOptions{}), k.Open(other, "job", mortise.LockOptions{})
		for _, lost := range losses {
			for attempt, take := range map[string]func(context.Context) (*mortise.Hold, context.Context, error){
				"Lock": lock.Lock, "TryLock": lock.TryLock,
			} {
				lost.Set(f, k.Acquire)
				start := time.Now()
				hold, ctx, err := take(t.Context())
				if err != nil {
					t.Fatalf("%s with %v: %v", attempt, lost, err)
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("%s with %v took %v, want %v at most", attempt, lost, d, time.Second)
				}
				if _, _, err := rival.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
					t.Errorf("TryLock of another: %v, want ErrLocked", err)
				}
				lost.Set(f, k.Release)
				if err := hold.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("Unlock with %v: %v, want nil or ErrUnknownOutcome", lost, err)
				}
				if ctx.Err() == nil {
					t.Error("the context outlived the hold")
				}
				f.Set(nil, nil)
				free, _, err := rival.TryLock(t.Context())
				if err != nil {
					t.Fatalf("TryLock after %v: %v", lost, err)
				}
				mustUnlock(t, free)
			}
		}
		wantEmpty(t, s)
	})
}

// A caller gives up while Redis has not answered, and its copy arrives late:
// the lock must not stay behind.
func TestEachKindGivesUpWithoutLeavingALock(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		lock, rival := k.Open(c, "job", mortise.LockOptions{}), k.Open(other, "job", mortise.LockOptions{})
		f.Set(nil, hang) // it runs, but its answer does not come
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, _, err := lock.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
			t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
		}
		f.Set(nil, nil)
		hold, _, err := rival.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("a lock nobody wants stayed for %v", d)
		}
		mustUnlock(t, hold)
	})
}

func TestEachKindEndsItsWaitWithTheContext(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block, _, err := k.Open(other, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		bored := errors.New("bored")
		var all sync.WaitGroup
		var seen atomic.Int32
		for range 20 {
			all.Go(func() {
				_, after, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx)
				if !errors.Is(err, bored) || !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled wait: %v, want the cause", err)
				}
				if errors.Is(err, mortise.ErrLocked) {
					seen.Add(1)
				}
				if after != ctx {
					t.Error("a failed Lock did not return the caller's context")
				}
			})
		}
		time.Sleep(3 * time.Second)
		start := time.Now()
		cancel(bored)
		all.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("the waits ended %v after the context, want 0", d)
		}
		if seen.Load() == 0 {
			t.Error("no wait said that the lock was held")
		}
		if _, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx); !errors.Is(err, bored) {
			t.Errorf("Lock with a dead context: %v, want its cause", err)
		}
		mustUnlock(t, block)
		wantEmpty(t, s)
	})
}

func TestEachKindEndsItsWaitWithTheClient(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		rival := k.Open(other, "job", mortise.LockOptions{})
		block, _, err := rival.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context()); !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a wait ended by Close: %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		mustUnlock(t, block)
		start := time.Now()
		again, _, err := rival.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("clients that are gone kept the lock from others for %v, want 0", d)
		}
		mustUnlock(t, again)
		wantEmpty(t, s)
	})
}

// A killed holder's lock is free when its lease has ended, and not before.
func TestEachKindFreesTheLockOfADeadHolder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		if _, _, err := k.Open(dead, "job", mortise.LockOptions{}).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := dead.Close(); err != nil { // abandons the hold, as a crash does
			t.Fatal(err)
		}
		c, _ := open(t, s, nil)
		start := time.Now()
		hold, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("a dead holder's lock was free after %v, want 7s", d)
		}
		mustUnlock(t, hold)
	})
}

// A holder that does not reach Redis any more is told before another can have
// the lock.
func TestEachKindLosesItsLeaseBeforeAnotherHasIt(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, &mortise.Options{TTL: 10 * time.Second})
		other, _ := open(t, s, nil)
		hold, ctx, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // renewed
		if !hold.Valid() || ctx.Err() != nil {
			t.Fatal("it was lost while it was renewed")
		}
		f.Set(hang, nil)
		next, _, err := k.Open(other, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() == nil || hold.Valid() || !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("another has the lock, and the holder's context says %v", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		f.Set(nil, nil)
		time.Sleep(time.Minute)
		if !next.Valid() {
			t.Error("the late unlock harmed the next holder")
		}
		mustUnlock(t, next)
	})
}

func TestEachKindWithAFixedLease(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, ctx, err := k.Open(c, "job", mortise.LockOptions{MaxHold: 5 * time.Second, Margin: time.Second}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-ctx.Done()
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("the context ended after %v, want 4s", d)
		}
		if _, _, err := k.Open(other, "job", mortise.LockOptions{}).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock in the margin: %v, want ErrLocked", err)
		}
		if _, _, err := k.Open(other, "job", mortise.LockOptions{}).Lock(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("another had the lock after %v, want 5s", d)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

func TestEachKindRefusesBadInput(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		for _, lock := range []taker{
			k.Open(c, "", mortise.LockOptions{}),
			k.Open(c, strings.Repeat("x", 513), mortise.LockOptions{}),
			k.Open(c, "a\x00b", mortise.LockOptions{}),
			k.Open(c, "\xff", mortise.LockOptions{}),
			k.Open(c, "{open", mortise.LockOptions{}),
			k.Open(c, "x{}y", mortise.LockOptions{}),
			k.Open(c, "mortise:x", mortise.LockOptions{}),
			k.Open(c, "job", mortise.LockOptions{MaxHold: -1}),
			k.Open(c, "job", mortise.LockOptions{MaxHold: time.Microsecond}),
			k.Open(c, "job", mortise.LockOptions{MaxHold: 1 << 62}),
			k.Open(c, "job", mortise.LockOptions{Margin: time.Hour}),
		} {
			_, _, err := lock.Lock(t.Context())
			_, _, terr := lock.TryLock(t.Context())
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) {
				t.Errorf("the name %.20q: %v and %v, want ErrInvalid", lock.Name(), err, terr)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent for bad input, want 0", n)
		}
	})
}

// Without a single message every wait ends by itself.
func TestEachKindWaitsWithoutMessages(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		wantWaits(t, s, k, mortise.New(deafDriver{s.Driver()}, nil))
	})
}

// So it does on a server that has no subscriptions at all, and the client says so once.
func TestEachKindWaitsOnAServerWithoutMessages(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		var told events
		wantWaits(t, s, k, mortise.New(muteDriver{s.Driver()}, &mortise.Options{Observer: &told}))
		if mute := told.of(mortise.EventMute); len(mute) != 1 || !errors.Is(mute[0].Err, errMute) {
			t.Errorf("told %v, want once that %v", mute, errMute)
		}
	})
}

// wantWaits has c wait for locks that another client holds, of whose releases it hears nothing.
func wantWaits(t *testing.T, s *memredis.Server, k kind, c *mortise.Client) {
	t.Helper()
	defer c.Close()
	other, _ := open(t, s, nil)
	for range 5 {
		block, _, err := k.Open(other, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantNoticed(t, block, 1100*time.Millisecond, k.Open(c, "job", mortise.LockOptions{}).Lock)
	}
}

// Two kinds under one name are told apart wherever the data show it: here, what
// is no hash.
func TestEachKindRefusesAnotherType(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, _ := open(t, s, nil)
		d := s.Driver()
		defer d.Close()
		set := driver.NewScript("set", "return redis.call('rpush', KEYS[1], 'x')")
		if _, err := d.Eval(t.Context(), driver.Call{Script: set, Keys: []string{"job"}}); err != nil {
			t.Fatal(err)
		}
		lock := k.Open(c, "job", mortise.LockOptions{})
		if _, _, err := lock.Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("Lock of a list: %v, want ErrWrongKind", err)
		}
		if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("TryLock of a list: %v, want ErrWrongKind", err)
		}
	})
}
