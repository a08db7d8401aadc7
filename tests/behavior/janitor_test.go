package behavior

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// backgroundWork counts the goroutines of clients that do background work.
func backgroundWork() int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by github.com/mortise-go/mortise/internal/lease.(*Client).Spawn") +
		strings.Count(string(stacks), "created by github.com/mortise-go/mortise/internal/lease.(*Client).Background")
}

// A crowd that gives up while Redis does not answer leaves attempts in doubt.
// They cost one goroutine, not one each, and none is forgotten: whatever copy
// comes later, its lock is free again in a moment.
func TestCancelledCrowdLeavesOneGoroutine(t *testing.T) {
	alone(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		const crowd = 300
		f.DeliverLate(2 * time.Second) // after the crowd has gone
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				if _, _, err := c.Lock(fmt.Sprint("job ", i)).TryLock(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d: %v, want the deadline", i, err)
				}
			})
		}
		all.Wait()
		f.DeliverLate(0)
		synctest.Wait() // the first looks
		if n := backgroundWork(); n != 1 {
			t.Errorf("%d goroutines are left of %d attempts in doubt, want one", n, crowd)
		}
		f.InFlight.Wait()
		time.Sleep(8 * time.Second) // a quarter of a lease at most
		for i := range crowd {
			wantState(t, c.Lock(fmt.Sprint("job ", i)), "", 0)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := backgroundWork(); n != 0 {
			t.Errorf("%d goroutines are left after a lease, want none for what is over", n)
		}
	})
}

// While some servers are silent, attempts on others are undone nevertheless, and
// Close asks for each once more.
func TestAttemptsInDoubtOfOneServerDoNotKeepOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		silent := true
		var mu sync.Mutex
		hangs := func(ctx context.Context, name string) error {
			mu.Lock()
			hang := silent
			mu.Unlock()
			if hang && name == "lock_release" {
				<-ctx.Done()
				return driver.ContextError(ctx, driver.Unknown)
			}
			return nil
		}
		f.Set(hangs, func(ctx context.Context, name string) error {
			if name == "lock_acquire" {
				return errCut
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		const crowd = 100 // more than there are hands
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() { _, _, _ = c.Lock(fmt.Sprint("job ", i)).TryLock(ctx) })
		}
		all.Wait()
		f.Set(hangs, nil)
		time.Sleep(time.Second)
		if _, _, err := c.Lock("job 0").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Fatalf("an acquisition in doubt, while no release gets through: %v, want ErrLocked", err)
		}
		mu.Lock()
		silent = false
		mu.Unlock()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		other, _ := open(t, s, nil)
		left := 0
		for i := range crowd {
			st, err := other.Inspect(t.Context(), fmt.Sprint("job ", i))
			if err != nil {
				t.Fatal(err)
			}
			if st.Locked {
				left++
			}
		}
		// 32 releases hung when Close came, for the rest of two seconds.
		if left > 32 {
			t.Errorf("Close left %d of %d, want all asked for once more that nobody asked for yet", left, crowd)
		}
	})
}

// lateCopy is a driver that keeps the first call of a script back, which looks
// like one whose reply was lost, until it is told to deliver it.
type lateCopy struct {
	driver.Driver
	script string

	mu   sync.Mutex
	kept []driver.Call // guarded by mu
}

func (d *lateCopy) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := d.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (d *lateCopy) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	d.mu.Lock()
	keep := d.kept == nil && len(calls) == 1 && calls[0].Script.Name() == d.script
	if keep {
		d.kept = []driver.Call{{Script: calls[0].Script, Keys: slices.Clone(calls[0].Keys), Args: slices.Clone(calls[0].Args)}}
	}
	d.mu.Unlock()
	if keep {
		return []driver.Result{{Err: errCut}}
	}
	return d.Driver.Batch(ctx, calls)
}

// deliver has the copy arrive at last.
func (d *lateCopy) deliver(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	kept := d.kept
	d.mu.Unlock()
	if kept == nil {
		t.Fatalf("no copy of %s was kept back", d.script)
	}
	d.Driver.Batch(context.Background(), kept)
}

// A lease whose acquisition has a copy on its way is over, however that came: the
// copy does not hold the lock for nobody.
func TestLateCopyAfterALeaseEnded(t *testing.T) {
	t.Parallel()
	lost := func(t *testing.T, h *mortise.Hold) {
		t.Helper()
		if err := h.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	}
	for name, end := range map[string]func(t *testing.T, h *mortise.Hold, remove func()){
		"released":             func(t *testing.T, h *mortise.Hold, _ func()) { mustUnlock(t, h) },
		"deleted, then Unlock": func(t *testing.T, h *mortise.Hold, remove func()) { remove(); lost(t, h) },
		"deleted, noticed at a renewal, then Unlock": func(t *testing.T, h *mortise.Hold, remove func()) {
			remove()
			time.Sleep(11 * time.Second)
			lost(t, h)
		},
		"deleted, and never released": func(t *testing.T, h *mortise.Hold, remove func()) {
			remove()
			time.Sleep(11 * time.Second)
			if h.Valid() {
				t.Error("the loss was not noticed")
			}
		},
	} {
		for kindName, kind := range kinds {
			t.Run(name+"/"+kindName, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					d := &lateCopy{Driver: s.Driver(), script: kind.Acquire}
					c := mortise.New(d, nil)
					defer c.Close()
					hold, _, err := kind.Open(c, "job", mortise.LockOptions{}).TryLock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					end(t, hold, func() { runScript(t, s, "return redis.call('del', KEYS[1])", "job") })
					time.Sleep(3 * time.Second)
					d.deliver(t)
					time.Sleep(8 * time.Second) // a quarter of a lease at most
					if st, err := c.Inspect(t.Context(), "job"); err != nil || st.Locked {
						t.Errorf("a late copy holds the lock for nobody: %+v, %v", st, err)
					}
				})
			})
		}
	}
}
