package behavior

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// behind has two goroutines of a client wait for a lock: the first with options, with which it asks before it relies on a grant, the
// second with none. When the first asks the next time, and the holder has released the lock meanwhile, during is called, and after with
// the answer. The id of the first is in ids, if it has the lock.
func behind(t *testing.T, s *memredis.Server, o mortise.LockOptions, during func(cancel func()) error, after func()) (first, second <-chan outcome, ids *sync.Map) {
	other, _ := open(t, s, nil)
	c, r := openReplicated(t, s, 1, 0, nil)
	ids = new(sync.Map)
	r.before = func(calls []driver.Call) {
		if calls[0].Script.Name() != "look" {
			ids.Store(calls[0].Args[0], true)
		}
	}
	block := mustTake(t, other.Lock("job"))
	var armed, asked atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r.Set(func(_ context.Context, name string) error {
		if name != "lock_acquire" || !armed.CompareAndSwap(true, false) {
			return nil
		}
		mustUnlock(t, block)
		time.Sleep(time.Millisecond) // the message of the grant arrives
		asked.Store(true)
		return during(cancel)
	}, func(_ context.Context, name string) error {
		if name == "lock_acquire" && asked.CompareAndSwap(true, false) {
			after()
		}
		return nil
	})
	wait := func(ctx context.Context, k *mortise.Lock) <-chan outcome {
		got := make(chan outcome, 1)
		go func() {
			hold, _, err := k.Lock(ctx)
			got <- outcome{hold, err}
		}()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		return got
	}
	first = wait(ctx, c.Lock("job").With(o))
	second = wait(t.Context(), c.Lock("job"))
	time.Sleep(100 * time.Millisecond)
	armed.Store(true)
	return first, second, ids
}

type outcome struct {
	hold *mortise.Hold
	err  error
}

// wantHeld fails the test unless Redis has the lock of the hold, for its whole lease.
func (o outcome) wantHeld(t *testing.T, s *memredis.Server) {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	const look = `return {redis.call('hget', KEYS[1], '%s'), redis.call('pttl', KEYS[1])}`
	left := time.Until(o.hold.Until()) // first: what was granted is renewed in the same moment, and Redis has that before the hold
	v := run(t, s, fmt.Sprintf(look, o.hold.Owner()))
	if v.At(0).Str() != "1" || v.At(1).Int() < left.Milliseconds() {
		t.Errorf("Redis has it %v times, for %v ms, and the hold is trusted for %v", v.At(0), v.At(1), left)
	}
	mustUnlock(t, o.hold)
}

// What was granted to a client and given back is not there for the next waiter of that client, whose lease has another id: late copies
// of what was sent for the first one are not for the next.
func TestGrantThatWasGivenBack(t *testing.T) {
	t.Parallel()
	short := durably(1)
	short.Durability.Timeout = 300 * time.Millisecond
	for name, o := range map[string]mortise.LockOptions{
		"no replica acknowledges it":       short,
		"the reply comes after its lease":  {TTL: 500 * time.Millisecond, MaxHold: 500 * time.Millisecond},
		"the reply comes after its margin": {Margin: 29500 * time.Millisecond},
	} {
		for _, others := range []int{0, 1} { // of another client
			t.Run(fmt.Sprint(name, ", others: ", others), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) { givenBack(t, s, o, others) })
			})
		}
	}
}

func givenBack(t *testing.T, s *memredis.Server, o mortise.LockOptions, others int) {
	late := o.Durability == mortise.Durability{}
	first, second, ids := behind(t, s, o, func(func()) error { return nil }, func() {
		if late {
			time.Sleep(600 * time.Millisecond)
		}
	})
	c, _ := open(t, s, nil)
	theirs := make(chan outcome, 1)
	for range others {
		go func() {
			hold, _, err := c.Lock("job").Lock(t.Context())
			theirs <- outcome{hold, err}
		}()
	}
	for range 1 + others {
		select {
		case o := <-second:
			if _, used := ids.Load(o.hold.Owner()); used {
				t.Errorf("the id %s is that of two requests", o.hold.Owner())
			}
			o.wantHeld(t, s)
		case o := <-theirs:
			time.Sleep(time.Second) // the second has time to come in as well
			o.wantHeld(t, s)
		}
	}
	if late {
		(<-first).wantHeld(t, s) // it asks again
	} else if err := (<-first).err; !errors.Is(err, mortise.ErrNotDurable) {
		t.Errorf("the first: %v, want ErrNotDurable", err)
	}
}

// A grant to a waiter that asks first lasts for a second. If that waiter gives up, the next one of its client asks as well.
func TestBriefGrantForTheNextWaiter(t *testing.T) {
	t.Parallel()
	for round := range 20 { // when the client asks again is left to chance
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				first, second, _ := behind(t, s, durably(1), func(cancel func()) error {
					cancel()
					return &driver.Error{Class: driver.NotSent, Err: context.Canceled}
				}, func() {})
				if err := (<-first).err; !errors.Is(err, context.Canceled) {
					t.Errorf("the first: %v, want that it gave up", err)
				}
				(<-second).wantHeld(t, s)
			})
		})
	}
}
