package mortisetest_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

func do(t *testing.T, s *mortisetest.Server, command ...string) {
	t.Helper()
	if _, err := s.Do(command...); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// A failover forgets exactly the last writes, whatever they changed.
func TestFailOver(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string][][]string{
		"values": {
			{"SET", "text", "b"}, {"HDEL", "hash", "f"}, {"HINCRBY", "hash", "g", "5"}, {"LPOP", "list"}, {"RPUSH", "list", "d"},
			{"SREM", "set", "a"}, {"ZREM", "zset", "a"}, {"ZADD", "zset", "7", "b"}, {"PEXPIRE", "text", "5000"}, {"PERSIST", "gone"},
			{"SET", "new", "1"}, {"HSET", "text2", "f", "1"},
		},
		"keys":     {{"DEL", "text", "hash", "list"}, {"RENAME", "set", "set2"}, {"DEL", "zset"}, {"SET", "list", "a string"}, {"UNLINK", "gone"}},
		"all keys": {{"FLUSHALL"}, {"SET", "a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) { failOver(t, s, writes) })
		})
	}
}

func failOver(t *testing.T, s *mortisetest.Server, writes [][]string) {
	do(t, s, "SET", "text", "a", "PX", "60000")
	do(t, s, "HSET", "hash", "f", "1", "g", "2")
	do(t, s, "RPUSH", "list", "a", "b", "c")
	do(t, s, "SADD", "set", "a", "b")
	do(t, s, "ZADD", "zset", "1.5", "a", "1795213885401", "b")
	do(t, s, "SET", "gone", "x", "PX", "5000")
	time.Sleep(time.Second)
	for _, w := range writes {
		do(t, s, w...)
		do(t, s, "GET", "nothing") // no write
		do(t, s, "DEL", "nothing") // changes nothing
		do(t, s, "PEXPIRE", "nothing", "1")
	}
	time.Sleep(time.Second)
	if n := s.FailOver(len(writes)); n != len(writes) {
		t.Errorf("%d writes were forgotten, want %d", n, len(writes))
	}
	want(t, s, `"a"`, "GET", "text")
	want(t, s, `58000`, "PTTL", "text") // the key's end, not what was left of it
	want(t, s, `["f" "1" "g" "2"]`, "HGETALL", "hash")
	want(t, s, `["a" "b" "c"]`, "LRANGE", "list", "0", "-1")
	want(t, s, `["a" "b"]`, "SMEMBERS", "set")
	want(t, s, `["a" "b"]`, "ZRANGE", "zset", "0", "-1")
	want(t, s, `"1795213885401"`, "ZSCORE", "zset", "b")
	want(t, s, `3000`, "PTTL", "gone")
	want(t, s, `-1`, "PTTL", "hash")
	want(t, s, `["gone" "hash" "list" "set" "text" "zset"]`, "KEYS", "*")
	s.FailOver(1)
	want(t, s, `["hash" "list" "set" "text" "zset"]`, "KEYS", "*") // the last of the writes before
	if n := s.FailOver(9); n != 5 {
		t.Errorf("%d writes were forgotten, want 5: there were no more", n)
	}
	want(t, s, `[]`, "KEYS", "*")
}

// A server knows its last 256 writes.
func TestFailOverOfMany(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		for range 260 {
			do(t, s, "INCR", "n")
		}
		if n := s.FailOver(1000); n != 256 {
			t.Errorf("%d writes were forgotten, want 256", n)
		}
		want(t, s, `"4"`, "GET", "n")
	})
}

// A script is forgotten as a whole, and a key whose time has come meanwhile stays gone.
func TestFailOverForgetsScripts(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		_, heard := listen(t, l, "a")
		two := driver.NewScript("two", `redis.call('set', KEYS[1], 1, 'px', 1000) redis.call('set', KEYS[1], 2, 'px', 2000) redis.call('incr', 'n')`)
		if _, err := l.Eval(t.Context(), driver.Call{Script: two, Keys: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		do(t, s, "DEL", "k")
		s.FailOver(1)
		want(t, s, `"2"`, "GET", "k")
		heard.want(t, "+a") // its connection broke
		if n := s.FailOver(1); n != 1 {
			t.Errorf("%d writes were forgotten, want 1", n)
		}
		want(t, s, `[]`, "KEYS", "*")
		heard.want(t, "+a")
		if _, err := l.Eval(t.Context(), driver.Call{Script: two, Keys: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		do(t, s, "DEL", "k")
		time.Sleep(2 * time.Second)
		s.FailOver(1)
		want(t, s, `nil`, "GET", "k")
		want(t, s, `"1"`, "GET", "n")
		s.FailOver(1)
		want(t, s, `0`, "EXISTS", "n")
		mustAdd(t, l, "n")
		wantHits(t, s.Hits(), map[mortisetest.Hit]int{mortisetest.FailedOver: 4, mortisetest.Forgotten: 4, mortisetest.WasCut: 4})
	})
}

// A restart loses everything, and an eviction one key.
func TestRestartAndEviction(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		_, heard := listen(t, l, "a")
		for _, key := range []string{"a", "b", "c"} {
			mustAdd(t, l, key)
		}
		if n := s.Evict("a", "x"); n != 1 {
			t.Errorf("%d keys were evicted, want 1", n)
		}
		want(t, s, `["b" "c"]`, "KEYS", "*")
		s.Restart()
		want(t, s, `[]`, "KEYS", "*")
		heard.want(t, "+a")
		if n := s.FailOver(10); n != 0 {
			t.Errorf("%d writes were forgotten after a restart, want none", n)
		}
		mustAdd(t, l, "a")
		want(t, s, `"1"`, "GET", "a")
	})
}

