package script

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var tokens = load("tokens")

// errNoIdleTimes is for a server that counts uses instead.
var errNoIdleTimes = errors.New("redis does not know how long keys were not used: its maxmemory-policy is an LFU one, which counts uses instead")

// Tokens is what is known of the counter of the fencing tokens of a name, and of its
// fences, without a use of them.
type Tokens struct {
	Idle     time.Duration // since the last use of any of them; -1 if there are none
	Counter  bool
	Fences   int
	TTL      time.Duration // of the one that expires first; -1 if none does
	Held     bool          // the lock is held
	Awaited  bool          // it is waited for
	Expiring bool          // some got a TTL now
}

// TokensResult is the outcome for one name of [InspectTokens].
type TokensResult struct {
	Tokens Tokens
	Err    error
}

// InspectTokens returns for how long the counters of tokens, and the fences, of names that
// share their counter were not used. If expire is not 0, those that were idle for that
// long expire after that time, unless the lock is in use. Result i belongs to names[i].
func InspectTokens(ctx context.Context, d driver.Driver, idle, expire time.Duration, names ...[]string) []TokensResult {
	calls := make([]driver.Call, len(names))
	for i, shared := range names {
		keys := []string{keyspace.Token(shared[0]), keyspace.FairQueue(shared[0])}
		for _, name := range shared {
			keys = append(keys, name, keyspace.Fence(name), keyspace.Turns(name))
		}
		seconds := (idle + time.Second - 1) / time.Second
		calls[i] = driver.Call{Script: tokens, Keys: keys, Args: []string{strconv.FormatInt(int64(seconds), 10), millis(expire)}}
	}
	results := make([]TokensResult, len(names))
	for i, r := range d.Batch(ctx, calls) {
		switch {
		case r.Err != nil && strings.Contains(r.Err.Error(), "LFU"):
			results[i].Err = &driver.Error{Class: driver.Unfit, Err: errNoIdleTimes}
		case r.Err != nil:
			results[i].Err = r.Err
		case !is(r.Value, "iiiiii"):
			results[i].Err = unexpected(tokens, r.Value)
		default:
			results[i].Tokens = readTokens(r.Value)
		}
	}
	return results
}

func readTokens(v driver.Value) Tokens {
	t := Tokens{
		Idle: -1, Counter: v.At(1).Int() > 0, Fences: int(v.At(2).Int()), TTL: ttl(v.At(3)),
		Held: v.At(4).Int() == 1, Awaited: v.At(4).Int() == 2, Expiring: v.At(5).Int() > 0,
	}
	if seconds := v.At(0).Int(); seconds >= 0 {
		t.Idle = span(min(seconds, math.MaxInt64/1000) * 1000)
	}
	return t
}
