package lease

import (
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Config configures a client.
type Config struct {
	Driver       driver.Driver
	Invalid      error         // why every operation fails; nil if the options are acceptable
	TTL          time.Duration // of a lease that is renewed
	RetryFor     time.Duration // negative: as long as the context of the operation lasts
	UnlockFor    time.Duration // not positive: until the lease ends
	FairWait     time.Duration // the fairLockWaitTimeout of Redisson's clients; 0 for the default
	Prefix       string        // what every name in Redis begins with
	AllowAnyName bool
	Errors       Errors

	// Publish returns how releases are announced.
	Publish func(driver.Topology) script.Publish

	// OnClockJump, if set, is called in a goroutine of its own when a server's clock was
	// set.
	OnClockJump func(server string, jump time.Duration)

	// Observe, if set, receives what happens. It must be quick.
	Observe func(outcome.Event)

	// Identity is what the client publishes about its process in its record; nil if it has no record.
	Identity *record.Body

	// Link, if set, returns how others can refer to the hold of a call.
	Link func(call uint64) string

	// History is how many acquisitions of each lock are recorded; 0 for none.
	History int

	// OnAsk, if set, decides what happens to a hold whose release was asked for.
	OnAsk func(h *Hold, err error)

	Start func(run func()) // starts background work in a test; else nil
}
