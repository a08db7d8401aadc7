package lockmgr

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise/driver"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client with the default options of package mortise.
func newClient(d driver.Driver) *Client {
	return New(Config{
		Driver: d, TTL: 30 * time.Second, RetryFor: 10 * time.Second, Errors: testErrors{},
		Publish: func(driver.Topology) script.Publish { return script.Classic },
	})
}

var plainUse = NewUse(Class{})

var testTraits = Traits{Use: plainUse, Turns: true, Grantable: true, HandsOff: true, Batched: true}

// plainLock returns a lock with the properties of a plain lock.
func plainLock(c *Client, name string) *Lock {
	k, ops := new(Lock), c.conn.Lock(name)
	k.Init(c.Object(name), &testTraits, &ops)
	return k
}

// testErrors makes errors that match the sentinel errors.
type testErrors struct{}

func (testErrors) Operation(op, name string, err error) error {
	return fmt.Errorf("%s %q: %w", op, name, err)
}

func (testErrors) Held(by script.Holder) error {
	return fmt.Errorf("%w: %s", ErrLocked, by.Owner)
}

func (testErrors) NoPermits(script.PermitRefusal) error { return errors.New("too few permits") }

func (testErrors) Lost(reason LostReason, _ time.Time, err error) error {
	return fmt.Errorf("%w: for reason %d: %w", ErrLost, reason, err)
}

func (testErrors) FenceRegressed(key string, seen, drawn int64) error {
	return fmt.Errorf("the token %s was %d and is %d", key, seen, drawn)
}

func (testErrors) NotDurable(DurabilityLack) error { return ErrNotDurable }

func (testErrors) ClockJump(server string, jump time.Duration) error {
	return fmt.Errorf("the clock of %s jumped by %v", server, jump)
}

func (testErrors) Revoked(_, _ string) error                          { return errors.New("asked to release the lock") }
func (testErrors) Deadlock(_ []CycleWait) error                       { return errors.New("deadlock") }
func (testErrors) Identify(_ error, _ string, _ func(string) *Record) {}
