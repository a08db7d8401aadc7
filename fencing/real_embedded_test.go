//go:build !server

package fencing_test

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
)

// onServer does nothing: without the build tag server, tests run on the embedded
// Redis only.
func onServer(*testing.T, func(t *testing.T, d driver.Driver)) {}
