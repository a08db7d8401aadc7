package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// What Redisson leaves behind is known by its form.
func TestInspectKnowsKinds(t *testing.T) {
	t.Parallel()
	for name, test := range inspectedKinds() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c := mortise.New(s.Driver(), nil)
				defer c.Close()
				runScript(t, s, test.put+" return 1", "job")
				test.want.Name = "job"
				got, err := c.Inspect(t.Context(), "job")
				if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
					t.Errorf("Inspect = %+v, %v, want %+v", got, err, test.want)
				}
				// A walk shows what somebody has, once.
				seen := 0
				for s, err := range c.Locks(t.Context(), "*") {
					if err != nil || s.Name != "job" {
						t.Errorf("a walk shows %+v, %v, want the lock job", s, err)
					}
					seen++
				}
				if want := map[bool]int{true: 1}[test.want.Locked]; seen != want {
					t.Errorf("a walk shows %d objects, want %d", seen, want)
				}
			})
		})
	}
}

// inspectedKind is what Inspect says about a key.
type inspectedKind struct {
	put  string // a script on the key job
	want mortise.State
}

func inspectedKinds() map[string]inspectedKind {
	const owner, writer = "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57", "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57:write"
	return map[string]inspectedKind{
		"nothing":     {``, mortise.State{Kind: mortise.KindNone}},
		"a free lock": {`redis.call('set', 'redisson_lock_token:{job}', 7)`, mortise.State{Kind: mortise.KindNone, Token: 7}},
		"lock": {`redis.call('hset', KEYS[1], '` + owner + `', 2)`,
			mortise.State{Kind: mortise.KindLock, Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: owner, Count: 2}}}},
		"fenced lock": {`redis.call('hset', KEYS[1], '` + owner + `', 1) redis.call('set', 'redisson_lock_token:{job}', 7)`,
			mortise.State{Kind: mortise.KindFencedLock, Locked: true, TTL: -1, Token: 7, Holders: []mortise.Holder{{Owner: owner, Count: 1}}}},
		"fair lock": {`redis.call('hset', KEYS[1], '` + owner + `', 1) redis.call('rpush', 'redisson_lock_queue:{job}', 'a:1', 'b:2')
				local now = redis.call('time')[1] * 1000 redis.call('zadd', 'redisson_lock_timeout:{job}', now + 5000, 'a:1')`,
			mortise.State{Kind: mortise.KindFairLock, Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: owner, Count: 1}},
				Queue: []mortise.Waiter{{Owner: "a:1", TTL: 5 * time.Second}, {Owner: "b:2", TTL: -1}}}},
		"fair lock that is free for somebody": {`redis.call('rpush', 'redisson_lock_queue:{job}', 'a:1')`,
			mortise.State{Kind: mortise.KindFairLock, Queue: []mortise.Waiter{{Owner: "a:1", TTL: -1}}}},
		"readers": {`redis.call('hset', KEYS[1], 'mode', 'read', '` + owner + `', 2, 'x:1', 1)`,
			mortise.State{Kind: mortise.KindRWLock, Mode: "read", Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: owner, Count: 2}, {Owner: "x:1", Count: 1}}}},
		"writer": {`redis.call('hset', KEYS[1], 'mode', 'write', '` + writer + `', 1)`,
			mortise.State{Kind: mortise.KindRWLock, Mode: "write", Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: writer, Count: 1}}}},
		"election": {`redis.call('hset', KEYS[1], 'mode', 'election', 'term', 3, 'value', 'node-7', 'edition', 0, '` + owner + `', 1)`,
			mortise.State{Kind: mortise.KindElection, Token: 3, Value: "node-7", Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: owner, Count: 1}}}},
		"group": {`for _, v in ipairs({'v1', 'v2'}) do
				redis.call('hset', KEYS[1], v, '` + owner + `', v .. ':` + owner + `:expire_time', 9, v .. ':` + owner + `:lock_count', 1) end`,
			mortise.State{Kind: mortise.KindGroupLock, Locked: true, TTL: -1, Holders: []mortise.Holder{{Owner: owner, Count: 2}}}},
		"permits": {`redis.call('set', KEYS[1], 4) local now = redis.call('time')[1] * 1000
				redis.call('zadd', '{job}:timeout', now + 5000, '0123456789abcdef', 922337203685477, 'fedcba9876543210')`,
			mortise.State{Kind: mortise.KindPermits, Number: 4, Locked: true, TTL: -1, Permits: []mortise.Permit{
				{ID: "30313233343536373839616263646566", TTL: 5 * time.Second}, {ID: "66656463626139383736353433323130", TTL: -1}}}},
		"permits of which one is over": {`redis.call('set', KEYS[1], 4) local now = redis.call('time')[1] * 1000
				redis.call('zadd', '{job}:timeout', now + 5000, '0123456789abcdef', now - 3600000, 'fedcba9876543210')`,
			mortise.State{Kind: mortise.KindPermits, Number: 5, Locked: true, TTL: 5 * time.Second, Permits: []mortise.Permit{
				{ID: "30313233343536373839616263646566", TTL: 5 * time.Second}}}},
		"permits that are over": {`redis.call('set', KEYS[1], 4) local now = redis.call('time')[1] * 1000
				redis.call('zadd', '{job}:timeout', now - 3600000, '0123456789abcdef')`,
			mortise.State{Kind: mortise.KindPermits, Number: 5}},
		"semaphore": {`redis.call('set', KEYS[1], -4)`, mortise.State{Kind: mortise.KindNumber, Number: -4}},
		"text":      {`redis.call('set', KEYS[1], 'hello')`, mortise.State{Kind: mortise.KindOther}},
		"list":      {`redis.call('rpush', KEYS[1], 'hello')`, mortise.State{Kind: mortise.KindOther}},
		"a hash":    {`redis.call('hset', KEYS[1], 'field', 'value')`, mortise.State{Kind: mortise.KindOther}},
		"half a group": {`redis.call('hset', KEYS[1], 'v', '` + owner + `', 'v:` + owner + `:expire_time', 9)`,
			mortise.State{Kind: mortise.KindOther}},
	}
}

