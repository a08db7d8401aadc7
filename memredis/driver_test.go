package memredis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/memredis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	incr = driver.NewScript("incr", `return redis.call('incr', KEYS[1])`)
	echo = driver.NewScript("echo", `return ARGV[1]`)
	set  = driver.NewScript("set", `redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return redis.call('pttl', KEYS[1])`)
	pttl = driver.NewScript("pttl", `return redis.call('pttl', KEYS[1])`)
	tell = driver.NewScript("tell", `return redis.call('publish', KEYS[1], ARGV[1])`)
)

func call(s *driver.Script, key string, args ...string) driver.Call {
	return driver.Call{Script: s, Keys: []string{key}, Args: args}
}

// bubble runs f in virtual time with a server and a driver. It fails the test if they leave a
// goroutine behind.
func bubble(t *testing.T, f func(t *testing.T, s *memredis.Server, d driver.Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		d := s.Driver()
		defer d.Close()
		f(t, s, d)
	})
}

func eval(t *testing.T, d driver.Driver, c driver.Call) driver.Value {
	t.Helper()
	v, err := d.Eval(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Script.Name(), err)
	}
	return v
}

func wantClass(t *testing.T, err error, want driver.Class) {
	t.Helper()
	if err == nil || driver.ClassOf(err) != want {
		t.Errorf("the error is %v, want class %v", err, want)
	}
}

func TestTimeMovesWithTheBubble(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		if got, want := eval(t, d, call(set, "k", "v", "36000000")).Int(), int64(36_000_000); got != want {
			t.Errorf("PTTL is %d, want %d", got, want)
		}
		for hours := int64(1); hours < 10; hours++ {
			time.Sleep(time.Hour)
			if got, want := eval(t, d, call(pttl, "k")).Int(), (10-hours)*3_600_000; got != want {
				t.Errorf("after %d hours PTTL is %d, want %d", hours, got, want)
			}
		}
		time.Sleep(time.Hour - time.Millisecond)
		if got := eval(t, d, call(pttl, "k")).Int(); got != 1 {
			t.Errorf("a millisecond before its end PTTL is %d, want 1", got)
		}
		time.Sleep(time.Millisecond)
		if got := eval(t, d, call(pttl, "k")).Int(); got != -2 {
			t.Errorf("at its end PTTL is %d, want -2", got)
		}
	})
}

func TestBatch(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		var calls []driver.Call
		for i := range 500 {
			calls = append(calls, call(echo, "k", fmt.Sprint("argument ", i)))
		}
		calls[250] = call(driver.NewScript("bad", `return redis.call('incr', ARGV[1])`), "k", "k")
		eval(t, d, call(set, "k", "no number", "1000"))
		for i, r := range d.Batch(t.Context(), calls) {
			switch want := fmt.Sprint("argument ", i); {
			case i == 250:
				wantClass(t, r.Err, driver.Other)
			case r.Err != nil || r.Value.Str() != want:
				t.Errorf("result %d is %v, %v, want %q", i, r.Value, r.Err, want)
			}
		}
		if got := d.Batch(t.Context(), nil); len(got) != 0 {
			t.Errorf("an empty batch gave %v", got)
		}
	})
}

// An error inside an array of a reply is an error of that call alone.
func TestErrorsAreClassified(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		eval(t, d, call(set, "k", "v", "1000"))
		_, err := d.Eval(t.Context(), call(driver.NewScript("hget", `return redis.call('hget', KEYS[1], 'f')`), "k"))
		wantClass(t, err, driver.WrongType)
		_, err = d.Eval(t.Context(), call(driver.NewScript("broken", `return 'unclosed`), "k"))
		wantClass(t, err, driver.Other)
		_, err = d.Eval(t.Context(), call(driver.NewScript("select", `return redis.call('SELECT', 1)`), "k"))
		wantClass(t, err, driver.Other)
		if got := eval(t, d, call(echo, "k", "still here")).Str(); got != "still here" {
			t.Errorf("after the errors comes %q", got)
		}
	})
}

// With a context that has ended before the call, nothing runs.
func TestContextOverBefore(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		cause := errors.New("the request is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := d.Eval(ctx, call(incr, "k"))
		wantClass(t, err, driver.NotSent)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%v does not match the context's error and cause", err)
		}
		for _, r := range d.Batch(ctx, []driver.Call{call(incr, "k"), call(incr, "k")}) {
			wantClass(t, r.Err, driver.NotSent)
		}
		wantClass(t, d.(driver.Scanner).Scan(ctx, "*", func([]string) error { return nil }), driver.NotSent)
		if got := eval(t, d, call(incr, "k")).Int(); got != 1 {
			t.Errorf("scripts have run %d times", got-1)
		}
	})
}

