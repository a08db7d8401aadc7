package behavior

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// keeper is a driver that still has the words of every call after it has returned, as one may that sends
// them late.
type keeper struct {
	locktest.Faults

	mu   sync.Mutex // guards kept
	kept []driver.Call
	were []driver.Call // what they were then
}

func (d *keeper) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	d.mu.Lock()
	d.kept = append(d.kept, call)
	d.were = append(d.were, driver.Call{Script: call.Script, Keys: slices.Clone(call.Keys), Args: slices.Clone(call.Args)})
	d.mu.Unlock()
	return d.Faults.Eval(ctx, call)
}

// A script that is asked for again, because its reply was lost, has other words than the first copy, which
// may still be on its way: those do not change.
func TestWordsOfACallDoNotChange(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		d := &keeper{Faults: locktest.Faults{Driver: s.Driver()}}
		c := mortise.New(d, nil)
		defer c.Close()
		acquire, release := locktest.LoseReplies(k.Acquire, 2), locktest.LoseReplies(k.Release, 2)
		d.Set(nil, func(ctx context.Context, name string) error {
			if err := acquire(ctx, name); err != nil {
				return err
			}
			return release(ctx, name)
		})
		hold, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = hold.Unlock() // its outcome may be unknown
		d.mu.Lock()
		defer d.mu.Unlock()
		words := make(map[*string]bool)
		for i, call := range d.kept {
			if was := d.were[i]; !slices.Equal(call.Keys, was.Keys) || !slices.Equal(call.Args, was.Args) {
				t.Errorf("%s: keys %q and arguments %q became %q and %q", call.Script.Name(), was.Keys, was.Args, call.Keys, call.Args)
			}
			if len(call.Args) == 0 {
				continue
			}
			if first := &call.Args[0]; words[first] {
				t.Errorf("%s has its arguments where another call has had its own", call.Script.Name())
			} else {
				words[first] = true
			}
		}
	})
}
