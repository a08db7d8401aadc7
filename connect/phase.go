package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// Phase is a part of connecting.
type Phase string

// The phases, in their order.
const (
	PhaseResolve Phase = "resolve" // finding the address of a host
	PhaseConnect Phase = "connect" // reaching the server, and its first reply
	PhaseTLS     Phase = "tls"
	PhaseAuth    Phase = "auth" // user, password and rights
)

// PhaseError says in which phase [Open] failed, and with which servers. errors.As finds it in the error of Open.
type PhaseError struct {
	Phase Phase
	Hosts []string
	Err   error
}

var phaseTexts = map[Phase]string{
	PhaseResolve: "resolve the host of Redis at",
	PhaseConnect: "connect to Redis at",
	PhaseTLS:     "set up TLS with Redis at",
	PhaseAuth:    "authenticate to Redis at",
}

// Error names the phase and the hosts.
func (e *PhaseError) Error() string {
	return fmt.Sprintf("%s %s: %v", phaseTexts[e.Phase], strings.Join(e.Hosts, ", "), e.Err)
}

// Unwrap returns Err.
func (e *PhaseError) Unwrap() error { return e.Err }

// matching is an error that also matches a sentinel of package mortise.
type matching struct {
	error
	also error
}

func (e *matching) Is(target error) bool { return target == e.also }
func (e *matching) Unwrap() error        { return e.error }

// lateError is an error by a time limit of this package or the client. It does not match the errors of contexts: those
// mean that the caller's has ended.
type lateError struct{ err error }

// late returns err, or a lateError if it matches the error of a deadline.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return lateError{err}
	}
	return err
}

func (e lateError) Error() string {
	return strings.ReplaceAll(e.err.Error(), context.DeadlineExceeded.Error(), "no answer in time")
}

func (e lateError) As(target any) bool { return errors.As(e.err, target) }
func (e lateError) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(e.err, target)
}

// sentinelOf returns what package mortise would say of an error with that class.
func sentinelOf(class driver.Class) error {
	switch class {
	case driver.Denied:
		return mortise.ErrDenied
	case driver.NotSent, driver.Unknown, driver.Passing:
		return mortise.ErrUnreachable
	}
	return mortise.ErrInvalid
}

// handshakeError is an error of a TLS handshake.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

func phaseOf(class driver.Class, err error) Phase {
	var dns *net.DNSError
	var handshake handshakeError
	switch {
	case class == driver.Denied:
		return PhaseAuth
	case errors.As(err, &dns):
		return PhaseResolve
	case errors.As(err, &handshake):
		return PhaseTLS
	}
	return PhaseConnect
}