func TestConcurrentCalls(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		const users, rounds = 16, 20
		var all sync.WaitGroup
		for u := range users {
			all.Go(func() {
				for i := range rounds {
					want := fmt.Sprint(u, ".", i)
					r := d.Batch(t.Context(), []driver.Call{call(incr, "k"), call(echo, "k", want)})
					if r[0].Err != nil || r[1].Err != nil || r[1].Value.Str() != want {
						t.Errorf("a batch gave %v, want %s", r, want)
					}
				}
			})
		}
		all.Wait()
		if got := eval(t, d, call(incr, "k")).Int(); got != users*rounds+1 {
			t.Errorf("the counter is %d, want %d", got, users*rounds+1)
		}
	})
}

func TestDriverClose(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server, d driver.Driver) {
		eval(t, d, call(incr, "k"))
		for range 2 {
			if err := d.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		_, err := d.Eval(t.Context(), call(incr, "k"))
		wantClass(t, err, driver.Closed)
		wantClass(t, d.Batch(t.Context(), []driver.Call{call(incr, "k")})[0].Err, driver.Closed)
		wantClass(t, d.(driver.Scanner).Scan(t.Context(), "*", func([]string) error { return nil }), driver.Closed)
		_, err = d.(driver.Commander).Command(t.Context(), "mem", "PING")
		wantClass(t, err, driver.Closed)
		other := s.Driver()
		defer other.Close()
		if got := eval(t, other, call(incr, "k")).Int(); got != 2 { // the server still works
			t.Errorf("the counter is %d, want 2", got)
		}
	})
}

func TestScan(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		var want []string
		for i := range 300 {
			key := fmt.Sprintf("job:%03d", i)
			eval(t, d, call(incr, key))
			eval(t, d, call(incr, "other:"+key))
			want = append(want, key)
		}
		var got []string
		if err := d.(driver.Scanner).Scan(t.Context(), "job:*", func(keys []string) error {
			got = append(got, keys...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("Scan found %d keys, want %d", len(got), len(want))
		}
		stop := errors.New("enough")
		if err := d.(driver.Scanner).Scan(t.Context(), "*", func([]string) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("Scan: %v, want the error of fn", err)
		}
	})
}

func TestTopology(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memredis.Server, d driver.Driver) {
		if got, err := d.Topology(t.Context()); err != nil || got != (driver.Topology{}) {
			t.Errorf("the topology is %+v, %v, want a single server", got, err)
		}
		if got := d.Shard("k"); got != "" {
			t.Errorf("the shard is %q, want none", got)
		}
	})
}

// The embedded server answers plain commands as far as it knows them.
func TestDriverSendsCommands(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	d := server.Driver()
	defer d.Close()
	c := d.(driver.Commander)
	addrs, err := c.Servers(t.Context())
	if err != nil || len(addrs) != 1 {
		t.Fatalf("Servers = %q, %v, want one", addrs, err)
	}
	if v, err := c.Command(t.Context(), addrs[0], "SET", "k", "v"); err != nil || v.Str() != "OK" {
		t.Errorf("SET: %v, %v", v, err)
	}
	if v, err := c.Command(t.Context(), addrs[0], "GET", "k"); err != nil || v.Str() != "v" {
		t.Errorf("GET: %v, %v", v, err)
	}
	if _, err := c.Command(t.Context(), addrs[0], "NOSUCHCOMMAND"); err == nil || driver.ClassOf(err) != driver.Other {
		t.Errorf("a command that is not known: %v, want an error of class other", err)
	}
	if _, err := c.Command(t.Context(), "elsewhere:1", "GET", "k"); err == nil || driver.ClassOf(err) != driver.NotSent {
		t.Errorf("a server that is not known: %v, want an error of class not sent", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Command(ended, addrs[0], "GET", "k"); driver.ClassOf(err) != driver.NotSent {
		t.Errorf("an ended context: %v, want an error of class not sent", err)
	}
	if n := server.Connections(); n != 0 {
		t.Errorf("the server keeps %d connections of commands that are over", n)
	}
}

// The reply of a script must not take the process down.
func TestEndlessReply(t *testing.T) {
	s := memredis.New()
	defer s.Close()
	d := s.Driver()
	defer d.Close()
	endless := driver.NewScript("endless", "local t = {} t[1] = t return t")
	if v, err := d.Eval(t.Context(), driver.Call{Script: endless}); driver.ClassOf(err) != driver.Other {
		t.Errorf("got %v, %v, want an error of class other", v, err)
	}
	nested := driver.NewScript("nested", "local t = {} for _ = 2, tonumber(ARGV[1]) do t = {t} end return t")
	for depth, fine := range map[string]bool{"1": true, "999": true, "1000": true, "1001": false} {
		if _, err := d.Eval(t.Context(), driver.Call{Script: nested, Args: []string{depth}}); (err == nil) != fine {
			t.Errorf("a reply that is nested %s times: %v, want that it is fine: %t", depth, err, fine)
		}
	}
}
