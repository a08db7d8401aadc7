package waiting

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/terms"
	"go.uber.org/goleak"

	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client with the default options of package mortise.
func newClient(d driver.Driver) *lease.Client {
	c := lease.New(lease.Config{
		Driver: d, TTL: 30 * time.Second, RetryFor: 10 * time.Second, Errors: testErrors{},
		Publish: func(driver.Topology) script.Publish { return script.Classic },
	})
	New(c)
	return c
}

var plainUse = lease.NewUse(lease.Class{})

var testTraits = lease.Traits{Use: plainUse, Turns: true, Grantable: true, HandsOff: true, Batched: true}

// plainLock returns a lock with the properties of a plain lock.
func plainLock(c *lease.Client, name string) *lease.Lock {
	k, ops := new(lease.Lock), c.Conn().Lock(name)
	k.Init(c.Object(name), &testTraits, &ops)
	return k
}

// testErrors makes errors that match the sentinel errors.
type testErrors struct{}

func (testErrors) Operation(op, name string, err error) error {
	return fmt.Errorf("%s %q: %w", op, name, err)
}

func (testErrors) Held(by script.Holder) error {
	return fmt.Errorf("%w: %s", outcome.ErrLocked, by.Owner)
}

func (testErrors) NoPermits(script.PermitRefusal) error { return errors.New("too few permits") }

func (testErrors) Lost(reason lease.LostReason, _ time.Time, err error) error {
	return fmt.Errorf("%w: for reason %d: %w", outcome.ErrLost, reason, err)
}

func (testErrors) FenceRegressed(key string, seen, drawn int64) error {
	return fmt.Errorf("the token %s was %d and is %d", key, seen, drawn)
}

func (testErrors) NotDurable(terms.DurabilityLack) error { return outcome.ErrNotDurable }

func (testErrors) ClockJump(server string, jump time.Duration) error {
	return fmt.Errorf("the clock of %s jumped by %v", server, jump)
}

func (testErrors) Revoked(_, _ string) error                                 { return errors.New("asked to release the lock") }
func (testErrors) Deadlock(_ []record.CycleWait) error                       { return errors.New("deadlock") }
func (testErrors) Identify(_ error, _ string, _ func(string) *record.Client) {}
