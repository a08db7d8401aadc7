package fencing

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/newest"
)

//go:embed guard.lua
var guardLua string

// Guard writes data in Redis, and refuses a write if its token is older than the newest that the
// resource has seen. It is safe for concurrent use.
//
// The newest token of a resource, its fence, is stored under mortise:fence:{resource}. It has no TTL
// and is never deleted: a forgotten fence would admit late writers. It protects only against writes
// that go through a Guard. A lock that is released by force (ForceUnlock, UnlockOwner, mortise
// unlock) moves the fence of the resource that has the lock's name, and no other: see [Guard.Run].
//
// If a reply is lost, the guard asks again, for at most ten seconds. A repeat changes nothing:
// Redis remembers each write for a minute, under mortise:op:{resource}:<id>.
//
// If Redis loses the fence (a restart or failover without the newest writes, eviction), a guard
// that has seen a newer token there notices, and refuses every write with mortise.ErrFenceRegressed
// until the fence has been corrected: writes of unknown holders may have been lost with it. A guard
// remembers the ten thousand resources that it used last.
//
// What it does not guarantee: anything if the fence is lost and no guard has seen it; and that a
// write that fails in the middle is rolled back, because Redis does not do that.
type Guard struct {
	driver driver.Driver
	tokens newest.Table // by their fences
}

// NewGuard returns a guard that works through d, and owns it from then on. It does no I/O. The
// driver may use the same Redis client as that of a mortise.Client, but must be a driver of its
// own:
//
//	guard := fencing.NewGuard(goredis.Wrap(rdb))
//	defer guard.Close()
func NewGuard(d driver.Driver) *Guard {
	if d == nil {
		panic("fencing: nil driver")
	}
	return &Guard{driver: d}
}

// Close closes the driver. Calls in flight fail.
func (g *Guard) Close() error { return g.driver.Close() }

// Script is a guarded write in Lua. It is safe for concurrent use, and should be created once.
type Script struct{ script *driver.Script }

// NewScript creates a guarded script from Lua text that uses KEYS, ARGV and redis.call as usual. It
// should return nothing, a whole number or text; anything else reads as the empty text. If it
// returns an error of redis.pcall, or fails, what it wrote before stays.
func NewScript(lua string) *Script {
	return &Script{driver.NewScript("fencing", "local function write(KEYS, ARGV)\n"+lua+"\nend\n"+guardLua)}
}

var (
	set       = NewScript(refuseHash + `return redis.call('set', KEYS[1], ARGV[1])`)
	hashSet   = NewScript(`return redis.call('hset', KEYS[1], ARGV[1], ARGV[2])`)
	increment = NewScript(`return redis.call('incrby', KEYS[1], ARGV[1]) and redis.call('get', KEYS[1])`)
	remove    = NewScript(`return redis.call('del', KEYS[1])`)
	admit     = NewScript(``)
)

// refuseHash keeps SET, which replaces keys of all types, from a lock.
const refuseHash = `local fields = redis.pcall('hlen', KEYS[1])
if type(fields) == 'number' and fields > 0 then return {err = 'WRONGTYPE the key holds a hash, as a lock does'} end
`

// Set sets key to value. The key is the resource: it has a fence of its own. Keys that are written
// under one lock should share a fence, see [Guard.Run]. The key must not be the name of the lock, which is
// a key itself.
//
// It blocks for one round trip; while Redis does not answer it retries for ten seconds, or until
// ctx ends.
//
// Errors: [ErrStale]; of package mortise, ErrFenceRegressed if Redis has lost the newest token,
// with a *FenceError that names it; ErrInvalid for a token below 1, which a hold without token has,
// or a name that no lock may have; ErrWrongKind if the key or the fence holds something else;
// ErrUnreachable; ErrDenied; ErrClosed if the guard or its Redis client was closed;
// ErrUnknownOutcome if a copy of the write may have run or may yet run; the error of ctx.
func (g *Guard) Set(ctx context.Context, key, value string, token int64) error {
	_, err := g.Run(ctx, key, token, set, []string{key}, value)
	return err
}

// HSet sets a field of the hash key. Everything else is as with [Guard.Set].
func (g *Guard) HSet(ctx context.Context, key, field, value string, token int64) error {
	_, err := g.Run(ctx, key, token, hashSet, []string{key}, field, value)
	return err
}

// IncrBy adds n to the number at key and returns the sum. It adds once, however
// many replies are lost. Everything else is as with [Guard.Set].
func (g *Guard) IncrBy(ctx context.Context, key string, n, token int64) (sum int64, err error) {
	result, err := g.Run(ctx, key, token, increment, []string{key}, strconv.FormatInt(n, 10))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(result, 10, 64)
}

