// Package contender gives systems of locks one face, so that the same faults can be put to all of
// them: each with the settings and the calls that its own documentation shows.
package contender

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// Config says what a client connects to, and how.
type Config struct {
	System   string        `json:"system"`
	Addr     string        `json:"addr"`
	Replicas []string      `json:"replicas,omitempty"` // of the server at Addr
	Nodes    []string      `json:"nodes,omitempty"`    // independent servers, instead of Addr
	Lease    time.Duration `json:"lease"`              // after the last renewal; 0: the system's default
	Fenced   bool          `json:"fenced,omitempty"`   // with tokens
	Fair     bool          `json:"fair,omitempty"`     // first come, first served
	// FairWait is how long a fair lock waits for a waiter that is silent, where that can be set; 0:
	// the default.
	FairWait time.Duration `json:"fairWait,omitempty"`
}

// Client is one client of a system.
type Client interface {
	// Lock waits for the lock at most for wait.
	Lock(ctx context.Context, name string, wait time.Duration) (Hold, error)
	Close()
}

// Hold is a lock that is held.
type Hold interface {
	// Check is what a holder can ask just before it writes. Its error says that the lock is lost, or
	// that it cannot be known.
	Check() error
	// Lost is closed when the holder is told of the loss without having asked.
	Lost() <-chan struct{}
	// Token is its fencing token; 0 if it has none.
	Token() int64
	Unlock() error
}

// Reentrant is a hold whose owner can acquire the lock again.
type Reentrant interface {
	Again() (Hold, error)
}

// System is a system of locks.
type System struct {
	Name    string
	Module  string                   // its Go module, for the version; or
	Version func() (string, error)   // its version
	Setting string                   // how it is used, and where its documentation says so
	Key     func(name string) string // the key in Redis of a lock

	// Tells says how a holder learns of a loss without asking: from the library, or from a loop that
	// the caller must write.
	Tells string
	// Check says what a holder can ask before a write.
	Check string
	// Subscribes is set if its waiters wait for messages, rather than ask again and again.
	Subscribes bool

	Reenters, Fenced, Fair bool
	Acknowledges           bool // waits for replicas
	Majority               bool // can use several independent servers

	// Variant is the row in which it takes part, if it is another system with other settings, which differ there.
	Variant string

	Open    func(context.Context, Config) (Client, error)
	Command func() *exec.Cmd // runs its clients in another program, instead of Open
	Build   func() error     // prepares Command

	// Refused reports whether an error says for certain that another owner has the lock, and Gone
	// whether it says for certain that the lock was not held.
	Refused, Gone func(error) bool
}

// What tells a holder of a loss.
const (
	ByLibrary = "the library"
	ByLoop    = "a loop of the caller's"
)

// Systems are those that are compared.
var Systems = []*System{redsyncSystem, redislockSystem, rueidislockSystem, rueidislockDefault, redissonSystem, mortiseSystem, mortiseDefault}

// Find returns the system called name, or nil.
func Find(name string) *System {
	for _, s := range Systems {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// itself is the key of a lock whose key is its name.
func itself(name string) string { return name }

// matches returns a function that reports whether an error matches one of those.
func matches(these ...error) func(error) bool {
	return func(err error) bool {
		for _, e := range these {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
}
