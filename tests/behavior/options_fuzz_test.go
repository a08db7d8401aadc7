package behavior

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Any durations make a lock that is held for a sensible time, or are refused before anything is
// sent.
func FuzzDurations(f *testing.F) {
	names := slices.Sorted(maps.Keys(kinds))
	const second = int64(time.Second)
	for i := range names {
		f.Add(uint8(i), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
		f.Add(uint8(i), 10*second, 60*second, second, second, second, 20*second)
		f.Add(uint8(i), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
		f.Add(uint8(i), int64(math.MinInt64), int64(-1), int64(1), int64(-1), int64(999_999), int64(math.MinInt64))
		f.Add(uint8(i), 100*int64(time.Millisecond), int64(time.Millisecond), int64(time.Millisecond), int64(0), int64(math.MaxInt64), int64(0))
		f.Add(uint8(i), 366*24*3600*second, 366*24*3600*second, 366*24*3600*second, 365*24*3600*second, int64(1), 366*24*3600*second)
	}
	f.Fuzz(func(t *testing.T, kind uint8, ttl, maxHold, minHold, margin, wait, clientTTL int64) {
		k := kinds[names[int(kind)%len(names)]]
		o := mortise.LockOptions{
			TTL: time.Duration(ttl), MaxHold: time.Duration(maxHold), MinHold: time.Duration(minHold), Margin: time.Duration(margin), Wait: time.Duration(wait),
		}
		alone(t, func(t *testing.T, s *memredis.Server) {
			c, f := open(t, s, &mortise.Options{TTL: time.Duration(clientTTL)})
			hold, ctx, err := k.Open(c, "job", o).Lock(t.Context())
			if err != nil {
				// A wait of less than it takes to ask is over before.
				if !errors.Is(err, mortise.ErrInvalid) && (wait == 0 || !errors.Is(err, mortise.ErrUnreachable)) {
					t.Errorf("%+v: %v, want a hold or ErrInvalid", o, err)
				}
				if n := f.Total(); n != 0 && errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%+v: %d scripts were sent, want none: %v", o, n, err)
				}
				return
			}
			if !hold.Valid() || ctx.Err() != nil {
				t.Errorf("%+v: the hold is over at once: %v", o, context.Cause(ctx))
			}
			left := time.Duration(do(t, s, "PTTL", "job").Int()) * time.Millisecond
			if left <= 0 || left > 2*366*24*time.Hour || time.Until(hold.Until()) > left {
				t.Errorf("%+v: the lock lasts for %v in Redis, and the hold until %v from now", o, left, time.Until(hold.Until()))
			}
			mustUnlock(t, hold)
			_ = c.Close()
			time.Sleep(2 * 366 * 24 * time.Hour)
			wantEmpty(t, s)
		})
	})
}

// Any numbers are used, or refused before anything is sent.
func FuzzNumbers(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 3, 1000, 1001, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MaxInt64, math.MinInt64, int64(time.Hour)} {
		f.Add(n, n)
		f.Add(n, int64(1))
		f.Add(int64(1), n)
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		alone(t, func(t *testing.T, s *memredis.Server) {
			c, f := open(t, s, nil)
			ctx := t.Context()
			m, n, d := int(a), int(b), time.Duration(b)
			short := mortise.WaitOptions{Wait: time.Second}
			numbers, permits, latch := c.Semaphore("numbers").With(short), c.PermitSemaphore("permits"), c.CountDownLatch("latch").With(short)
			calls := map[string]func() error{
				"TrySetPermits":  func() error { _, err := numbers.TrySetPermits(ctx, m); return err },
				"AddPermits":     func() error { return numbers.AddPermits(ctx, n) },
				"Acquire":        func() error { return numbers.Acquire(ctx, m) },
				"Release":        func() error { return numbers.Release(ctx, n) },
				"SetPermits":     func() error { return permits.SetPermits(ctx, m) },
				"AddPermits too": func() error { return permits.AddPermits(ctx, n) },
				"Acquire permits": func() error {
					hold, _, err := permits.With(mortise.PermitOptions{Permits: n, MaxHold: d, Wait: time.Second}).Acquire(ctx)
					if err == nil {
						err = hold.Unlock()
					}
					return err
				},
				"UpdateLease": func() error {
					_, err := permits.UpdateLease(ctx, "00112233445566778899aabbccddeeff", d)
					return err
				},
				"TrySetCount": func() error { _, err := latch.TrySetCount(ctx, m); return err },
				"CountDown":   func() error { return latch.CountDown(ctx) },
				"Await":       func() error { _, err := c.Barrier("barrier", m).With(short).Await(ctx); return err },
				"Enter": func() error {
					place, _, err := c.DoubleBarrier("double", n).With(short).Enter(ctx)
					if err == nil {
						err = place.Leave(ctx)
					}
					return err
				},
				"ExpireTokens": func() error { _, err := c.ExpireTokens(ctx, "fenced", time.Duration(a), d); return err },
			}
			for _, what := range slices.Sorted(maps.Keys(calls)) {
				synctest.Wait() // what the call before has left to do
				before := f.Total()
				err := calls[what]()
				if sent := f.Total() - before; sent > 0 && errors.Is(err, mortise.ErrInvalid) && !strings.Contains(err.Error(), "Redisson can") { // Redis has the other summand
					t.Errorf("%s of %d and %d: %d scripts were sent, want none: %v", what, a, b, sent, err)
				}
				if err != nil && !expectedOfNumbers(err) {
					t.Errorf("%s of %d and %d: %v", what, a, b, err)
				}
			}
		})
	})
}

// expectedOfNumbers reports whether err is what an operation on numbers may say.
func expectedOfNumbers(err error) bool {
	for _, target := range []error{mortise.ErrInvalid, mortise.ErrNoPermits, mortise.ErrMissing, mortise.ErrNotSet, mortise.ErrLost} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
