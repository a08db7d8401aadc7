package behavior

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// skewed is a driver whose server's clock can be set: what renewals tell of it
// differs by so much from the bubble's. That leases end by that clock is not its
// business.
type skewed struct {
	driver.Driver
	mu   sync.Mutex // guards what follows
	by   time.Duration
	deaf bool // the server does not tell the time
	slow time.Duration
}

func (d *skewed) set(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by = by
}

func (d *skewed) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.Batch(ctx, calls)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, call := range calls {
		if v := results[i].Value; strings.HasSuffix(call.Script.Name(), "_renew") && results[i].Err == nil {
			values := make([]driver.Value, v.Len())
			for j := range values {
				values[j] = v.At(j)
			}
			now := driver.IntValue(values[len(values)-1].Int() + d.by.Milliseconds())
			if d.deaf {
				now = driver.IntValue(0)
			}
			values[len(values)-1] = now
			results[i].Value = driver.ArrayValue(values)
		}
	}
	time.Sleep(d.slow)
	return results
}

// Each jump is told once, at the next renewal, whatever else is renewed; a clock
// that goes a little wrong, a slow answer and a server that does not tell are none.
func TestClockJumpsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		d, told := &skewed{Driver: s.Driver()}, new(jumps)
		c := mortise.New(d, &mortise.Options{OnClockJump: told.Note})
		defer c.Close()
		first, _ := mustLock(t, c.Lock("first"), t.Context())
		time.Sleep(5 * time.Second)
		second, _ := mustLock(t, c.Lock("second"), t.Context())
		now := time.Duration(0)
		var want []time.Duration
		for _, by := range []time.Duration{-time.Minute, time.Minute, 900 * time.Millisecond, -900 * time.Millisecond, 1500 * time.Millisecond, -2 * time.Second, time.Hour} {
			time.Sleep(11 * time.Second)
			now += by
			d.set(now)
			told.Want(t, time.Millisecond, want...)
			if by.Abs() > time.Second {
				want = append(want, by)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			told.Want(t, time.Millisecond, want...)
		}
		for range 100 { // five seconds in all
			time.Sleep(time.Minute)
			now += 50 * time.Millisecond
			d.set(now)
		}
		d.mu.Lock()
		d.slow = 4 * time.Second
		d.mu.Unlock()
		time.Sleep(time.Minute)
		d.mu.Lock()
		d.slow, d.deaf = 0, true
		d.mu.Unlock()
		time.Sleep(time.Minute)
		told.Want(t, time.Millisecond, want...)
		mustUnlock(t, first)
		mustUnlock(t, second)
	})
}

// A holder that loses the lock because the clock was set forward is told so. One
// that loses it in another way is not.
func TestForwardJumpIsTheCauseOfTheLoss(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		jump time.Duration
		want bool
	}{
		"forward": {time.Minute, true},
		"none":    {0, false},
		"back":    {-time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				d := &skewed{Driver: s.Driver()}
				c := mortise.New(d, nil)
				defer c.Close()
				other, _ := open(t, s, nil)
				lost := map[string]context.Context{}
				for _, name := range []string{"first", "second"} {
					_, lost[name] = mustLock(t, c.Lock(name), t.Context())
					time.Sleep(5 * time.Second)
				}
				time.Sleep(7 * time.Second)
				d.set(test.jump)
				for name := range lost { // as the server does then
					if _, err := other.Lock(name).ForceUnlock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for name, ctx := range lost {
					<-ctx.Done()
					cause := context.Cause(ctx)
					if got := errors.Is(cause, mortise.ErrClockJump); got != test.want || !errors.Is(cause, mortise.ErrLost) {
						t.Errorf("%s ended because %v; want that it was the clock: %v", name, cause, test.want)
					}
					var jump *mortise.ClockError
					if errors.As(cause, &jump) && jump.Jump != test.jump {
						t.Errorf("the clock jumped by %v, want %v", jump.Jump, test.jump)
					}
				}
				later, ctx := mustLock(t, c.Lock("later"), t.Context()) // after the jump
				time.Sleep(time.Second)
				if _, err := other.Lock("later").ForceUnlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-ctx.Done()
				if cause := context.Cause(ctx); errors.Is(cause, mortise.ErrClockJump) {
					t.Errorf("a lease of after the jump ended because %v", cause)
				}
				_ = later.Unlock() // lost
			})
		})
	}
}

// A re-entry may make the key last longer than the first hold did. No renewal cuts
// that, not even one that was on its way before.
func TestRenewalDoesNotCutALongReentry(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				_, ctx, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				arrived, gate := make(chan struct{}, 100), make(chan struct{})
				f.Set(func(_ context.Context, name string) error {
					if strings.HasSuffix(name, "_renew") {
						arrived <- struct{}{}
						<-gate
					}
					return nil
				}, nil)
				<-arrived
				inner, _, err := k.Open(c, "job", mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}).Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				close(gate)
				synctest.Wait()
				for range 2 {
					want := time.Until(inner.Until())
					if state, err := c.Inspect(t.Context(), "job"); err != nil || state.TTL < want {
						t.Errorf("the key lasts for %v, %v; want %v at least, as the hold was told", state.TTL, err, want)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
