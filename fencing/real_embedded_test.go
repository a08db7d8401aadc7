//go:build !server

package fencing_test

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
)

// onServer does nothing: without the build tag server, tests use only the embedded Redis.
func onServer(*testing.T, func(t *testing.T, d driver.Driver)) {}
