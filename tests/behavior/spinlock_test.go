package behavior

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

func TestSpinLockUsesNoMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a := mortise.New(deafDriver{s.Driver()}, nil) // receives nothing
		defer a.Close()
		b, f := open(t, s, nil)
		hold, _ := mustFence(t, b.SpinLock("job"), t.Context())
		start, got := time.Now(), make(chan *mortise.Hold)
		go func() {
			h, _, err := a.SpinLock("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		time.Sleep(9 * time.Second) // nothing is renewed just then
		before := f.Total()
		mustUnlock(t, hold)
		h := <-got
		if d := time.Since(start) - 9*time.Second; d > 128*time.Millisecond {
			t.Errorf("the release was noticed after %v, want 128ms at most", d)
		}
		mustUnlock(t, h)
		if n := f.Total() - before; n != 1 {
			t.Errorf("a release took %d scripts, want 1", n)
		}
	})
}

func TestSpinLockPausesAsItsBackoffSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change      func(k *mortise.SpinLock) *mortise.SpinLock
		least, most int // tries in ten seconds
	}{
		"default": {func(k *mortise.SpinLock) *mortise.SpinLock { return k }, 10_000 / 128, 10_000/64 + 10},
		"nil":     {func(k *mortise.SpinLock) *mortise.SpinLock { return k.WithBackoff(nil) }, 10_000 / 128, 10_000/64 + 10},
		"constant": {func(k *mortise.SpinLock) *mortise.SpinLock {
			return k.WithBackoff(mortise.ConstantBackoff(64 * time.Millisecond))
		}, 156, 160},
		"exponential": {func(k *mortise.SpinLock) *mortise.SpinLock {
			return k.WithBackoff(mortise.ExponentialBackoff(time.Second, 2*time.Second))
		}, 5, 12},
		"none": {func(k *mortise.SpinLock) *mortise.SpinLock { return k.WithBackoff(mortise.ConstantBackoff(-1)) }, 9_900, 10_010},
		"kept by With": {func(k *mortise.SpinLock) *mortise.SpinLock {
			return k.WithBackoff(mortise.ConstantBackoff(time.Second)).With(mortise.LockOptions{NonReentrant: true})
		}, 10, 12},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				a, _ := open(t, s, nil)
				b, f := open(t, s, nil)
				hold, _ := mustFence(t, a.SpinLock("job"), t.Context())
				var waiting sync.WaitGroup
				for range 3 { // of which one spins
					waiting.Go(func() {
						h, _, err := test.change(b.SpinLock("job")).Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						mustUnlock(t, h)
					})
				}
				time.Sleep(10 * time.Second)
				if n := f.Count("lock_acquire"); n < test.least || n > test.most {
					t.Errorf("%d tries in 10s, want %d to %d", n, test.least, test.most)
				}
				mustUnlock(t, hold)
				waiting.Wait()
			})
		})
	}
}

// Nothing tells a client that others find its spin lock held. It leaves the
// lock to them once in a while, so that they have their share.
func TestSpinLockIsLeftToOthers(t *testing.T) {
	t.Parallel()
	for _, held := range []time.Duration{20 * time.Millisecond, 6 * time.Second} {
		t.Run(held.String(), func(t *testing.T) { spinLockIsLeftToOthers(t, held) })
	}
}

func spinLockIsLeftToOthers(t *testing.T, held time.Duration) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		window := max(20*time.Second, 100*held)
		if *deep {
			window *= 2
		}
		var had [2]int
		var all sync.WaitGroup
		for i := range had {
			c, _ := open(t, s, nil)
			for range 2 {
				all.Go(func() {
					for start := time.Now(); time.Since(start) < window; {
						h, _, err := c.SpinLock("job").Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						had[i]++ // by one goroutine at a time: it has the lock
						time.Sleep(held)
						mustUnlock(t, h)
					}
				})
			}
		}
		all.Wait()
		sum := had[0] + had[1]
		if least := min(had[0], had[1]); least < sum/4 {
			t.Errorf("one client had %d of %d holds, want a quarter at least", least, sum)
		}
		if most := int(window / held); sum < most*8/10 {
			t.Errorf("%d holds, want eight tenths of %d at least: the lock was left free for too long", sum, most)
		}
	})
}

