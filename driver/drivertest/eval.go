package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

func values(t *testing.T, d driver.Driver) {
	binary := "\x00\r\n$5\xff\"é"
	str, num, arr := driver.StringValue, driver.IntValue, driver.ArrayValue
	tests := []struct {
		name, lua string
		args      []string
		want      driver.Value
	}{
		{"nil", `return nil`, nil, driver.Value{}},
		{"false is nil", `return false`, nil, driver.Value{}},
		{"zero", `return 0`, nil, num(0)},
		{"negative", `return -7`, nil, num(-7)},
		{"large", `return 9007199254740992`, nil, num(1 << 53)},
		{"string", `return 'one'`, nil, str("one")},
		{"empty string", `return ''`, nil, str("")},
		{"number as a string", `return '12'`, nil, str("12")},
		{"binary", `return ARGV[1]`, []string{binary}, str(binary)},
		{"long string", `return ARGV[1]`, []string{strings.Repeat("x", 100_000)}, str(strings.Repeat("x", 100_000))},
		{"status", `return redis.status_reply('FINE')`, nil, str("FINE")},
		{"empty array", `return {}`, nil, arr(nil)},
		{"array", `return {1, 'two', false, {3, {}}}`, nil,
			arr([]driver.Value{num(1), str("two"), {}, arr([]driver.Value{num(3), arr(nil)})})},
		{"arguments", `return {KEYS[1], ARGV[1], ARGV[2], #KEYS, #ARGV}`, []string{"", "b"},
			arr([]driver.Value{str("values:arguments"), str(""), str("b"), num(1), num(2)})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := eval(t, d, driver.NewScript(tt.name, tt.lua), []string{"values:" + tt.name}, tt.args...)
			if !equal(got, tt.want) {
				t.Errorf("got %.200v, want %.200v", got, tt.want)
			}
		})
	}
	t.Run("error", func(t *testing.T) {
		script := driver.NewScript("error", `return redis.error_reply('MYERR no such luck')`)
		_, err := d.Eval(t.Context(), driver.Call{Script: script, Keys: []string{"values:error"}})
		wantClass(t, err, driver.Other)
		if !strings.Contains(fmt.Sprint(err), "MYERR no such luck") {
			t.Errorf("error is %q, want Redis's text in it", err)
		}
	})
	t.Run("without keys", func(t *testing.T) {
		if got := eval(t, d, driver.NewScript("keyless", `return #KEYS`), nil); got.Int() != 0 || got.Kind() != driver.Int {
			t.Errorf("got %v, want 0", got)
		}
	})
}

func equal(a, b driver.Value) bool {
	if a.Kind() != b.Kind() || a.Int() != b.Int() || a.Str() != b.Str() || a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !equal(a.At(i), b.At(i)) {
			return false
		}
	}
	return true
}

// noScript covers servers that have never seen a script or have forgotten it.
func noScript(t *testing.T, d driver.Driver, servers ...*redistest.Server) {
	// The text is unique, so that no server knows it.
	script := driver.NewScript("echo", "return {'"+t.Name()+"', ARGV[1]}")
	flush := func() {
		for _, s := range servers {
			s.Must(t, "SCRIPT", "FLUSH")
		}
	}
	t.Run("eval", func(t *testing.T) {
		for _, round := range []string{"never seen", "known", "flushed"} {
			if round == "flushed" {
				flush()
			}
			if got := eval(t, d, script, []string{"noscript"}, round).At(1).Str(); got != round {
				t.Errorf("%s: got %q, want %v", round, got, round)
			}
		}
	})
	t.Run("batch", func(t *testing.T) {
		other := driver.NewScript("other", "return {'other"+t.Name()+"', ARGV[1]}")
		for _, round := range []string{"known in part", "flushed"} {
			if round == "flushed" {
				flush()
			}
			var calls []driver.Call
			for i := range 200 {
				call := driver.Call{Script: script, Keys: []string{fmt.Sprint("noscript:", i)}, Args: []string{fmt.Sprint(i)}}
				if i%2 == 1 {
					call.Script = other
				}
				calls = append(calls, call)
			}
			for i, r := range d.Batch(t.Context(), calls) {
				if r.Err != nil || r.Value.At(1).Str() != fmt.Sprint(i) {
					t.Fatalf("%s: result %d = %v, %v, want %d", round, i, r.Value, r.Err, i)
				}
			}
		}
	})
}

