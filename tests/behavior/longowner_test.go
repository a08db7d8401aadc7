package behavior

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// An owner that is too long to be told with a refusal can be freed all the same:
// what lists owners tells them whole.
func TestLongOwnersAreFreedByForce(t *testing.T) {
	freesLongOwners(t, func(t *testing.T, try func(t *testing.T, d driver.Driver)) {
		bubble(t, func(t *testing.T, s *memredis.Server) { try(t, s.Driver()) })
	})
}
