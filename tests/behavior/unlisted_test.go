package behavior

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// Scripts that write more than one reply lists.
const (
	manyReaders = `redis.call('hset', KEYS[1], 'mode', 'read') redis.call('pexpire', KEYS[1], 60000)
		for i = 1, 1200 do
		local h = '8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:' .. i
		redis.call('hset', KEYS[1], h, 1) redis.call('set', '{job}:' .. h .. ':rwlock_timeout:1', 1, 'px', 60000) end return 1`
	largeGroup = `for i = 1, 400 do
		local v, h = 'a:' .. i, '8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:' .. i % 4
		redis.call('hset', KEYS[1], v, h, v .. ':' .. h .. ':expire_time', '9', v .. ':' .. h .. ':lock_count', '1') end
		redis.call('pexpire', KEYS[1], 60000) return 1`
	manyPermits = `redis.call('set', KEYS[1], 4) local now = redis.call('time')[1] * 1000
		for i = 1, 1400 do redis.call('zadd', '{job}:timeout', now + 60000, string.format('%016d', i)) end return 1`
)

// However many hold a lock, it is known to be held, and how many they are.
func TestInspectOfMoreThanIsListed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		put  string
		kind mortise.Kind
		// what is listed, of how many
		listed func(s *mortise.State) int
		least  int
		of     int
	}{
		"readers": {manyReaders, mortise.KindRWLock, func(s *mortise.State) int { return len(s.Holders) }, 999, 1200},
		"values":  {largeGroup, mortise.KindGroupLock, func(s *mortise.State) int { return 400 - s.Unlisted }, 4, 400},
		"permits": {manyPermits, mortise.KindPermits, func(s *mortise.State) int { return len(s.Permits) }, 1000, 1400},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				runScript(t, s, test.put, "job")
				check := func(s *mortise.State) {
					n := test.listed(s)
					if s.Kind != test.kind || !s.Locked || s.TTL <= 0 || n < test.least || n > 1000 || n+s.Unlisted != test.of {
						t.Errorf("a %s, locked %v, for %v, %d listed and %d not; want a %s with %d", s.Kind, s.Locked, s.TTL, n, s.Unlisted, test.kind, test.of)
					}
				}
				state, err := c.Inspect(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				check(&state)
				if test.kind == mortise.KindGroupLock {
					wantFourOwners(t, &state)
				}
				wantSameInJSON(t, &state)
				found := 0
				for one, err := range c.Locks(t.Context(), "*") {
					if err != nil {
						t.Fatal(err)
					}
					check(&one)
					found++
				}
				if found != 1 {
					t.Errorf("a walk shows %d locks, want it once", found)
				}
			})
		})
	}
}

// wantSameInJSON checks that the number of those that are not listed is in the JSON form.
func wantSameInJSON(t *testing.T, s *mortise.State) {
	t.Helper()
	text, err := json.Marshal(s)
	var again mortise.State
	if err != nil || json.Unmarshal(text, &again) != nil || again.Unlisted != s.Unlisted {
		t.Errorf("as JSON %d are unlisted, %v, want %d", again.Unlisted, err, s.Unlisted)
	}
}

// wantFourOwners checks the holders of largeGroup. How many values each has is not known.
func wantFourOwners(t *testing.T, s *mortise.State) {
	t.Helper()
	if len(s.Holders) != 4 {
		t.Errorf("%d holders, want 4", len(s.Holders))
	}
	for i, h := range s.Holders {
		if want := fmt.Sprint("8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:", i); h.Owner != want || h.Count != -1 {
			t.Errorf("holder %d is %+v, want %s with count -1", i, h, want)
		}
	}
}