// Clients that have seen each other with a spin lock leave it to others more often
// than one that has seen nobody, so that the wait of one among many is not long.
func TestSpinLockGoesAround(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const window = 10 * time.Second
		var holder, changes int // by the goroutine that has the lock
		var all sync.WaitGroup
		for i := range 5 {
			c, _ := open(t, s, nil)
			all.Go(func() {
				for start := time.Now(); time.Since(start) < window; {
					h, _, err := c.SpinLock("job").Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if holder != i {
						holder, changes = i, changes+1
					}
					time.Sleep(20 * time.Millisecond)
					mustUnlock(t, h)
				}
			})
		}
		all.Wait()
		if changes < 36 { // with slices of 400 ms there are less than 30, with those of 200 ms about 46
			t.Errorf("the lock went to another client %d times in %v, want 36 at least", changes, window)
		}
	})
}

// A spin lock that others have a chance to take anyway is not left to them.
func TestSpinLockThatIsOftenFreeIsNotLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		for range 1000 {
			start := time.Now()
			hold, _ := mustFence(t, c.SpinLock("job"), t.Context())
			if d := time.Since(start); d > 0 {
				t.Fatalf("a lock that was free for a fifth of the time was acquired after %v, want 0", d)
			}
			time.Sleep(8 * time.Millisecond)
			mustUnlock(t, hold)
			time.Sleep(2 * time.Millisecond)
		}
	})
}

func TestExponentialBackoffStaysInItsBounds(t *testing.T) {
	for _, test := range []struct{ first, most time.Duration }{
		{time.Millisecond, 128 * time.Millisecond}, {1, 1}, {0, time.Second}, {time.Hour, time.Second},
		{1 << 62, 1<<63 - 1}, {3, 1 << 62}, {-5, -1},
	} {
		b := mortise.ExponentialBackoff(test.first, test.most)
		for n := range 100 {
			if d := b(n); d > test.most {
				t.Errorf("ExponentialBackoff(%v, %v)(%d) = %v, want %v at most", test.first, test.most, n, d, test.most)
			}
		}
		if d := b(99); test.most > 2 && d < test.most/2 {
			t.Errorf("ExponentialBackoff(%v, %v) ends at %v, want %v at least", test.first, test.most, d, test.most/2)
		}
	}
}

// The holder of a SpinLock wakes nobody; a Lock of the same name is not stuck.
func TestLockBesideASpinLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		hold, _ := mustFence(t, a.SpinLock("job"), t.Context())
		if _, _, err := b.Lock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock: %v, want ErrLocked", err)
		}
		released := make(chan time.Time, 1)
		time.AfterFunc(5*time.Second, func() { released <- time.Now(); mustUnlock(t, hold) })
		next, _ := mustLock(t, b.Lock("job"), t.Context())
		if d := time.Since(<-released); d > 1100*time.Millisecond {
			t.Errorf("the Lock was had %v after the release, want about a second at most", d)
		}
		mustUnlock(t, next)
	})
}

// A spin lock's waiter that pauses for long does not keep one of the same client
// that listens from the lock.
func TestLockBehindASpinLockThatPausesForLong(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"before", "after"} {
		t.Run("the other one comes "+order+" the pause", func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				c, _ := open(t, s, nil)
				block, _ := mustLock(t, holder.Lock("job"), t.Context())
				spin := later(t, t.Context(), c.SpinLock("job").WithBackoff(mortise.ConstantBackoff(15*time.Second)))
				if order == "after" {
					time.Sleep(3 * time.Second)
				}
				lock := later(t, t.Context(), c.Lock("job"))
				time.Sleep(2 * time.Second)
				start := time.Now()
				mustUnlock(t, block)
				mustUnlock(t, <-spin)
				hold := <-lock
				if d := time.Since(start); d > 1100*time.Millisecond {
					t.Errorf("the lock came %v after the release, want within about a second", d)
				}
				mustUnlock(t, hold)
			})
		})
	}
}
