package script

import (
	"context"
	"strconv"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	semaphoreAcquire = load("semaphore_acquire", "number", "claims")
	semaphoreUndo    = load("semaphore_undo", "number", "claims")
	semaphoreRelease = load("semaphore_release", "redissons", "number", "claims", "freed")
	semaphoreAdd     = load("semaphore_add", "number")
	semaphoreDrain   = load("semaphore_drain", "number")
)

// SemaphoreAcquire takes n permits of the semaphore key, all or none. If none, it
// returns why; and if waiter is not empty, it claims n permits for it, for three
// seconds. If all, why.Available is how many others may take without a claim.
// client is its client, if that listens to [keyspace.TurnChannel]; else empty.
func SemaphoreAcquire(ctx context.Context, d driver.Driver, key string, op Operation, n int, waiter, client string) (ok bool, why PermitRefusal, err error) {
	call := counting(semaphoreAcquire, key, op, Silent, strconv.Itoa(n), waiter, client)
	call.Keys = append(call.Keys, keyspace.Claims(key))
	v, ok, err := counted(ctx, d, call, "i")
	if ok || err != nil {
		return ok, PermitRefusal{Available: int(v.At(1).Int())}, err
	}
	if !is(v, "ini") {
		return false, PermitRefusal{}, unexpected(semaphoreAcquire, v)
	}
	return false, permitRefusal(v, n, -1), nil
}

// SemaphoreUndo undoes the acquisition of n permits by op. If op is in
// doubt, a copy may have taken them, or may yet arrive; a later copy takes none. The
// claim of waiter ends. It reports whether permits were given back.
func SemaphoreUndo(ctx context.Context, d driver.Driver, key string, op Operation, n int, waiter string, doubt bool, p Publish) (undone bool, err error) {
	unsure := "0"
	if doubt {
		unsure = "1"
	}
	call := counting(semaphoreUndo, key, op, p, strconv.Itoa(n), waiter, unsure, keyspace.SemaphoreChannel(key))
	call.Keys = append(call.Keys, keyspace.Claims(key))
	return changed(ctx, d, call)
}

// SemaphoreRelease gives n permits to the semaphore key, and returns how many
// there are then. It reports [NotHeld] if there would be more than [MaxNumber]. Otherwise
// err may still say, with class Denied, that waiters could not be notified.
// turn is [Conn.TurnCommand], serial is [Conn.NextRelease], or 0 if the permits are not to be left to Redisson's threads.
func SemaphoreRelease(ctx context.Context, d driver.Driver, key string, op Operation, n int, p Publish, turn string, serial int64) (total int64, became Released, err error) {
	call := giving(semaphoreRelease, key, op, n, p, keyspace.TurnChannel(key, ""), turn, strconv.FormatInt(serial, 10))
	call.Keys = append(call.Keys, keyspace.Claims(key))
	v, done, err := given(ctx, d, call)
	if done {
		became = Released(v.At(0).Int())
	}
	return v.At(1).Int(), became, err
}

// SemaphoreAdd adds n permits. Both n and the result may be negative.
// It reports false if the result would be above [MaxNumber] or below its negative;
// everything else is as with [SemaphoreRelease].
func SemaphoreAdd(ctx context.Context, d driver.Driver, key string, op Operation, n int, p Publish) (total int64, done bool, err error) {
	v, done, err := given(ctx, d, giving(semaphoreAdd, key, op, n, p))
	return v.At(1).Int(), done, err
}

// giving returns the call of a script that adds permits.
func giving(s *driver.Script, key string, op Operation, n int, p Publish, more ...string) driver.Call {
	return counting(s, key, op, p, append([]string{strconv.Itoa(n), strconv.Itoa(MaxNumber), keyspace.SemaphoreChannel(key)}, more...)...)
}

// given makes such a call.
func given(ctx context.Context, d driver.Driver, call driver.Call) (v driver.Value, done bool, err error) {
	v, done, err = counted(ctx, d, call, "i")
	if !done && err == nil && !is(v, "ii") {
		err = unexpected(call.Script, v)
	}
	if !done && err != nil {
		return driver.Value{}, false, err
	}
	return v, done, err
}

// SemaphoreDrain takes all permits, and returns how many there were.
func SemaphoreDrain(ctx context.Context, d driver.Driver, key string, op Operation) (drained int64, err error) {
	v, done, err := counted(ctx, d, counting(semaphoreDrain, key, op, Silent), "i")
	switch {
	case done:
		return v.At(1).Int(), err
	case err == nil:
		err = unexpected(semaphoreDrain, v)
	}
	return 0, err
}
