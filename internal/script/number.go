package script

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	numberRead   = load("number_read", "number")
	numberSet    = load("number_set", "number")
	numberDelete = load("number_delete", "number")
)

// Remembered is how long Redis remembers the outcome of an operation without an owner.
// A copy of it that arrives later would be taken for a new one.
const Remembered = 5 * time.Minute

// Operation is what all copies of one change of a number share.
type Operation struct {
	// Lane is a name under which operations run one after the other: each is
	// over before the next begins.
	Lane string
	// Serial is the number of the operation; it rises within a lane.
	Serial uint64
}

// MaxNumber is the highest number that Redisson supports.
const MaxNumber = 1<<31 - 1

// ErrNumber is returned if a name holds something that is not a number, or not one
// to count with.
var ErrNumber = &driver.Error{Class: driver.WrongType, Err: errors.New("the key holds no number that can be counted with")}

// errLate is returned for a copy that ran after its operation was over. No caller
// gets it as an answer.
var errLate = &driver.Error{Class: driver.Other, Err: errors.New("the operation was over")}

// ErrUnheard is matched by the error of a change that was made, but that Redis
// refused to publish.
var ErrUnheard = errors.New("done, but Redis refused to notify waiters")

// counting is a call of a script that changes the number key.
func counting(s *driver.Script, key string, op Operation, p Publish, args ...string) driver.Call {
	args = append([]string{millis(Remembered), strconv.FormatUint(op.Serial, 10)}, args...)
	return driver.Call{Script: s, Keys: []string{key, keyspace.Operation(key, op.Lane)}, Args: append(args, p.commands()...)}
}

// counted runs a script that answers with a status. If the change was made, what follows the 1
// has these kinds, and err may say that waiters could not be notified. If it was not, the caller
// checks the form of the answer.
func counted(ctx context.Context, d driver.Driver, call driver.Call, kinds string) (v driver.Value, done bool, err error) {
	v, err = d.Eval(ctx, call)
	if err != nil {
		return v, false, err
	}
	switch {
	case v.At(0).Kind() != driver.Int:
		return v, false, unexpected(call.Script, v)
	case v.At(0).Int() == -1:
		return v, false, ErrNumber
	case v.At(0).Int() == -2:
		return v, false, errLate
	case v.At(0).Int() == 0:
		return v, false, nil
	case v.At(0).Int() == int64(ReleasedLeft) && call.Script == semaphoreRelease && is(v, "i"+kinds):
	case v.At(0).Int() != 1 || !is(v, "i"+kinds) && !is(v, "i"+kinds+"s"):
		return v, false, unexpected(call.Script, v)
	}
	if reason := v.At(1 + len(kinds)).Str(); reason != "" {
		err = &driver.Error{Class: driver.ClassifyReply(reason), Err: fmt.Errorf("%w: %.500s", ErrUnheard, reason)}
	}
	return v, true, err
}

// changed runs a script that answers whether it has changed a number.
func changed(ctx context.Context, d driver.Driver, call driver.Call) (done bool, err error) {
	v, done, err := counted(ctx, d, call, "")
	if err == nil && !states(v, 0, 1) {
		err = unexpected(call.Script, v)
	}
	return done, err
}

// NumberRead reads the number of a semaphore or a latch: 0 if there is none.
func NumberRead(ctx context.Context, d driver.Driver, key string) (int64, error) {
	v, done, err := counted(ctx, d, driver.Call{Script: numberRead, Keys: []string{key}}, "i")
	switch {
	case err != nil:
		return 0, err
	case done && is(v, "ii"):
		return v.At(1).Int(), nil
	case !done && is(v, "i"):
		return 0, nil
	}
	return 0, unexpected(numberRead, v)
}

// NumberSet sets a number if there is none, and announces that with a message.
// It reports false if there was one. With set true, err may still say, with
// class Denied, that waiters could not be notified.
func NumberSet(ctx context.Context, d driver.Driver, key string, op Operation, n int, channel, message string, p Publish) (set bool, err error) {
	return changed(ctx, d, counting(numberSet, key, op, p, strconv.Itoa(n), channel, message))
}

// NumberDelete deletes a number, and announces that with a message. It reports
// false if there was none; as with [NumberSet] it may report true with an error.
func NumberDelete(ctx context.Context, d driver.Driver, key string, op Operation, channel, message string, p Publish) (deleted bool, err error) {
	return changed(ctx, d, counting(numberDelete, key, op, p, channel, message))
}