// Operators free a lock of holders that no reply lists.
func TestForceUnlockOfMoreThanIsListed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		runScript(t, s, manyReaders, "job")
		k := c.RWLock("job")
		owner := func(i int) string { return fmt.Sprint("8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:", i) }
		for i := 1; i <= 20; i++ {
			for _, want := range []bool{true, false} {
				if freed, err := k.Read().UnlockOwner(t.Context(), owner(i)); freed != want || err != nil {
					t.Errorf("UnlockOwner of reader %d: %v, %v, want %v", i, freed, err, want)
				}
			}
		}
		for side, of := range map[interface {
			UnlockOwner(ctx context.Context, owner string) (bool, error)
		}]string{k.Read(): owner(21) + ":write", k.Write(): owner(21)} {
			if freed, err := side.UnlockOwner(t.Context(), of); freed || err != nil {
				t.Errorf("%T: UnlockOwner of %s: %v, %v, want false", side, of, freed, err)
			}
		}
		freed, err := k.Read().ForceUnlock(t.Context())
		if len(freed) != 1180 || err != nil {
			t.Errorf("ForceUnlock freed %d, %v, want 1180", len(freed), err)
		}
		if state, err := c.Inspect(t.Context(), "job"); err != nil || state.Locked {
			t.Errorf("afterwards it is %+v, %v, want free", state, err)
		}
		runScript(t, s, largeGroup, "group")
		freedGroup, err := c.UnlockGroup(t.Context(), "group", owner(1))
		if freedGroup || !errors.Is(err, mortise.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "GroupLock.UnlockOwner") {
			t.Errorf("UnlockGroup of a large one: %v, %v, want ErrInvalid, and what to use", freedGroup, err)
		}
	})
}

// lacking is a driver of a user, or to a Redis, without some commands.
type lacking struct {
	driver.Driver
	commands []string
}

func (d lacking) without(call driver.Call) driver.Call {
	text := call.Script.Source()
	for _, command := range d.commands {
		text = strings.ReplaceAll(text, "'"+command+"'", "'no"+command+"'")
	}
	call.Script = driver.NewScript(call.Script.Name(), text)
	return call
}

func (d lacking) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	return d.Driver.Eval(ctx, d.without(call))
}

func (d lacking) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i] = d.without(calls[i])
	}
	return d.Driver.Batch(ctx, calls)
}

// A Redis before 6.2 cannot read fields at random, and a user may lack the right to: the first ones are read. Where they are not
// either, who asks holders or frees them learns that, and does not take a lock that many hold for free.
func TestHoldersThatCannotBeListed(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string][]string{"none at random": {"hrandfield"}, "none": {"hrandfield", "hscan"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c := mortise.New(lacking{s.Driver(), commands}, nil)
				defer c.Close()
				runScript(t, s, manyReaders, "job")
				asked, err := c.Ask(t.Context(), "job", "")
				freed, ferr := c.RWLock("job").Read().ForceUnlock(t.Context())
				if len(commands) == 1 {
					if len(asked) != 1000 || len(freed) != 1200 || err != nil || ferr != nil {
						t.Errorf("asked %d, freed %d, %v, %v, want 1000 and 1200", len(asked), len(freed), err, ferr)
					}
					return
				}
				if asked != nil || freed != nil || !errors.Is(err, mortise.ErrDenied) || !errors.Is(ferr, mortise.ErrDenied) {
					t.Errorf("asked %d, freed %d, %v, %v, want none and ErrDenied", len(asked), len(freed), err, ferr)
				}
			})
		})
	}
}

// A client's record lists 64 waits; the others are counted.
func TestQueueOfMoreThanIsListed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		hold, _, err := holder.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, _ := open(t, s, nil)
		done := make(chan error)
		for range 300 {
			go func() { done <- c.Lock("job").Do(t.Context(), func(context.Context) error { return nil }) }()
		}
		go func() { done <- c.Lock("other").Do(t.Context(), func(context.Context) error { return nil }) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		q, err := holder.Queue(t.Context(), "job")
		if err != nil || len(q.Waiters) != 64 || q.Unlisted != 236 {
			t.Errorf("%d waiters and %d more, %v, want 64 and 236", len(q.Waiters), q.Unlisted, err)
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
