package behavior

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

const month = 720 * time.Hour

// uses returns what a client says about its tokens, by name.
func uses(t *testing.T, c *mortise.Client) map[string]mortise.TokenUse {
	t.Helper()
	all := make(map[string]mortise.TokenUse)
	for use, err := range c.TokenUses(t.Context()) {
		check(t, err)
		if _, again := all[use.Name]; again {
			t.Errorf("%s is listed twice", use.Name)
		}
		all[use.Name] = use
	}
	return all
}

func draw(t *testing.T, c *mortise.Client, name string) int64 {
	t.Helper()
	hold, _ := mustFence(t, c.FencedLock(name), t.Context())
	mustUnlock(t, hold)
	return hold.Token()
}

func TestTokenUses(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		plain := mortise.New(s.Driver(), nil)
		defer plain.Close()
		c := mortise.New(s.Driver(), &mortise.Options{Prefix: "a:"})
		defer c.Close()
		guard := fencing.NewGuard(s.Driver())
		defer guard.Close()
		draw(t, c, "old")
		draw(t, c, "{old}:2")
		draw(t, plain, "foreign")
		do(t, s, "SET", "redisson_lock_token:{a:boss}", "7")
		do(t, s, "HSET", "a:boss", "x:1", "1")
		time.Sleep(month)
		check(t, guard.Admit(t.Context(), "a:resource", 5))
		draw(t, c, "new")
		time.Sleep(time.Hour)
		for range 2 { // nothing that looks at all of them is a use
			for _, err := range plain.Locks(t.Context(), "*") {
				check(t, err)
			}
			want := map[string]mortise.TokenUse{
				"old":      {Name: "old", Idle: month + time.Hour, Counter: true, TTL: -1},
				"{old}:2":  {Name: "{old}:2", Idle: month + time.Hour, Counter: true, TTL: -1},
				"boss":     {Name: "boss", Idle: month + time.Hour, Counter: true, InUse: true, TTL: -1},
				"resource": {Name: "resource", Idle: time.Hour, Fence: true, TTL: -1},
				"new":      {Name: "new", Idle: time.Hour, Counter: true, TTL: -1},
			}
			if got := uses(t, c); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the uses are %+v, want %+v", got, want)
			}
		}
	})
}

func TestExpireTokens(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(s.Driver(), nil)
		defer c.Close()
		guard := fencing.NewGuard(s.Driver())
		defer guard.Close()
		expires := func(want bool, name string) {
			t.Helper()
			if got, err := c.ExpireTokens(t.Context(), name, month, time.Hour); err != nil || got != want {
				t.Errorf("ExpireTokens of %s = %v, %v, want %v", name, got, err, want)
			}
		}
		for _, name := range []string{"gone", "drawn", "guarded"} {
			check(t, guard.Admit(t.Context(), name, draw(t, c, name)))
		}
		expires(false, "gone")
		time.Sleep(month)
		hold, _ := mustLock(t, c.Lock("gone"), t.Context())
		expires(false, "gone")
		mustUnlock(t, hold)
		for _, name := range []string{"gone", "drawn", "guarded"} {
			expires(true, name)
			expires(true, name)
		}
		// What is used again in time stays.
		if token := draw(t, c, "drawn"); token != 2 {
			t.Errorf("the token is %d, want 2", token)
		}
		check(t, guard.Admit(t.Context(), "guarded", 1))
		time.Sleep(2 * time.Hour)
		want := map[string]mortise.TokenUse{
			"drawn":   {Name: "drawn", Idle: 2 * time.Hour, Counter: true, TTL: -1},
			"guarded": {Name: "guarded", Idle: 2 * time.Hour, Fence: true, TTL: -1},
		}
		if left := uses(t, c); fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("%+v is left, want %+v", left, want)
		}
		// The danger: a client and a guard that know better refuse, and others begin again.
		if _, _, err := c.FencedLock("gone").TryLock(t.Context()); !errors.Is(err, mortise.ErrFenceRegressed) {
			t.Errorf("TryLock = %v, want ErrFenceRegressed", err)
		}
		fresh, _ := open(t, s, nil)
		if token := draw(t, fresh, "guarded"); token != 1 {
			t.Errorf("the token is %d, want 1", token)
		}
	})
}

func TestExpireTokensRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, bad := range []struct {
			name        string
			idle, after time.Duration
		}{{"", month, month}, {"job", -1, month}, {"job", month, 20 * month}, {"job", month, 0}, {"job", month, time.Millisecond}, {"a}b", month, month}} {
			if _, err := c.ExpireTokens(t.Context(), bad.name, bad.idle, bad.after); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("ExpireTokens(%q, %v, %v) = %v, want ErrInvalid", bad.name, bad.idle, bad.after, err)
			}
		}
		if f.Total() > 0 {
			t.Errorf("%d scripts were sent, want none", f.Total())
		}
		lenient, _ := open(t, s, &mortise.Options{AllowAnyName: true})
		if done, err := lenient.ExpireTokens(t.Context(), "a}b", month, month); done || err != nil {
			t.Errorf("ExpireTokens = %v, %v, want false", done, err)
		}
	})
}