// batch covers calls on many slots, with some that fail among them.
func batch(t *testing.T, d driver.Driver) {
	if got := d.Batch(t.Context(), nil); len(got) != 0 {
		t.Errorf("an empty batch has the results %v", got)
	}
	eval(t, d, driver.NewScript("hash", `return redis.call('HSET', KEYS[1], 'f', 'v')`), []string{"batch:hash"})
	script := driver.NewScript("add", `return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	var calls []driver.Call
	for i := range 3000 {
		calls = append(calls, driver.Call{Script: script, Keys: []string{fmt.Sprint("batch:", i)}, Args: []string{fmt.Sprint(i)}})
	}
	calls[1000].Keys = []string{"batch:hash"}
	calls[2000] = driver.Call{Script: driver.NewScript("keyless", `return 2000`)}
	results := d.Batch(t.Context(), calls)
	if len(results) != len(calls) {
		t.Fatalf("%d results for %d calls", len(results), len(calls))
	}
	for i, r := range results {
		if i == 1000 {
			wantClass(t, r.Err, driver.WrongType)
			continue
		}
		if r.Err != nil || r.Value.Int() != int64(i) {
			t.Fatalf("result %d = %v, %v, want %d", i, r.Value, r.Err, i)
		}
	}
}

// endedContext: nothing is sent for a context that has ended already.
func endedContext(t *testing.T, d driver.Driver, server *redistest.Server) {
	why := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for range 200 { // not a matter of luck
		_, err := d.Eval(ctx, callIncr("ended"))
		results := d.Batch(ctx, []driver.Call{callIncr("ended"), callIncr("ended:2")})
		for _, err := range []error{err, results[0].Err, results[1].Err} {
			wantClass(t, err, driver.NotSent)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
				t.Fatalf("%v does not match the context's error and cause", err)
			}
		}
	}
	eval(t, d, incr, []string{"ended:later"}) // everything sent earlier has arrived before this
	if got := server.Int(t, "EXISTS", "ended", "ended:2"); got != 0 {
		t.Errorf("%d scripts ran for a context that had ended, want 0", got)
	}
}

func scan(t *testing.T, d driver.Driver) {
	scanner, ok := d.(driver.Scanner)
	if !ok {
		t.Fatal("the driver is no driver.Scanner")
	}
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprintf("scan:%03d", i))
		eval(t, d, incr, []string{want[i]})
	}
	seen := map[string]bool{}
	err := scanner.Scan(t.Context(), "scan:*", func(keys []string) error {
		for _, k := range keys {
			seen[k] = true
		}
		return nil
	})
	var got []string
	for k := range seen {
		got = append(got, k)
	}
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Scan found %d keys, %v, want %d", len(got), err, len(want))
	}

	empty := 0
	if err := scanner.Scan(t.Context(), "no such key", func([]string) error { empty++; return nil }); err != nil || empty == 0 {
		t.Errorf("Scan of what is not there: %v after %d pages, want one at least, which says that a server has answered", err, empty)
	}
	stop, pages := errors.New("enough"), 0
	if err := scanner.Scan(t.Context(), "scan:*", func([]string) error { pages++; return stop }); !errors.Is(err, stop) || errors.Unwrap(err) != nil || pages != 1 {
		t.Errorf("Scan = %v after %d pages, want the function's own error after one", err, pages)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = scanner.Scan(ctx, "scan:*", func([]string) error { return nil })
	wantClass(t, err, driver.NotSent)
}

// without: a master is frozen. What all know is learnt from the others, their keys are found nevertheless, and the error names it.
func (s suite) without(t *testing.T, d driver.Driver, c *redistest.ClusterSet) {
	frozen, want := c.Masters[1], 0
	for _, m := range c.Masters {
		if keys, _ := m.Must(t, "KEYS", "scan:*").([]any); m != frozen {
			want += len(keys)
		}
	}
	frozen.Pause(t)
	defer frozen.Resume(t)
	s.promptly(t, "asking for the topology", func() {
		wantTopology(t, d, driver.Topology{Cluster: true, Sharded: redistest.Sharded(t)})
	})
	seen := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := d.(driver.Scanner).Scan(ctx, "scan:*", func(keys []string) error {
		for _, k := range keys {
			seen[k] = true
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), frozen.Addr()) {
		t.Errorf("Scan: %v, want an error that names %s", err, frozen.Addr())
	}
	if len(seen) != want {
		t.Errorf("Scan found %d keys, want the %d of the others", len(seen), want)
	}
}
