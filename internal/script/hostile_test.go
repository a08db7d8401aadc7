package script_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var spent = regexp.MustCompile(`(?m)^cmdstat_(\S+?):calls=(\d+),usec=(\d+),`)

// work returns how many commands ran inside the scripts since the statistics
// were reset, and how many microseconds the scripts took on the server.
func (w *world) work(t *testing.T) (calls, micros int) {
	t.Helper()
	for _, m := range spent.FindAllStringSubmatch(w.must(t, "INFO", "commandstats").Str(), -1) {
		n, _ := strconv.Atoi(m[2])
		us, _ := strconv.Atoi(m[3])
		switch {
		case strings.HasPrefix(m[1], "eval"):
			micros += us
		case !strings.HasPrefix(m[1], "config") && m[1] != "info":
			calls += n
		}
	}
	return calls, micros
}

// The number of claims is limited: a later request waits behind all of them,
// and claims nothing.
func TestSemaphoreClaimsAreBounded(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := tries{w, t}
		counts("5")(t, w)
		// As if that many had asked; one by one, the embedded Redis takes long.
		const crowd = 990
		w.must(t, "EVAL", `
			local clock = redis.call('time')
			local till = clock[1] * 1000 + math.floor(clock[2] / 1000) + 3000
			for i = 0, ARGV[1] - 1 do
				redis.call('hset', KEYS[1], 'waiter' .. i, string.format('%d 6 %.0f', i + 1, till))
			end`, "1", claims, fmt.Sprint(crowd))
		for i := crowd; i < 1001; i++ {
			s.acquire(fmt.Sprint("lane", i), 6, fmt.Sprint("waiter", i), false)
		}
		if n := w.must(t, "HLEN", claims).Int(); n != 1000 {
			t.Errorf("%d claims, want 1000", n)
		}
		s.acquire("late", 1, "late", false)
		s.acquire("late", 1, "", false)
		counts("6")(t, w)
		s.acquire("lane999", 6, "waiter999", false)
		s.acquire("lane0", 6, "waiter0", true)
		if n := w.must(t, "HLEN", claims).Int(); n != 999 {
			t.Errorf("%d claims, want 999", n)
		}
	})
}
