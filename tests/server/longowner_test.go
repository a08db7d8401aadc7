package server

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestRealLongOwnersAreFreedByForce(t *testing.T) {
	server := redistest.Single(t)
	freesLongOwners(t, func(t *testing.T, try func(t *testing.T, d driver.Driver)) {
		try(t, dialers["goredis"](t, server.Addr(), ""))
	})
}