// What others have written is told in a line, and never as a free lock.
func TestHeldByWhatOthersWrote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ put, want string }{
		"five megabytes":     {`redis.call('hset', KEYS[1], string.rep('x', 5000000), 1)`, "held by " + strings.Repeat("x", 200)},
		"control characters": {`redis.call('hset', KEYS[1], 'a\27[2Jb\n', 1)`, `held by "a\x1b[2Jb\n", without`},
		"no count":           {`redis.call('hset', KEYS[1], 'x:1', 'many')`, "held by x:1, without"},
		"a count of nothing": {`redis.call('hset', KEYS[1], 'x:1', 0)`, "held by x:1, without"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				runScript(t, s, test.put+" return 1", "job")
				for _, k := range []taker{c.Lock("job"), c.FencedLock("job"), c.FairLock("job")} {
					_, _, err := k.TryLock(t.Context())
					var held *mortise.HeldError
					if !errors.As(err, &held) || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 400 || len(held.Owner) > 200 || held.Count == 0 {
						t.Errorf("%T: %.300q, want %q", k, err, test.want)
					}
				}
			})
		})
	}
}

// scanning is faults of a driver that can list keys.
type scanning struct{ faults }

func (d *scanning) Scan(ctx context.Context, pattern string, fn func(keys []string) error) error {
	return d.Driver.(driver.Scanner).Scan(ctx, pattern, fn)
}

// A walk does not carry what is none of ours, and waits out what passes.
func TestLocksReadsNothingHuge(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		f := &scanning{faults{Driver: s.Driver()}}
		c := mortise.New(f, nil)
		defer c.Close()
		hold, _ := mustLock(t, c.Lock("job"), t.Context())
		defer hold.Unlock()
		runScript(t, s, "for i = 1, 20 do redis.call('hset', KEYS[1], i, string.rep('x', 100000)) end return 1", "huge")
		again := &driver.Error{Class: driver.Passing, Err: errors.New("TRYAGAIN")}
		fails := 3
		f.Set(func(_ context.Context, name string) error {
			if name == "inspect" && fails > 0 {
				fails--
				return again
			}
			return nil
		}, nil)
		var names []string
		for st, err := range c.Locks(t.Context(), "*") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, st.Name)
		}
		if len(names) != 1 || names[0] != "job" || fails != 0 {
			t.Errorf("a walk shows %v, want job alone", names)
		}
	})
}
