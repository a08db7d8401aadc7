package script_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// crash is what Lua says of a mistake in a script.
var crash = regexp.MustCompile(`attempt to|bad argument|number expected|not a number`)

// store writes a key of some type, with n fields, the first ones of which are in the arguments.
var store = driver.NewScript("store", `
local kind, n = ARGV[1], tonumber(ARGV[2])
redis.call('del', KEYS[1])
for i = 1, n do
	local field, value = ARGV[3 + (i * 2 - 2) % (#ARGV - 2)], ARGV[3 + (i * 2 - 1) % (#ARGV - 2)]
	if i * 2 > #ARGV - 2 then field = field .. i end
	local score = value
	if not string.match(value, '^%-?%d+$') and value ~= 'inf' and value ~= '-inf' then score = 0 end
	if kind == 'h' then redis.call('hset', KEYS[1], field, value)
	elseif kind == 'l' then redis.call('rpush', KEYS[1], field)
	elseif kind == 'e' then redis.call('sadd', KEYS[1], field)
	elseif kind == 'z' then redis.call('zadd', KEYS[1], score, field)
	elseif kind == 'x' then redis.call('xadd', KEYS[1], '*', field, value)
	elseif kind == 's' then redis.call('set', KEYS[1], value) end
end
return 1`)

// storedKeys are those of a name, and storedFields what may lie there.
var storedKeys = []string{
	job, keyspace.FairQueue(job), keyspace.FairDeadlines(job), keyspace.FairOurs(job), keyspace.FairSigns(job), keyspace.Token(job), keyspace.Turns(job),
	keyspace.PermitExpiries(job), keyspace.Claims(job), keyspace.BarrierOutcomes(job) + ":" + me, keyspace.RWHolds(job) + ":" + me + ":rwlock_timeout:1",
	keyspace.Operation(job, me), keyspace.Operation(job, trial.Lane),
	record, index, past,
}

var storedFields = [][6]string{
	{me, "1", "mode", "read", java, "2"}, {"mode", "election", "term", "nan", me, "1"}, {"mode", "barrier", "parties", "3", me, "99999999999999999999 0"},
	{"mode", "doublebarrier", "parties", "3", me, "-1"}, {me, "-9223372036854775808", "next", "x", "broken", "y"}, {"a", me, "a:" + me + ":expire_time", "inf", "a:" + me + ":lock_count", ""},
	{one, "inf", two, "-inf", "x", "0"}, {"told", "9 9", "noted", "x", "scan4", "-1"}, {me, "1 6 99999999999999", "waiter", "1", java, "1e400 x y"},
	{"?" + me, "5", me, "0x10", "", ""}, {"body", "{}", "at", "nan", "edition", "inf"}, {"edition", "7", "ask:" + me, "{}", "e", "{}"},
}

// Whatever lies under the keys of a name, no script fails for a mistake of its own, and none gives a
// reply that its contract does not have.
func FuzzStored(f *testing.F) {
	w := newWire(fuzzServer(f), nil)
	calls := slices.Sorted(maps.Keys(everyCall))
	for i := range calls {
		seed := storedFields[i%len(storedFields)]
		for _, kinds := range []string{"h", "s", "hlzhhszzhs  s", "zlhzhlhs", " lzhhszzhsss"} {
			f.Add(uint8(i), kinds, uint16(3), seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, kinds string, n uint16, a, b, c, d, e, g string) {
		w.must(t, "FLUSHALL")
		name := calls[int(call)%len(calls)]
		for i, key := range storedKeys {
			if strings.HasPrefix(name, "Permit") && strings.HasPrefix(key, "mortise:op:") {
				continue // it has a reply, which the call gives again
			}
			if i < len(kinds) && strings.ContainsRune("hlezsx", rune(kinds[i])) {
				size := strconv.Itoa(int(n%6) + 1)
				if _, err := w.Eval(t.Context(), driver.Call{Script: store, Keys: []string{key}, Args: []string{kinds[i : i+1], size, a, b, c, d, e, g}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if name == "RenewAndWait" {
			return // it needs a driver that can wait
		}
		for range 2 {
			err := everyCall[name](t.Context(), w)
			if err != nil {
				wantClear(t, name, err)
			}
		}
	})
}

// wantClear checks the error of a call.
func wantClear(t *testing.T, call string, err error) {
	t.Helper()
	text := err.Error()
	said := errors.Is(err, script.ErrTooMany) || strings.Contains(text, "the operation was over")
	if crash.MatchString(text) || driver.ClassOf(err) == driver.Other && !said {
		t.Errorf("%s, class %v: %v", call, driver.ClassOf(err), err)
	}
	if len(text) > 1000 {
		t.Errorf("%s: the error has %d bytes: %.200s", call, len(text), text)
	}
}
