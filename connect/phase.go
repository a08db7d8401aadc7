package connect

import (
	"errors"
	"fmt"
	"net"
	"strings"

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
