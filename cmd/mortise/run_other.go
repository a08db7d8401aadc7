//go:build !unix

package main

import (
	"context"
	"errors"
)

// run needs process groups and signals, which this system does not have: when the lock is lost, the
// command could not be ended with everything it has started.
func (a *app) run(context.Context, *plan) error {
	return &exitError{code: exitUsage, err: errors.New("run works on Unix systems only"), hint: "It works in WSL."}
}
