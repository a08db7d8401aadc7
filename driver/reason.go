package driver

import (
	"errors"
	"strings"
)

// reasons says in plain words why Redis cannot serve, by the beginning of its error reply.
var reasons = []struct{ reply, text string }{
	{"OOM ", "it is out of memory, so it accepts no writes"},
	{"READONLY ", "it is a replica, so it accepts no writes"},
	{"NOREPLICAS ", "too few replicas are connected to it, so it accepts no writes"},
	{"ERR max number of clients", "it has as many clients as it admits"},
	{"MISCONF ", "it cannot save its data, so it accepts no writes"},
	{"LOADING ", "it is loading its data"},
	{"MASTERDOWN ", "it is a replica without a master"},
	{"CLUSTERDOWN ", "its cluster is down"},
	{"BUSY ", "a script has been running for too long"},
}

// Reason says in plain words why Redis cannot serve, if err is an error reply that says so and the
// cause is known, and returns "" otherwise.
func Reason(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Class != Passing {
		return ""
	}
	for _, r := range reasons {
		if strings.HasPrefix(e.Reply, r.reply) {
			return r.text
		}
	}
	return ""
}
