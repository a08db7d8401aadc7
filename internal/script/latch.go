package script

import (
	"context"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var latchCountDown = load("latch_count_down", "number")

// LatchCountDown counts the latch key down by one, and returns how much is left: 0 if it
// is open. With done true, err may still say, with class Denied, that waiters could not
// be notified.
func LatchCountDown(ctx context.Context, d driver.Driver, key string, op Operation, p Publish) (left int64, done bool, err error) {
	v, done, err := counted(ctx, d, counting(latchCountDown, key, op, p, keyspace.LatchChannel(key)), "i")
	switch {
	case done:
		return v.At(1).Int(), true, err
	case err == nil:
		err = unexpected(latchCountDown, v)
	}
	return 0, false, err
}