// Delete deletes key, but not its fence, and reports whether it was there.
// Everything else is as with [Guard.Set].
func (g *Guard) Delete(ctx context.Context, key string, token int64) (bool, error) {
	result, err := g.Run(ctx, key, token, remove, []string{key})
	return result == "1", err
}

// Admit records that a token was seen, and does nothing else. It makes Guard a [Store]. Everything
// else is as with [Guard.Set].
func (g *Guard) Admit(ctx context.Context, resource string, token int64) error {
	_, err := g.run(ctx, resource, token, 0, admit, nil)
	return err
}

// Run runs a script of the caller if the token is not older than the newest that the resource has
// seen, atomically with that check, and returns the script's result. The resource is any name, such
// as that of the lock. On a cluster the keys must be in its slot: give both names the same part in
// braces. A guard does not know mortise.Options.Prefix: where tenants share a Redis, each resource
// must have the prefix in its name.
//
// Everything else is as with [Guard.Set].
func (g *Guard) Run(ctx context.Context, resource string, token int64, s *Script, keys []string, args ...string) (result string, err error) {
	return g.run(ctx, resource, token, remembered, s, keys, args...)
}

// run is Run with the time for which the outcome is remembered; 0 if a repeat does no harm.
func (g *Guard) run(ctx context.Context, resource string, token int64, remember time.Duration, s *Script, keys []string, args ...string) (result string, err error) {
	if err := check(resource, token); err != nil {
		return "", fail(resource, err)
	}
	fence := keyspace.Fence(resource)
	seen := g.tokens.Seen(fence)
	call := driver.Call{
		Script: s.script,
		Keys:   append([]string{fence, keyspace.Operation(resource, rand.Text())}, keys...),
		Args:   append([]string{strconv.FormatInt(token, 10), strconv.FormatInt(remember.Milliseconds(), 10), strconv.FormatInt(seen, 10)}, args...),
	}
	v, err := g.eval(ctx, call)
	if err != nil {
		return "", fail(resource, err)
	}
	switch status := v.At(0); {
	case status.Kind() == driver.Int && status.Int() == 1 && v.Len() == 2:
		g.tokens.Note(fence, token)
		return v.At(1).Str(), nil
	case status.Kind() == driver.Int && status.Int() == 0 && v.Len() == 2:
		newest, err := strconv.ParseInt(v.At(1).Str(), 10, 64)
		if err == nil {
			g.tokens.Note(fence, newest)
		}
		return "", fmt.Errorf("fencing: %w", &StaleError{Resource: resource, Token: token, Newest: newest})
	case status.Int() == -2 && v.Len() == 2:
		found, _ := strconv.ParseInt(v.At(1).Str(), 10, 64)
		return "", fail(resource, &mortise.FenceError{Key: fence, Seen: seen, Drawn: found})
	case status.Int() == -1:
		return "", fail(resource, fmt.Errorf("%w: %s holds no token", mortise.ErrWrongKind, fence))
	}
	return "", fail(resource, fmt.Errorf("unexpected reply %v", v))
}

const (
	remembered = time.Minute      // for how long a repeat is recognized
	patience   = 10 * time.Second // far less than remembered
)

func check(resource string, token int64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if err := keyspace.Check(resource, false); err != nil {
		return fmt.Errorf("%w: %w", mortise.ErrInvalid, err)
	}
	return nil
}

// checkToken refuses the token of a hold that has none.
func checkToken(token int64) error {
	if token < 1 {
		return fmt.Errorf("%w: %d is not a fencing token; FencedLocks and the terms of elections have tokens", mortise.ErrInvalid, token)
	}
	return nil
}

func fail(resource string, err error) error {
	return fmt.Errorf("fencing: %q: %w", resource, err)
}

// eval sends the same call until Redis has answered.
func (g *Guard) eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	doubt := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second/2) {
		v, err := g.driver.Eval(ctx, call)
		if err == nil {
			return v, nil
		}
		switch driver.ClassOf(err) {
		case driver.Unknown:
			doubt = true
		case driver.NotSent, driver.Passing:
		case driver.Denied:
			return v, fmt.Errorf("%w: %w", mortise.ErrDenied, err)
		case driver.Unfit:
			return v, fmt.Errorf("%w: %w", mortise.ErrInvalid, err)
		case driver.NoScripts:
			return v, fmt.Errorf("%w: %w", mortise.ErrNoScripts, err)
		case driver.Closed:
			return v, fmt.Errorf("%w: %w", mortise.ErrClosed, err)
		case driver.WrongType:
			return v, fmt.Errorf("%w: %w", mortise.ErrWrongKind, err)
		default:
			return v, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
		}
		outcome := mortise.ErrUnreachable
		if doubt {
			outcome = mortise.ErrUnknownOutcome
		}
		err = fmt.Errorf("%w: %w", outcome, err)
		if asked.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(asked), err)
		}
		return v, err
	}
}