// A server that refuses says why, to all.
func TestRefuse(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		other := s.Link()
		defer other.Close()
		do(t, s, "SET", "n", "3")
		s.Refuse(mortisetest.Loading)
		for _, l := range []*mortisetest.Link{l, other} {
			_, err := add(t.Context(), l, "n")
			wantClass(t, err, driver.Passing)
			if got := driver.Reason(err); got != "it is loading its data" {
				t.Errorf("reason %q", got)
			}
			wantClass(t, l.Scan(t.Context(), "*", nil), driver.Passing)
		}
		s.Refuse("")
		mustAdd(t, l, "n")
		want(t, s, `"4"`, "GET", "n")
	})
}

// The error replies have the classes that they have from a real server.
func TestReplies(t *testing.T) {
	for reply, class := range map[string]driver.Class{
		mortisetest.Loading: driver.Passing, mortisetest.ReadOnly: driver.Passing, mortisetest.OutOfMemory: driver.Passing,
		mortisetest.NoReplicas: driver.Passing, mortisetest.MasterDown: driver.Passing, mortisetest.Busy: driver.Passing,
		mortisetest.TryAgain: driver.Passing, mortisetest.MaxClients: driver.Passing, mortisetest.NoPermission: driver.Denied,
	} {
		if got := driver.ClassifyReply(reply); got != class {
			t.Errorf("%q has class %v, want %v", reply, got, class)
		}
	}
}

// A jump of the clock ends keys too early, or too late, and TIME follows it.
func TestJump(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		set := func() {
			t.Helper()
			want(t, s, `"OK"`, "SET", "k", "1", "PX", "30000")
		}
		unix := func() int64 {
			t.Helper()
			v, err := s.Do("TIME")
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			for _, digit := range v.At(0).Str() {
				n = 10*n + int64(digit-'0')
			}
			return n
		}
		start := unix()
		set()
		s.Jump(20 * time.Second)
		want(t, s, `10000`, "PTTL", "k")
		time.Sleep(5 * time.Second)
		want(t, s, `5000`, "PTTL", "k")
		s.Jump(-60 * time.Second)
		want(t, s, `65000`, "PTTL", "k")
		if got := unix() - start; got != -35 {
			t.Errorf("TIME has moved by %d s, want -35", got)
		}
		time.Sleep(65*time.Second - 1)
		want(t, s, `"1"`, "GET", "k")
		time.Sleep(time.Nanosecond)
		want(t, s, `nil`, "GET", "k")
		set()
		want(t, s, `1`, "DEL", "k")
		s.Jump(10 * time.Second)
		s.FailOver(1)
		want(t, s, `20000`, "PTTL", "k")
		s.Jump(20 * time.Second)
		want(t, s, `-2`, "PTTL", "k")
		if n := s.Hits()[mortisetest.Jumped]; n != 4 {
			t.Errorf("%d jumps were counted, want 4", n)
		}
	})
}

// AfterEach can fail the server over between a script and its reply.
func TestAfterEach(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		ran := 0
		s.AfterEach(func(script string) {
			if ran++; script == "semaphore_add" && ran == 2 {
				s.FailOver(1)
			}
		})
		for range 3 {
			mustAdd(t, l, "n")
		}
		want(t, s, `"2"`, "GET", "n")
		s.AfterEach(nil)
		mustAdd(t, l, "n")
		if ran != 3 {
			t.Errorf("it was called %d times, want 3", ran)
		}
	})
}

// A pattern that miniredis cannot read is refused, as package memredis does.
func TestPatternIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		if err := l.Scan(t.Context(), "[z-a]", nil); err == nil {
			t.Error("no error")
		}
		mustAdd(t, l, "n")
	})
}
