package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// older makes of what Redis has of a lock an older state of the same lease, before an attempt that was repeated: it ends in a
// second, a plain lock was only granted, and no token was drawn.
const older = `
local clock = redis.call('time')
local soon = clock[1] * 1000 + math.floor(clock[2] / 1000) + 1000
for _, key in ipairs(redis.call('keys', '*')) do
  local kind = redis.call('type', key).ok
  if kind == 'hash' then
    local fields = redis.call('hgetall', key)
    for i = 1, #fields, 2 do
      if string.find(fields[i], 'expire_time') then redis.call('hset', key, fields[i], string.format('%.0f', soon)) end
    end
    if #fields == 2 then
      redis.call('hset', key, fields[1], 0)
      if redis.call('exists', KEYS[2]) == 1 then redis.call('set', KEYS[2], 0) end
    end
  elseif kind == 'zset' and string.find(key, 'timeout') then
    for _, id in ipairs(redis.call('zrange', key, 0, -1)) do redis.call('zadd', key, string.format('%.0f', soon), id) end
  end
  if redis.call('pttl', key) > 1000 then redis.call('pexpire', key, 1000) end
end`

// contender acquires something for a while.
type contender func(ctx context.Context) (token int64, end func() error, err error)

func acquires(lock func(context.Context) (*mortise.Hold, context.Context, error)) contender {
	return func(ctx context.Context) (int64, func() error, error) {
		hold, _, err := lock(ctx)
		if err != nil {
			return 0, nil, err
		}
		return hold.Token(), hold.Unlock, nil
	}
}

// contenders are all kinds that can be durable.
func contenders() map[string]func(c *mortise.Client, o mortise.LockOptions) contender {
	all := map[string]func(c *mortise.Client, o mortise.LockOptions) contender{
		"RWLock.Read": func(c *mortise.Client, o mortise.LockOptions) contender {
			if o == (mortise.LockOptions{}) { // another reader would not be in its way
				return acquires(c.RWLock("job").Write().Lock)
			}
			return acquires(c.RWLock("job").Read().With(o).Lock)
		},
		"PermitSemaphore": func(c *mortise.Client, o mortise.LockOptions) contender {
			return acquires(c.PermitSemaphore("permits").With(mortise.PermitOptions{Durability: o.Durability}).Acquire)
		},
		"Election": func(c *mortise.Client, o mortise.LockOptions) contender {
			return func(ctx context.Context) (int64, func() error, error) {
				term, _, err := c.Election("job").With(o).Campaign(ctx, "")
				if err != nil {
					return 0, nil, err
				}
				return term.Token(), term.Resign, nil
			}
		},
	}
	for name, k := range locktest.Kinds {
		all[name] = func(c *mortise.Client, o mortise.LockOptions) contender { return acquires(k.Open(c, "job", o).Lock) }
	}
	return all
}

// A master dies between an acquisition and its acknowledgement, and the next one has an older state of the lock, of the
// same lease. What replicas acknowledge is what the holder relies on, whatever there was before.
func TestFailoverToAnOlderState(t *testing.T) {
	t.Parallel()
	for name, open := range contenders() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) { failOver(t, s, open) })
		})
	}
}

func failOver(t *testing.T, s *memredis.Server, contender func(c *mortise.Client, o mortise.LockOptions) contender) {
	c, r := openReplicated(t, s, 1, 1, nil)
	other, _ := open(t, s, nil)
	if _, err := other.PermitSemaphore("permits").TrySetPermits(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	rival := contender(other, mortise.LockOptions{})
	if _, end, err := rival(t.Context()); err != nil || end() != nil {
		t.Fatal(err)
	}
	failovers := 0
	r.before = func(calls []driver.Call) {
		if strings.HasSuffix(calls[0].Script.Name(), "_durably") && failovers == 0 {
			failovers++
			run(t, s, older)
		}
	}
	token, end, err := contender(c, durably(mortise.AcksAll))(t.Context())
	if err != nil || failovers != 1 {
		t.Fatalf("%v, after %d failovers, want it acquired after one", err, failovers)
	}
	time.Sleep(9 * time.Second) // the first renewal comes after ten
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	if _, _, err := rival(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v for another before the lease has ended, want that it waits", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	next, end, err := rival(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if token != 0 && next <= token {
		t.Errorf("the next token is %d, after %d", next, token)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A grant may last longer than a fixed lease: what is acknowledged is the lease.
func TestFailoverToALongerGrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, r := openReplicated(t, s, 1, 1, nil)
		r.before = func(calls []driver.Call) {
			run(t, s, `if redis.call('exists', KEYS[1]) == 1 then
				redis.call('hset', KEYS[1], redis.call('hkeys', KEYS[1])[1], 0)
				redis.call('pexpire', KEYS[1], 3000)
			end`)
		}
		o := durably(1)
		o.TTL, o.MaxHold = 300*time.Millisecond, 300*time.Millisecond
		hold, _ := mustLock(t, c.Lock("job").With(o), t.Context())
		if ttl := run(t, s, `return redis.call('pttl', KEYS[1])`).Int(); ttl > 300 {
			t.Errorf("a lease of 300ms has a TTL of %d ms", ttl)
		}
		mustUnlock(t, hold)
	})
}

// An acquisition for which Redis is asked twice, because a replica is slow, lasts no longer.
func TestSlowReplicaDoesNotExtendALease(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 1, 0, nil)
		runs := 0
		r.before = func(calls []driver.Call) {
			if calls[0].Script.Name() == "look" {
				return
			}
			if runs++; runs == 2 {
				r.become(1, 1)
			}
		}
		const lease = 20 * time.Second
		o := mortise.LockOptions{TTL: lease, MaxHold: lease, Durability: mortise.Durability{Acks: mortise.AcksAll, Timeout: 19 * time.Second}}
		start := time.Now()
		hold, _, err := k.Open(c, "job", o).Lock(t.Context())
		if err != nil || runs != 2 || time.Since(start) == 0 {
			t.Fatalf("%v after %v and %d runs, want it to wait for the replica", err, time.Since(start), runs)
		}
		ttl := time.Duration(run(t, s, `return redis.call('pttl', KEYS[1])`).Int()) * time.Millisecond
		if over := time.Since(start) + ttl - lease; over > 100*time.Millisecond { // for which a group outlasts its values
			t.Errorf("it lasts for %v longer", over)
		}
		mustUnlock(t, hold)
	})
}

// A late copy of what makes an acquisition sure does not set the count of its holds back.
func TestLateCopyOfADurableAcquisition(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, r := openReplicated(t, s, 1, 1, nil)
		var copied []driver.Call
		r.before = func(calls []driver.Call) {
			if copied == nil && calls[0].Script.Name() != "look" {
				copied = calls
			}
		}
		lock := k.Open(c, "job", durably(1))
		outer, ctx, err := lock.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inner, _, err := lock.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before := run(t, s, `return redis.call('hgetall', KEYS[1])`).String()
		d := s.Driver()
		defer d.Close()
		if got := d.Batch(t.Context(), copied)[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
		if after := run(t, s, `return redis.call('hgetall', KEYS[1])`).String(); after != before {
			t.Errorf("a late copy made of %s %s", before, after)
		}
		mustUnlock(t, inner)
		mustUnlock(t, outer)
	})
}
