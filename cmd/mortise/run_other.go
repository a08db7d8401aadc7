//go:build !unix

package main

import (
	"context"
	"errors"
)

// run needs process groups and signals, which this system does not have: the
// command could not be ended, with all it has started, when the lock is lost.
func (a *app) run(context.Context, *plan) error {
	return &exitError{code: exitUsage, err: errors.New("run works on Unix systems only"), hint: "In WSL it does."}
}
